"""Which questions of a rule were answered so that it had to be silent.

Rules stand back by asking: `if program.cut_short or program.managed_by: return`. The answers that make them do so are
noted where they are given, so that no rule has to speak of its silence itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from typing import Any

from gpudoctor.coverage import Cause, Silence
from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.value import Value


class GuardLog:
    """The silencing answers that were given since the last look."""

    __slots__ = ("_given",)

    def __init__(self) -> None:
        self._given: list[Silence] = []

    def note(self, cause: Cause, what: str = "", at: Location | None = None, about: str = "") -> None:
        """Why a rule has to be silent, as it is told."""
        self._given.append(Silence(cause, (), what, at, about=about))

    def taken(self) -> list[Silence]:
        """What was given since it was asked last."""
        given, self._given = self._given, []
        return given


class Standing(frozenset[str]):
    """The frameworks in charge. To find one there, after leaving out those that a rule knows, is told."""

    __slots__ = ("tell",)
    tell: Callable[[], None]

    @classmethod
    def of(cls, names: Iterable[str], tell: Callable[[], None]) -> Standing:
        made = cls(names)
        made.tell = tell
        return made

    def __bool__(self) -> bool:
        if not len(self):
            return False
        self.tell()
        return True

    def __sub__(self, other: AbstractSet[object]) -> Standing:
        return Standing.of(self.difference(other), self.tell)

    def __le__(self, other: AbstractSet[object]) -> bool:
        within = self.issubset(other)
        if not within:
            self.tell()
        return within


class Gone(frozenset["Value"]):
    """The objects that went into code that could not be read. To find one among them is told."""

    __slots__ = ("tell",)
    tell: Callable[[Value], None]

    @classmethod
    def of(cls, values: Iterable[Value], tell: Callable[[Value], None]) -> Gone:
        made = cls(values)
        made.tell = tell
        return made

    def __contains__(self, value: object) -> bool:
        within = frozenset.__contains__(self, value)
        if within:
            self.tell(value)  # type: ignore[arg-type]
        return within

    def __and__(self, other: AbstractSet[Any]) -> frozenset[Value]:
        common = self.intersection(other)
        for value in common:
            self.tell(value)
        return common

    __rand__ = __and__

    def __bool__(self) -> bool:
        for value in self:
            self.tell(value)
            return True
        return False
