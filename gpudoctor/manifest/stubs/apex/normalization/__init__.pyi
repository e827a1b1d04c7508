"""Layers that compute what those of PyTorch do, in one kernel."""

import torch

from gpudoctor.manifest.effects import followed

@followed()
def FusedLayerNorm(normalized_shape, eps=1e-5, elementwise_affine=True, **more):
    return torch.nn.LayerNorm(normalized_shape, eps, elementwise_affine)

@followed()
def FusedRMSNorm(normalized_shape, eps=1e-5, elementwise_affine=True, **more):
    return torch.nn.RMSNorm(normalized_shape, eps, elementwise_affine)

MixedFusedLayerNorm = FusedLayerNorm
MixedFusedRMSNorm = FusedRMSNorm
