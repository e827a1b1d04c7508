"""Where older versions define them."""

from timm.optim import create_optimizer as create_optimizer
from timm.optim import create_optimizer_v2 as create_optimizer_v2
