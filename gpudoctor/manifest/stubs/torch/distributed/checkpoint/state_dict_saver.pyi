"""Where torch defines them."""

from torch.distributed.checkpoint import *
