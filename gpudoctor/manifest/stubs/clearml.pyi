"""A tracker of experiments."""

from gpudoctor.manifest.effects import starts_logger

class Task:
    @classmethod
    @starts_logger()
    def init(cls, **more): ...
