"""Where timm defines them."""

from timm.data import create_loader as create_loader
