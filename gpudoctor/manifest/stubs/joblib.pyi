"""Objects that are written."""

from gpudoctor.manifest.effects import saves

@saves(path="filename", whole=True)
def dump(value, filename, **more): ...
