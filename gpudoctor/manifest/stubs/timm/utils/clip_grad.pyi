"""Where timm defines them."""

from timm.utils import dispatch_clip_grad as dispatch_clip_grad
