"""Which samples a rank takes."""

from gpudoctor.manifest.effects import matters

@matters()
class DistributedSampler: ...
