"""Where they were until timm 0.8."""

from timm.layers import convert_sync_batchnorm as convert_sync_batchnorm
