"""Where timm defines them."""

from timm.data import create_dataset as create_dataset
