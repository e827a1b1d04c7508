"""What goes wrong while an entry is examined, kept apart from what is found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.errors import GpudoctorError, InternalError, internal_error
from gpudoctor.lint.interp.budget import OutOfBudget
from gpudoctor.record import dataclass, field

if TYPE_CHECKING:
    from types import TracebackType

_LIMITS = (OutOfBudget, RecursionError, MemoryError)


@dataclass
class Failures:
    """Bugs of ours and limits that were met, so that one of them does not hide what else is found."""

    seen: list[InternalError] = field(default_factory=list)
    limits: list[str] = field(default_factory=list)

    def of(self, what: str) -> _Guard:
        """Remember what goes wrong inside, and say that it was `what` that was being done."""
        return _Guard(what, self)


@dataclass
class _Guard:
    """Turns an exception that nobody expected into a failure. What users are meant to read passes."""

    what: str
    met: Failures

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        if not isinstance(error, Exception) or isinstance(error, GpudoctorError):
            return False
        if isinstance(error, _LIMITS):
            self.met.limits.append(f"{self.what}: {error or type(error).__name__}")
        else:
            self.met.seen.append(internal_error(self.what, error))
        return True
