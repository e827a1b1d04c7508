"""Lightning without a `Trainer`."""

import contextlib

from lightning.fabric.strategies import Strategy, _ddp_options, _shards

from gpudoctor.manifest.effects import (
    FirstRank,
    GlobalRank,
    LocalRank,
    OwnGpu,
    WorldSize,
    backpropagates,
    collective,
    opens,
    possibly,
    prepares,
    saves,
    seeds,
    shows,
)

@seeds(of="torch cuda numpy python", by="seed")
def seed_everything(seed=None, workers=False, verbose=True): ...

class Fabric:
    global_rank: GlobalRank
    local_rank: LocalRank
    world_size: WorldSize
    is_global_zero: FirstRank
    device: OwnGpu
    strategy: Strategy
    def __init__(self, *, accelerator="auto", strategy="auto", **more):
        self._searches, self._static = _ddp_options(strategy, False)
        self._sharded = _shards(strategy)
    @staticmethod
    @seeds(of="torch cuda numpy python", by="seed")
    def seed_everything(seed=None, workers=None, verbose=True): ...
    @collective(waits=True, starts=True)
    def launch(self, function=None, *args, **more):
        if possibly(function is not None):
            return function(self, *args, **more)
    @prepares()
    def setup(self, module, *optimizers, **more): ...
    @prepares()
    def setup_module(self, module, move_to_device=True, **more): ...
    @prepares()
    def setup_optimizers(self, *optimizers): ...
    @prepares()
    def setup_dataloaders(self, *dataloaders, **more): ...
    # One loader.
    _setup_dataloader = setup_dataloaders
    @backpropagates(loss="tensor")
    def backward(self, tensor, *args, model=None, **more): ...
    @collective(gathers=True, passes_gradients="sync_grads")
    def all_gather(self, data, group=None, sync_grads=False): ...
    @collective(writes="data", adds_up=True)
    def all_reduce(self, data, group=None, reduce_op="mean"): ...
    @collective(waits=True)
    def barrier(self, name=None): ...
    def no_backward_sync(self, module, enabled=True):
        return module.no_sync() if enabled else contextlib.nullcontext()
    @opens()
    def autocast(self): ...
    @opens()
    def rank_zero_first(self, local=False): ...
    @saves(path="path", checkpoint=True, by_parts=True)
    @collective(waits=True)
    def save(self, path, state, filter=None): ...
    @shows()
    def print(self, **more): ...
    @shows()
    def log(self, name, value, step=None): ...
    @shows()
    def log_dict(self, metrics, step=None): ...
