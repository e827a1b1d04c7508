"""Names of runs made from the time differ between ranks at the turn of a second."""

from gpudoctor.manifest.effects import Moment

class datetime:
    @classmethod
    def now(cls, tz=None) -> Moment: ...
    @classmethod
    def today(cls) -> Moment: ...
    @classmethod
    def utcnow(cls) -> Moment: ...
