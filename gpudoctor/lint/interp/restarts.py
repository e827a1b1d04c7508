"""Why an execution begins again: what it may take for granted of the settings, once they were asked about."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gpudoctor.lint.domain.symbols import OneOf
from gpudoctor.lint.domain.value import Const, Truth
from gpudoctor.lint.events.knowledge import UseManaged
from gpudoctor.lint.events.model import Wrap
from gpudoctor.lint.events.training_step import Backward
from gpudoctor.lint.flow.condition import Condition, Inequality, Literal, complement
from gpudoctor.lint.flow.valueset import ValueSet
from gpudoctor.lint.interp.limits import MAX_UNDECIDED

if TYPE_CHECKING:
    from gpudoctor.lint.domain.rank import RankKind
    from gpudoctor.lint.domain.value import Term
    from gpudoctor.lint.events.event_context import Event

_ONE = (("==", 1, True), (">", 1, False), ("<", 2, True))


class RefineAndRestart(Exception):
    """A switch was learnt: the execution begins again with it decided."""


class NeedsWorld(Exception):
    """The program launches its processes itself: it must be executed in another world."""


def has_distributed(log: Sequence[Event]) -> bool:
    """A model is wrapped, or a framework in charge."""
    return any(type(each) is UseManaged or (type(each) is Wrap and each.kind.synchronises) for each in log)


def begins_to_train(log: Sequence[Event]) -> bool:
    """Gradients are asked for."""
    return any(type(each) is Backward for each in log)


class _WaitingWrap(NamedTuple):
    """A model was wrapped on one side of a choice, of which others are to be followed yet."""

    path: Condition
    switches: dict[Hashable, bool]
    """The answers of the user's that led there."""
    choice: int
    """How many choices are open around the one that decides."""
    since: int
    """The statements until then."""


class Choices:
    """The open choices, and the wraps under them of which is not known yet whether a switch turned them on.

    Where each side of a choice wraps the model, as in `FSDP(model) if args.fsdp else DDP(model)`, it turns nothing on.
    Which of them do is known when all sides were followed.
    """

    __slots__ = ("open", "waiting")

    def __init__(self) -> None:
        self.open: list[tuple[Condition, bool]] = []
        """Each with the path that led there, and whether some of it is to be followed after this side."""
        self.waiting: list[_WaitingWrap] = []

    @property
    def first(self) -> dict[Hashable, bool]:
        """The switches around the first wrap that waits."""
        return self.waiting[0].switches if self.waiting else {}

    def wrapped(self, path: Condition, switches: dict[Hashable, bool], now: int, at_once: bool) -> dict[Hashable, bool]:
        """A model is wrapped under these switches: those that have turned it on; none where that is to be seen."""
        at = self._innermost(switches)
        if at_once or not self._waits(at):
            return self.first or switches
        # Each layer of a model is sharded.
        if not any(each.path == path and each.choice == at for each in self.waiting):
            self.waiting.append(_WaitingWrap(path, switches, at, now))
        return {}

    def decided(self, path: Condition) -> dict[Hashable, bool]:
        """All sides of the innermost choice were followed, and this is the path behind it: the switches that have
        turned on what was wrapped on some of them."""
        at = len(self.open)
        before = [each for each in self.waiting if each.choice < at]
        here = [each for each in self.waiting if each.choice >= at]
        if not here:
            return {}
        self.waiting = before
        # Of choices inside of one another only the innermost is followed on all sides: what objects of many kinds keep
        # under the answers to several questions is not known well enough.
        return self.first or _left_of(here, path)

    def is_late(self, now: int) -> bool:
        """What waits has waited long enough: all that is done meanwhile is done again where the switch matters."""
        return bool(self.waiting) and now - self.waiting[0].since > MAX_UNDECIDED

    def _innermost(self, switches: dict[Hashable, bool]) -> int:
        """The innermost choice that one of these switches makes; -1 where none does."""
        for at in range(len(self.open) - 1, -1, -1):
            if not switches.keys() <= {literal.atom.key for literal in self.open[at][0].literals}:
                return at
        return -1

    def _waits(self, at: int) -> bool:
        """Another side of this choice wraps the model, or may do so."""
        return at >= 0 and (self.open[at][1] or any(each.choice >= at for each in self.waiting))


def _left_of(here: Sequence[_WaitingWrap], path: Condition) -> dict[Hashable, bool]:
    """The switches that all sides of a choice share, if no side is left out; those of the first one if one is."""
    first = here[0]
    shared = {key: on for key, on in first.switches.items() if all(each.switches.get(key) is on for each in here)}
    chosen = {key for each in here for key in each.switches} - shared.keys()
    asked = {*path, *[each for each in first.path if each.atom.key in shared]}
    where = Condition(frozenset([each for each in asked if each.atom.key not in chosen]))
    return first.switches if complement(where, [each.path for each in here]) else shared


def asks_for_one(literal: Literal) -> bool:
    """It holds where there is one of something: `processes == 1`, `not processes > 1`, whichever of two settings says
    how many processes there are."""
    key, bound = literal.atom.key, literal.atom.bound
    if isinstance(key, OneOf):
        return all(
            isinstance(each, Truth) and asks_for_one(each.literal if literal.holds else each.literal.negated())
            for each in key.values
        )
    return isinstance(bound, Inequality) and (bound.kind, bound.number, literal.holds) in _ONE


def open_switches(literals: Iterable[Literal], assumptions: Mapping[Hashable, bool]) -> dict[Hashable, bool]:
    """Those of these answers that are the user's, and of which nothing is assumed."""
    return {
        literal.atom.key: literal.holds
        for literal in literals
        # A rank test is no switch: all ranks initialise, or none would get on.
        if literal.atom.switch
        and literal.atom.key not in assumptions
        # Nor is this what turns it on: `if processes == 1: worker(0)`, beside the spawn of more.
        and not asks_for_one(literal)
    }


def is_one(number: object) -> bool:
    """These values are the number one."""
    return isinstance(number, ValueSet) and number.single == Const(1)


def rank_of(setting: Term, kind: RankKind) -> Hashable:
    """The key of the assumption that a setting is a rank."""
    return kind, setting
