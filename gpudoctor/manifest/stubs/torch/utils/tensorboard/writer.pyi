"""Where torch defines it."""

from torch.utils.tensorboard import *
