"""The wrapper of many processes."""

from gpudoctor.manifest.effects import trains

@trains()
class DistributedDataParallel:
    def __init__(self, module, device_ids=None, output_device=None, **more): ...
