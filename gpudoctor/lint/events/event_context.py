"""How the program came to an event: its place, the calls that led there, the loops around it, what had to hold."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.container import Enumerated, Range
from gpudoctor.lint.domain.data import Loader
from gpudoctor.lint.domain.symbols import OneOf
from gpudoctor.lint.domain.value import Allocated, Unknown, Values
from gpudoctor.lint.flow.condition import ALWAYS, Condition, Divergence, Literal
from gpudoctor.lint.flow.valueset import ValueSet
from gpudoctor.record import dataclass, field, fields

ONE_BY_ONE = frozenset(
    {"lock", "main_process_first", "local_main_process_first", "rank_zero_first"}
    | {"run_local_rank_zero_first", "one_rank_first"}
)
"""Context managers that let the ranks in one after the other."""


def perhaps_open(names: Sequence[str]) -> tuple[str, ...]:
    """How the log calls contexts that are open on some paths only."""
    return ("no_sync?",) if "no_sync" in names else ()


@dataclass(frozen=True)
class RankAgreement:
    """How far ranks may disagree about what was given, which may be one value or the other: `surely` so whichever it
    is, and `maybe` so for one of them."""

    surely: Divergence
    maybe: Divergence

    @property
    def is_own(self) -> bool:
        """Each process has drawn it for itself, or asked its clock, on some path at least."""
        return bool(self.maybe & Divergence.LOCAL) and not self.maybe & Divergence.UNREAD


def agreement_on(given: Values | None) -> RankAgreement | None:
    """How far ranks agree about it; None where nothing was given."""
    if given is None:
        return None
    surely, maybe = None, Divergence.NONE
    for value in given:
        found = value.divergence
        surely = found if surely is None else surely & found
        maybe = maybe | found
    return RankAgreement(surely or Divergence.NONE, maybe)


@dataclass(frozen=True)
class Loop:
    """One execution of a loop statement. `over` is the loader for a loop over batches, else None.

    `times` is the number of rounds where it is known; `index` is the value of the counter. `pass_` counts how often
    the body was followed: 0 for the first round, 1 for a later one.
    """

    identity: Hashable
    location: Location
    over: Loader | None = field(default=None, compare=False)
    # Not compared: rounds of one execution are one loop, however far it was counted.
    times: int | None = field(default=None, compare=False)
    pass_: int = field(default=0, compare=False)
    entered: int = field(default=0, compare=False)
    """The number of events before the loop began."""
    frame: Hashable = field(default=None, compare=False)
    """The call of a function in which it stands, as in the `frames` of a way."""
    unordered: bool = field(default=False, compare=False)
    """It goes over a set of texts, which each process has in another order."""
    items: frozenset[Allocated] = field(default=frozenset(), compare=False)
    """The objects in the containers that it goes over: each of them has a round of its own."""
    source: ValueSet[Range | Enumerated | Unknown] | None = field(default=None, compare=False)
    """What a `for` goes over."""

    @property
    def repeats(self) -> bool:
        """It may run more than once: `for _ in range(1)` repeats nothing."""
        return self.times is None or self.times > 1

    @property
    def over_models(self) -> bool:
        """Each round has a model of its own."""
        return any(item.is_model for item in self.items)


def _still_parts(guard: Literal, condition: Condition) -> bool:
    """The ranks may answer otherwise, also where the other tests of the condition have come out as they have: of a
    choice among objects, one of which rank 0 alone has, another one may be the same for all."""
    if not isinstance(guard.atom.key, OneOf):
        return True
    others = Condition(condition.literals - {guard})
    left = guard.atom.key.values.restrict(others).bindings
    return any(
        (each.value.divergence | each.condition.difference(others).divergence) & Divergence.RANK for each in left
    )


@dataclass(frozen=True, slots=True)
class EventContext:
    """How the program came to an event."""

    location: Location
    calls: tuple[Location, ...] = ()
    loops: tuple[Loop, ...] = ()
    condition: Condition = ALWAYS
    function: str = ""
    evaluating: bool = False
    """Under `no_grad` or `inference_mode`."""
    contexts: tuple[str, ...] = ()
    """Context managers that are open: `no_sync`, `no_grad`, `autocast`, `join`; `no_sync?` where a test decides it,
    `hook` where each backward calls it."""
    on_import: bool = False
    """Whoever imports the program does it as well: no test of `__name__` leads here."""
    frames: tuple[Hashable, ...] = ()
    """Identities of the open function calls, outermost first."""
    conditions_at_entry: tuple[Condition, ...] = ()
    """The condition of the path when each of `frames` was opened."""
    called_by_decorator: tuple[bool, ...] = ()
    """Whether the caller was given what it called to open each of `frames`, as the inner function of a decorator is."""

    @property
    def importing(self) -> bool:
        """A module does it when the program imports it."""
        return any(isinstance(frame, tuple) and frame[0] == "module" for frame in self.frames[1:])


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that the program does. `order` grows along the log."""

    context: EventContext
    order: int = 0

    @property
    def location(self) -> Location:
        return self.context.location

    @property
    def said(self) -> dict[str, Any]:
        """What it says, beside where and when."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name not in ("context", "order")}

    @property
    def led_there(self) -> tuple[Location, ...]:
        """The calls that led there, and its place: how often it is followed makes no difference."""
        return (*self.context.calls, self.context.location)

    @property
    def loops(self) -> tuple[Loop, ...]:
        return self.context.loops

    @property
    def one_rank_at_a_time(self) -> bool:
        """All ranks may do it, but never two of them together."""
        return not ONE_BY_ONE.isdisjoint(self.context.contexts)

    @property
    def condition(self) -> Condition:
        return self.context.condition

    @property
    def choices(self) -> Condition:
        """The user's choices that lead there: what they exclude does not happen in any round."""
        return Condition(frozenset([each for each in self.condition if each.atom.switch]))

    @property
    def rank_guards(self) -> tuple[Literal, ...]:
        """The tests on the rank that had to come out right to get here; empty where all ranks get here, as far as is
        known: code that was not read may ask its ranks something else than which one they are."""
        condition = self.context.condition
        asked = condition.depending_on(Divergence.RANK)
        # `if helper.should_log(rank):` of code we do not have may hold on every rank.
        own = (literal for literal in asked if not literal.atom.divergence & Divergence.UNREAD)
        return tuple(literal for literal in own if _still_parts(literal, condition))

    @property
    def local_guards(self) -> tuple[Literal, ...]:
        """The tests on data of this rank alone that had to come out right to get here."""
        return self.context.condition.depending_on(Divergence.LOCAL)


def only_some_ranks(event: Event) -> bool:
    """The path to this event depends on the rank."""
    return bool(event.condition.divergence & Divergence.RANK)


def ranks_in_words(event: Event) -> str:
    """Which ranks get here, for a message: `rank 0 only`, `some ranks only`, `every rank`."""
    guards = event.rank_guards
    if not guards:
        return "every rank"
    for guard in guards:
        if guard.atom.ranks:
            return f"{guard.atom.ranks} only" if guard.holds else f"all ranks but {guard.atom.ranks}"
    return "some ranks only"
