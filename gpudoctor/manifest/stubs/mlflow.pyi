"""A tracker of experiments."""

from gpudoctor.manifest.effects import starts_logger

@starts_logger()
def start_run(**more): ...
