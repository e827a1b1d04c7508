"""PyTorch's collectives under DeepSpeed's name, which hands them on to the backend that was chosen."""

from deepspeed import init_distributed as init_distributed
from torch.distributed import *
