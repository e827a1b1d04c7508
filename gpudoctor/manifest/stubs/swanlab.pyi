"""A tracker of experiments."""

from gpudoctor.manifest.effects import starts_logger

@starts_logger()
def init(**more): ...
