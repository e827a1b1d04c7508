"""How a data set is dealt out: as torch does it, or with shares of different lengths."""

import torch

from gpudoctor.manifest.effects import followed

@followed()
def DistributedSampler(dataset, even_divisible=True, num_replicas=None, rank=None, shuffle=True, **more):
    return torch.utils.data.distributed.DistributedSampler(
        dataset, num_replicas=num_replicas, rank=rank, shuffle=shuffle, **more
    )
