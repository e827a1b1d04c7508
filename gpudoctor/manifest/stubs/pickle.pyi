"""Objects that are written."""

from gpudoctor.manifest.effects import saves

@saves(path="file", opened=True, whole=True)
def dump(obj, file, protocol=None, **more): ...
