"""Where a program ends, and where it trains though nothing was seen to come there."""

from __future__ import annotations

from gpudoctor.diagnostic import Location
from gpudoctor.record import dataclass


@dataclass(frozen=True)
class Stop:
    """A statement or a call, as it is written, that ended a program or was not reached by it."""

    what: str
    at: Location
    error: str = ""
    """Python's own exception that is raised there; empty where it is another one, or none."""
    why: str = ""
    """Why it is raised, as a clause that goes on from `what`; empty where the statement says it."""

    @property
    def error_told(self) -> str:
        """The error, and what raises it; empty where the statement says it."""
        return f"{self.error}: `{self.what}` {self.why}" if self.why else ""

    @property
    def told(self) -> str:
        """What ended the program, for people."""
        return self.error_told or self.what


@dataclass(frozen=True)
class Chosen(Stop):
    """A call of what a setting has chosen, and the library callable that makes it, empty where that is not known."""

    by: str = ""


@dataclass(frozen=True)
class NotReached:
    """Where a program trains, as its files are written, and why it was not seen to come there."""

    where: tuple[Stop, ...] = ()
    chosen: Chosen | None = None
    """A call that may lead there, of what a setting has chosen."""
    end: Stop | None = None
    """The error in which a function ends that may lead there, on all its paths."""
