"""Registries: classes of the program that settings name by `type`."""

from gpudoctor.manifest.effects import followed, held, possibly, surely

@followed()
class Registry:
    def register_module(self, name=None, force=False, module=None):
        if module is not None:
            return self._keep(module, name)
        return lambda cls: self._keep(cls, name)
    def _keep(self, cls, name):
        setattr(self, name if surely(isinstance(name, str)) else cls.__name__, cls)
        return cls
    def build(self, cfg, *more, **others):
        if not surely("type" in cfg):
            return cfg
        given = {**cfg}
        kind = given.pop("type", None)
        made = held(self, kind, None if surely(isinstance(kind, str)) else kind)
        return made(**given) if possibly(made is not None) else None

DATASETS: Registry
HOOKS: Registry
LOOPS: Registry
METRICS: Registry
MODELS: Registry
