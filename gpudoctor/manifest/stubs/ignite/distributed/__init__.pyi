"""Its part for several processes."""

import torch
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

from gpudoctor.manifest.effects import (
    GlobalRank,
    LocalRank,
    LocalWorldSize,
    NodeRank,
    OwnGpu,
    WorldSize,
    collective,
    followed,
    surely,
)

def get_rank() -> GlobalRank: ...
def get_local_rank() -> LocalRank: ...
def get_world_size() -> WorldSize: ...
def get_nproc_per_node() -> LocalWorldSize: ...
def get_node_rank() -> NodeRank: ...
def device() -> OwnGpu: ...
def one_rank_only(rank=0, with_barrier=False):
    def decorated(function):
        def only(*args, **more):
            returned = None
            if get_rank() == rank:
                returned = function(*args, **more)
            if surely(with_barrier):
                barrier()
            return returned
        return only
    return decorated

@collective(waits=True)
def barrier(): ...
@collective(sends="tensor", adds_up=True)
def all_reduce(tensor, op="SUM", group=None): ...
@collective(sends="tensor", gathers=True)
def all_gather(tensor, group=None): ...
@collective(sends="tensor", hands_on=True)
def broadcast(tensor, src=0, safe_mode=False): ...
def auto_model(model, sync_bn=False, **more):
    model.to(device())
    if torch.distributed.is_initialized():
        if surely(sync_bn):
            model = torch.nn.SyncBatchNorm.convert_sync_batchnorm(model)
        return torch.nn.parallel.DistributedDataParallel(model, device_ids=[get_local_rank()], **more)
    return model

def auto_optim(optimizer, **more):
    return optimizer

def auto_dataloader(dataset, shuffle=None, sampler=None, batch_size=1, pin_memory=True, **more):
    more["pin_memory"] = pin_memory
    if torch.distributed.is_initialized() and surely(sampler is None):
        if surely(isinstance(dataset, torch.utils.data.IterableDataset)):
            return DataLoader(dataset, batch_size=batch_size, **more)
        shuffled = True if surely(shuffle is None) else shuffle
        dealt = DistributedSampler(dataset, shuffle=shuffled)
        return DataLoader(dataset, sampler=dealt, batch_size=batch_size, **more)
    return DataLoader(dataset, shuffle=shuffle, sampler=sampler, batch_size=batch_size, **more)

@followed()
class Parallel:
    def __init__(self, backend=None, nproc_per_node=None, **more):
        if surely(backend is not None):
            torch.distributed.init_process_group(backend)
    def __enter__(self):
        return self
    def __exit__(self, *error) -> None: ...
    def run(self, func, *args, **more):
        returned = func(get_local_rank(), *args, **more)
        # What the block does at its end: it holds this call alone.
        torch.distributed.destroy_process_group()
        return returned
