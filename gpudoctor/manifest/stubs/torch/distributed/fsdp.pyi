"""The wrapper that shards a model."""

from gpudoctor.manifest.effects import trains

@trains()
class FullyShardedDataParallel:
    def __init__(self, module, process_group=None, **more): ...

@trains()
def fully_shard(module, **more): ...
