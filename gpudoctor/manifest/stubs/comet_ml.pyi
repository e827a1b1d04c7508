"""A tracker of experiments."""

from gpudoctor.manifest.effects import starts_logger

class Experiment:
    @starts_logger()
    def __init__(self, **more): ...
