"""How Lightning spreads a training over ranks."""

from gpudoctor.manifest.effects import OwnGpu, Setting, collective, followed, held, installed_before, surely

class _Strategy:
    root_device: OwnGpu
    def __getattr__(self, name) -> Setting: ...
    @collective(waits=True)
    def barrier(self, name=None): ...
    @collective(hands_on=True, objects=True)
    def broadcast(self, obj, src=0): ...
    @collective(gathers=True, passes_gradients="sync_grads")
    def all_gather(self, tensor, group=None, sync_grads=False): ...

class Strategy(_Strategy):
    @collective(adds_up=True)
    def all_reduce(self, tensor, group=None, reduce_op="mean"): ...

@followed()
class DDPStrategy:
    _usual: Setting
    def __init__(self, *more, find_unused_parameters=False, static_graph=False, **others):
        # Before version 2 it searched unless it was told otherwise.
        usual = installed_before("lightning", 2) and surely(not find_unused_parameters)
        self.find_unused_parameters = self._usual if usual else find_unused_parameters
        self.static_graph = static_graph

@followed()
class FSDPStrategy:
    def __init__(self, *more, sharding_strategy="FULL_SHARD", **others):
        self.sharding_strategy = sharding_strategy

@followed()
def _shards(strategy):
    # Whether it surely cuts the parameters into shards.
    if surely(strategy in ["fsdp", "fsdp_cpu_offload", "fsdp_native", "fsdp_native_full_shard_offload"]):
        return True
    return surely(held(strategy, "sharding_strategy", "NO_SHARD") in ["FULL_SHARD", "SHARD_GRAD_OP", "HYBRID_SHARD"])

@followed()
def _ddp_options(strategy, usual):
    # Whether it searches for unused parameters, and has a static graph; None for what may be another strategy than DDP.
    static = held(strategy, "static_graph", None)
    if surely(static is None):
        # "auto" means DDP where there are several processes.
        ways = ["ddp", "ddp_spawn", "ddp_fork", "ddp_notebook"]
        if surely(strategy in [f"{way}_find_unused_parameters_true" for way in ways]):
            return True, False
        if surely(strategy in ["auto", None, *ways]):
            return usual, False
        return (False if surely(strategy in [f"{way}_find_unused_parameters_false" for way in ways]) else None), False
    return strategy.find_unused_parameters, static
