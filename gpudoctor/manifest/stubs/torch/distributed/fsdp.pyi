"""The wrapper that shards a model."""

from gpudoctor.manifest.effects import trains

@trains()
class FullyShardedDataParallel: ...

@trains()
def fully_shard(module, **more): ...
