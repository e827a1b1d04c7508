"""Offers what its part defines."""

from torch.distributed.launcher.api import elastic_launch as elastic_launch
from torch.distributed.launcher.api import launch_agent as launch_agent
