"""Random numbers of the process."""

from gpudoctor.manifest.effects import seeds

@seeds(by="seed")
def seed(seed=None): ...
