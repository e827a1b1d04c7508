"""Which samples a rank takes."""

from gpudoctor.manifest.effects import matters

@matters()
class DistributedSampler:
    def __init__(self, dataset, num_replicas=None, rank=None, shuffle=True, seed=0, drop_last=False): ...
