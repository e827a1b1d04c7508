"""Lightning without a `Trainer`."""

from gpudoctor.manifest.effects import FirstRank, GlobalRank, LocalRank, WorldSize, collective

class Fabric:
    global_rank: GlobalRank
    local_rank: LocalRank
    world_size: WorldSize
    is_global_zero: FirstRank
    @collective(gathers=True)
    def all_gather(self, data, group=None, sync_grads=False): ...
    @collective(adds_up=True)
    def all_reduce(self, data, group=None, reduce_op="mean"): ...
    @collective(waits=True)
    def barrier(self, name=None): ...
