"""Where timm defines them."""

from timm.utils import AverageMeter as AverageMeter
