"""Settings as attributes."""

from gpudoctor.manifest.effects import Setting

def EasyDict(d=None, **more) -> Setting: ...
