"""Layers, and what changes those of a model."""

import torch

from gpudoctor.manifest.effects import followed

@followed()
def convert_sync_batchnorm(module, process_group=None):
    return torch.nn.SyncBatchNorm.convert_sync_batchnorm(module)
