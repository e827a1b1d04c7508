"""Objects that are written."""

from gpudoctor.manifest.effects import saves

@saves(path="stream", opened=True, whole=True)
def dump(data, stream=None, **more): ...
