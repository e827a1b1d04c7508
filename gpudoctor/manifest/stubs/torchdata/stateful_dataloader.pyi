"""A drop-in replacement: the same order of arguments, the same meaning of `sampler`."""

from torch.utils.data import DataLoader

StatefulDataLoader = DataLoader
