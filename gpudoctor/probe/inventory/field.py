"""A fact about the machine that may not be there: its value, or why there is none."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from gpudoctor.plain import Form, from_plain
from gpudoctor.record import dataclass

T = TypeVar("T")
U = TypeVar("U")
_MISSING = "not_available"


class Absence(enum.Enum):
    """What kind of reason a missing value has. Only a few of them mean that something is broken."""

    NOT_ASKED = "not-asked"
    NOT_OFFERED = "not-offered"
    """The hardware or the system has no such thing: normal for consumer GPUs, MIG and WSL."""
    OLD_DRIVER = "old-driver"
    """The driver lacks the function, or knows only an older form of it."""
    FORBIDDEN = "forbidden"
    NOT_INSTALLED = "not-installed"
    NO_DRIVER = "no-driver"
    MISMATCH = "mismatch"
    """Kernel module and user library of the driver come from different versions."""
    LOST = "lost"
    """The GPU has fallen off the bus, or needs a reset."""
    TIMED_OUT = "timed-out"
    FAILED = "failed"


@dataclass(frozen=True)
class _Missing:
    """What JSON has where there is no value."""

    not_available: str
    kind: Absence = Absence.FAILED


@dataclass(frozen=True)
class Field(Generic[T]):
    """A value, or the reason why there is none. `None` is never a value."""

    value: T | None = None
    why_not: str = ""
    absence: Absence = Absence.NOT_ASKED

    @property
    def known(self) -> bool:
        return self.value is not None

    def get(self) -> T:
        """The value; ask `known` before."""
        if self.value is None:
            raise LookupError(self.why_not)
        return self.value

    def or_else(self, default: U) -> T | U:
        return default if self.value is None else self.value

    def as_plain(self) -> Any:
        """The value itself, or why there is none."""
        return self.value if self.known else {_MISSING: self.why_not, "kind": self.absence}

    @classmethod
    def form(cls, of: Form) -> Form:
        """The field of what JSON has for it."""

        def read(found: Any) -> Field[Any]:
            if isinstance(found, dict) and _MISSING in found:
                why = from_plain(_Missing, found)
                return Field(None, why.not_available, why.kind)
            return Field(of(found))

        return read

    def then(self, change: Callable[[T], U]) -> Field[U]:
        """The changed value, or the same reason."""
        if self.value is None:
            return Field(None, self.why_not, self.absence)
        return Field(change(self.value))

    def __str__(self) -> str:
        return f"not available, because {self.why_not}" if self.value is None else str(self.value)


NOT_ASKED: Field[Any] = Field(None, "nobody asked", Absence.NOT_ASKED)


def known(value: T) -> Field[T]:
    return Field(value)


def absent(why_not: str, absence: Absence = Absence.NOT_OFFERED) -> Field[Any]:
    return Field(None, why_not, absence)
