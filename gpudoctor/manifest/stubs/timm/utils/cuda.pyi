"""Where timm defines them."""

from timm.utils import NativeScaler as NativeScaler
