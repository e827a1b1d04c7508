"""What a training is told."""

from gpudoctor.manifest.effects import Setting

def get_cfg() -> Setting: ...
