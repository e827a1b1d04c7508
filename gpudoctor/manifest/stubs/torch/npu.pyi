"""Huawei's, of a library of its own."""

from torch.xpu import is_available as is_available
