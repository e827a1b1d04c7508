"""The wrapper of many processes."""

from gpudoctor.manifest.effects import trains, wraps

@trains()
class DistributedDataParallel:
    @wraps(module="module", kind="DDP")
    def __init__(self, module, device_ids=None, output_device=None, **more): ...
