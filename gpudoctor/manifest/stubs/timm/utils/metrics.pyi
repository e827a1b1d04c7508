"""Where timm defines them."""

from timm.utils import AverageMeter as AverageMeter
from timm.utils import accuracy as accuracy
