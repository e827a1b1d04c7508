"""The wrapper of many processes."""

from gpudoctor.manifest.effects import trains

@trains()
class DistributedDataParallel: ...
