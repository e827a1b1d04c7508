"""Where timm defines them."""

from timm.utils import random_seed as random_seed
