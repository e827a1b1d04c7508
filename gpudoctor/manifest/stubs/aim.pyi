"""A tracker of experiments."""

from gpudoctor.manifest.effects import starts_logger

class Run:
    @starts_logger()
    def __init__(self, **more): ...
