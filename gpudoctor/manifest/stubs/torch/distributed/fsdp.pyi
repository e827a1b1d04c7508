"""The wrapper that shards a model."""

from gpudoctor.manifest.effects import trains, wraps

@trains()
class FullyShardedDataParallel:
    @wraps(module="module", kind="FSDP")
    def __init__(self, module, process_group=None, **more): ...

@trains()
def fully_shard(module, **more): ...
