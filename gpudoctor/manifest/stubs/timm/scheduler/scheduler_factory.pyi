"""Where timm defines them."""

from timm.scheduler import create_scheduler as create_scheduler
from timm.scheduler import create_scheduler_v2 as create_scheduler_v2
