"""Loaders of graphs, and of nodes of one graph with their neighbours: with `use_ddp` they distribute them
themselves."""

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

@followed()
def DataLoader(
    graph,
    indices,
    graph_sampler,
    device=None,
    use_ddp=False,
    ddp_seed=0,
    batch_size=1,
    drop_last=False,
    shuffle=False,
    use_prefetch_thread=None,
    use_alternate_streams=None,
    pin_prefetcher=None,
    use_uva=False,
    **more,
):
    if possibly(use_ddp):
        # It draws anew for each epoch by itself.
        dealt = torch.utils.data.distributed.DistributedSampler(indices, shuffle=False)
        return torch.utils.data.DataLoader(indices, batch_size, sampler=dealt, drop_last=drop_last, **more)
    return torch.utils.data.DataLoader(indices, batch_size, shuffle=shuffle, drop_last=drop_last, **more)

NodeDataLoader = DataLoader
