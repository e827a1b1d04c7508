"""A loader of graphs: with `use_ddp` it distributes the samples itself."""

import torch

from gpudoctor.manifest.effects import followed, possibly

@followed()
def GraphDataLoader(dataset, collate_fn=None, use_ddp=False, ddp_seed=0, *, shuffle=False, **more):
    if possibly(use_ddp):
        dealt = torch.utils.data.distributed.DistributedSampler(dataset, shuffle=shuffle)
        loader = torch.utils.data.DataLoader(dataset, sampler=dealt, **more)
        loader.set_epoch = dealt.set_epoch
        return loader
    return torch.utils.data.DataLoader(dataset, shuffle=shuffle, **more)
