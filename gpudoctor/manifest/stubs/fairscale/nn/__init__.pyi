"""The wrapper that shards a model, and one that computes activations again, which takes charge of nothing."""

from gpudoctor.manifest.effects import gives_back, wraps

class FullyShardedDataParallel:
    @wraps(module="module", kind="FSDP")
    def __init__(self, module, process_group=None, **more): ...

@gives_back(given="module")
def checkpoint_wrapper(module, offload_to_cpu=False): ...
