"""Settings that are written."""

from gpudoctor.manifest.effects import saves

class OmegaConf:
    @staticmethod
    @saves(path="f", whole=True)
    def save(config, f, resolve=False): ...
