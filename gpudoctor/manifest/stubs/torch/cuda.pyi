"""Random numbers of the GPUs."""

from gpudoctor.manifest.effects import seeds

@seeds(by="seed")
def manual_seed(seed): ...
@seeds(by="seed")
def manual_seed_all(seed): ...
