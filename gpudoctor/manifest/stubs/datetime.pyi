"""Names of runs made from the time differ between ranks at the turn of a second."""

from gpudoctor.manifest.effects import PointInTime

class datetime:
    @classmethod
    def now(cls, tz=None) -> PointInTime: ...
    @classmethod
    def today(cls) -> PointInTime: ...
    @classmethod
    def utcnow(cls) -> PointInTime: ...
