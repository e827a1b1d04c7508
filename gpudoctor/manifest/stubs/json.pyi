"""Objects that are written."""

from gpudoctor.manifest.effects import saves

@saves(path="fp", opened=True, whole=True)
def dump(obj, fp, **more): ...
