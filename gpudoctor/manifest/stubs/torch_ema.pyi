"""Averages of parameters, beside any model."""

from gpudoctor.manifest.effects import overwrites

class ExponentialMovingAverage:
    @overwrites(of="parameters")
    def copy_to(self, parameters=None) -> None: ...
    restore = copy_to
