"""What a class of the project does that decides which of its items it gives to whom."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from gpudoctor.lint.domain.provenance import provenance_of
from gpudoctor.lint.domain.value import Const, Unknown, Value, Values
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.interp.machine import NOTHING
from gpudoctor.record import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpudoctor.lint.interp.machine import Machine


@dataclass(slots=True)
class IterationProbe:
    """What was called and picked while somebody listened."""

    calls: set[str] = field(default_factory=set)
    """The dotted names of the library callables."""
    picks: bool = False
    """Something begins at, or takes each n-th of, a number that is not written there: it may be a share."""
    endless: bool = False
    """There is a `while True`."""
    leaves: bool = False
    """A loop is left before its end."""
    handed_on: Values = NOTHING
    """What the last `yield from` goes over."""

    def called(self, name: str, args: tuple[Values, ...]) -> None:
        """A library callable is called."""
        self.calls.add(name)
        # The second of two is where it ends, which is the same for all.
        if name == "itertools.islice" and len(args) > 2:
            self.picked(args[1])

    def picked(self, *numbers: Values | None) -> None:
        """Something is picked by numbers, such as where to begin."""
        if any(not each.all(_is_alike) for each in numbers if each is not None):
            self.picks = True


def _is_alike(value: Value) -> bool:
    """A constant, or a counter that no setting has moved."""
    return isinstance(value, Const) or (value.divergence == Divergence.BATCH_INDEX and not holds_setting(value))


def holds_setting(value: object) -> bool:
    """What the user has chosen is a part of how a value was computed."""
    return any(isinstance(each, Unknown) and each.config for each in provenance_of(value))


@contextmanager
def probing_iteration(m: Machine) -> Iterator[IterationProbe]:
    """Listen to what is executed inside."""
    before, m.iteration_probe = m.iteration_probe, IterationProbe()
    heard = m.iteration_probe
    try:
        yield heard
    finally:
        m.iteration_probe = before
        if before is not None:
            before.calls |= heard.calls
            before.picks |= heard.picks
            before.endless |= heard.endless
            before.leaves |= heard.leaves
