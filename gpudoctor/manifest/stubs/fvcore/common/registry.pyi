"""Registries: classes and functions of the program, by their own names."""

from gpudoctor.manifest.effects import followed

@followed()
class Registry:
    def __init__(self, name):
        self._obj_map = {}
    def register(self, obj=None):
        return self._kept(obj) if obj is not None else lambda made: self._kept(made)
    def _kept(self, obj):
        self._obj_map[obj.__name__] = obj
        return obj
    def get(self, name):
        return self._obj_map[name]
