"""What an execution takes for granted of its start and of settings, and why it begins again when it learns of them."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TypeAlias

from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.rank import Rank, RankKind, RankSource
from gpudoctor.lint.domain.symbols import Compares, OneOf, speaks_of
from gpudoctor.lint.domain.value import Const, Term, Truth, Unknown, Value, Values, text_of
from gpudoctor.lint.events.event_context import Event
from gpudoctor.lint.events.knowledge import UseManaged
from gpudoctor.lint.events.launch_world import LaunchWorld
from gpudoctor.lint.events.model import Wrap
from gpudoctor.lint.events.training_step import Backward
from gpudoctor.lint.flow.condition import Condition, Inequality, Literal, complement
from gpudoctor.lint.flow.valueset import ValueSet
from gpudoctor.lint.interp.limits import MAX_UNDECIDED
from gpudoctor.lint.interp.position import Frame, Position
from gpudoctor.lint.source.project import ModuleFile
from gpudoctor.lint.source.syntax_walk import nodes_of
from gpudoctor.record import dataclass

_ASKED = sys.maxsize
"""Since when a wrap waits of which it was asked whether others do: until all sides were followed."""
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


@dataclass(frozen=True)
class Declined:
    """That a test was answered with no, which chooses another launcher than the one by which the program is started."""

    key: Hashable


@dataclass(frozen=True)
class OtherWay:
    """That a framework takes charge where a test is answered otherwise than where the program makes its own group."""

    key: Hashable
    holds: bool


@dataclass
class _WaitingWrap:
    """A model was wrapped on one side of a choice, of which others are to be followed yet."""

    path: Condition
    switches: dict[Hashable, bool]
    """The answers of the user's that led there."""
    choice: int
    """How many choices are open around the one that decides."""
    since: int
    """The statements until then."""


OpenChoice: TypeAlias = "tuple[Condition, bool, Sequence[ast.stmt], ModuleFile | None]"
"""A test of which one side is being followed: the path that led there, whether some of it is to be followed after this
side, and the statements of that with their file, where they are known."""


TrainsBeside: TypeAlias = "Callable[[Sequence[ast.stmt], ModuleFile], bool]"
"""Whether the statements of another side, in this file, train as well."""


class Choices:
    """The open choices, and the wraps under them of which is not known yet whether a switch turned them on.

    Where each side of a choice wraps the model, as in `FSDP(model) if args.fsdp else DDP(model)`, it turns nothing on.
    Which of them do is known when all sides were followed.
    """

    __slots__ = ("open", "waiting")

    def __init__(self) -> None:
        self.open: list[OpenChoice] = []
        self.waiting: list[_WaitingWrap] = []

    @property
    def first(self) -> dict[Hashable, bool]:
        """The switches around the first wrap that waits."""
        return self.waiting[0].switches if self.waiting else {}

    def wrapped(
        self, path: Condition, switches: dict[Hashable, bool], now: int, trains: TrainsBeside | None
    ) -> dict[Hashable, bool]:
        """A model is wrapped under these switches: those that have turned it on; none where that is to be seen. It is
        to be told at once where nothing can be asked about other sides."""
        at = self._innermost(switches)
        if trains is None or not self._waits(at):
            return self.first or (switches if trains is None else self._inside_of_another(switches, at, trains))
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

    def _inside_of_another(self, switches: dict[Hashable, bool], at: int, trains: TrainsBeside) -> dict[Hashable, bool]:
        """Those that are asked inside of a choice whose other side trains as well, which turns nothing on:
        `trainer.test() if args.test_only else trainer.fit()`. All of them where there is none."""
        for outer in range(at - 1, -1, -1):
            _, more, other, file = self.open[outer]
            around = {literal.atom.key for literal in self.open[outer + 1][0].literals}
            inside = {key: holds for key, holds in switches.items() if key not in around}
            if more and file is not None and len(inside) < len(switches) and trains(other, file):
                return inside
        return switches

    def decide(self, trains: TrainsBeside, frames: Sequence[Frame]) -> dict[Hashable, bool]:
        """This side of the choice seems to be the whole program: the switches that led here, unless the other side
        trains as well. `finetune(args) if args.finetune else pretrain(args)` turns nothing on."""
        if not self.waiting or self.waiting[0].since == _ASKED:
            return {}
        _, _, other, file = self.open[self.waiting[0].choice]
        if file is None or not trains(other, file) or _calls_one_of(other, frames):
            return self.first
        for each in self.waiting:
            each.since = _ASKED
        return {}

    def _innermost(self, switches: dict[Hashable, bool]) -> int:
        """The innermost choice that one of these switches makes; -1 where none does."""
        for at in range(len(self.open) - 1, -1, -1):
            if not switches.keys() <= {literal.atom.key for literal in self.open[at][0].literals}:
                return at
        return -1

    def _waits(self, at: int) -> bool:
        """Another side of this choice wraps the model, or may do so."""
        return at >= 0 and (self.open[at][1] or any(each.choice >= at for each in self.waiting))


def _calls_one_of(statements: Sequence[ast.stmt], frames: Sequence[Frame]) -> bool:
    """They call what is being followed already, as a search that trains again and again does."""
    calls = (each.func for node in statements for each in nodes_of(ast.Call, node))
    called = {function.id for function in calls if isinstance(function, ast.Name)}
    return any(frame.function is not None and frame.function.label in called for frame in frames)


class AssumedLaunch(Position):
    """What an execution takes for granted of how the program is started, and what it has to be begun anew with."""

    __slots__ = {
        "_world": "How the program is launched.",
        "asked": "The tests that were asked, by their keys: of what nobody asked, an answer may be learnt later, too.",
        "assumptions": "What this execution has begun with, and has learnt before anybody asked.",
        "at_defaults": "What the user chooses among texts is what it is where he chooses nothing.",
        "choices": "Those that are open, and what waits for their other sides.",
        "defaults_matter": "What the user chooses would have been followed otherwise with `at_defaults`.",
        "granted": "Of the assumptions the answers that hold by default: they turn nothing on that would else be off.",
        "launcher_matters": "Something has asked whether a launcher starts the ranks, or the program itself.",
        "or_spawn": "Of a launcher's rank: where the program starts its ranks itself, it was started for that.",
        "refinements": "Assumptions for the next attempt.",
        "tasks_of": "What starts the ranks in the place of `torchrun`, and names them in its own way: `srun`.",
        "to_cluster": "Tests that lead to a job that a cluster does, not this program.",
        "without_group": "Executed for what it does in one process: of no use where it makes a group all the same.",
        "world_matters": "Something has asked how the program is launched: in another world it might go another way.",
    }

    statements: int
    """How many it has executed."""

    def __init__(self, world: LaunchWorld, assumed: dict[Hashable, bool]) -> None:
        super().__init__()
        self._world = world
        self.assumptions = assumed
        self.world_matters = self.launcher_matters = self.or_spawn = False
        self.without_group = self.at_defaults = self.defaults_matter = False
        self.asked: set[Hashable] = set()
        self.tasks_of = ""
        self.refinements: dict[Hashable, bool] = {}
        self.granted: set[Hashable] = set()
        self.to_cluster: set[Hashable] = set()
        self.choices = Choices()

    @property
    def world(self) -> LaunchWorld:
        """How the program is launched. Who asks makes the execution one of this world alone."""
        self.world_matters = self.launcher_matters = True
        return self._world

    @property
    def world_unasked(self) -> LaunchWorld:
        """The same, for those who execute it in that world."""
        return self._world

    @property
    def several_processes(self) -> bool:
        # As many as there are, whoever starts them.
        self.world_matters = True
        return self._world.several_processes

    @property
    def launched_by(self) -> str:
        world = self.world
        return self.tasks_of if self.tasks_of and world is LaunchWorld.TORCHRUN else world.value

    def start_ranks(self, count: object = None) -> None:
        """The program starts so many ranks itself. Where nobody has asked for the launcher that it was thought to have,
        all until here went as it goes without one."""
        if self._world is not LaunchWorld.SPAWN and (self.launcher_matters or not self.or_spawn):
            self.refinements.update(self._told_by_start(count))
            raise NeedsWorld
        self._world, self.world_matters = LaunchWorld.SPAWN, True

    def _told_by_start(self, count: object) -> dict[Hashable, bool]:
        """What is so where the program comes to start so many ranks: learnt together, it costs one more attempt."""
        return {**self._open_switches(), **self._several([count], asked=True)}

    def refine_and_restart(self, for_tasks: AbstractSet[Hashable], of_one: bool = False) -> None:
        """Distribution starts here: the open switches around it turned it on; or off, where it is of one process, or
        where another launcher is chosen `for_tasks` that it would name."""
        # A single process has nothing to switch on.
        if not self.several_processes:
            return
        fresh = self._open_switches()
        if self._world is LaunchWorld.TORCHRUN and not self.tasks_of:
            others = for_tasks & fresh.keys()
            self._begin_again_with({**dict.fromkeys(others, False), **{Declined(key): True for key in others}})
        if not (of_one and len(fresh) > 1):
            begun = {key: on is not of_one for key, on in fresh.items()}
            self._begin_again_with({**begun, **dict.fromkeys(self._other_ways(begun), True)})

    def _other_ways(self, begun: dict[Hashable, bool]) -> list[OtherWay]:
        """`if args.use_accelerate: Accelerator() elif args.ddp: init_process_group()`."""
        managed = (each for each in self.log if type(each) is UseManaged)
        tests = (literal for each in managed for literal in each.condition)
        return [
            OtherWay(each.atom.key, each.holds)
            for each in tests
            if begun.get(each.atom.key, each.holds) is not each.holds
        ]

    def refine_or_wait(self, trains: TrainsBeside) -> None:
        """A model is wrapped: the open switches around it turned distribution on, unless other sides wrap it, too."""
        fresh = self._open_switches() if self.several_processes else {}
        if fresh:
            asked = None if self.speculations else trains
            self._begin_again_with(self.choices.wrapped(self.path, fresh, self.statements, asked))

    def end_choice(self) -> None:
        """All sides of a choice were followed."""
        if self.choices.waiting:
            self._begin_again_with(self.choices.decided(self.path))

    def _begin_again_with(self, switches: dict[Hashable, bool]) -> None:
        if switches:
            self.refinements.update(switches)
            raise RefineAndRestart

    def _open_switches(self) -> dict[Hashable, bool]:
        """The answers of the user's that lead here, of which nothing is assumed."""
        # Who returned before is another run: `if not args.distributed: train(); return`.
        fresh = open_switches((*self.enclosing, *self.path.literals), self.assumptions)
        # What hands a job to a cluster turns nothing on in it: `if args.cluster: submit(train) else: mp.spawn(train)`.
        left = self.to_cluster if self.started_here else ()
        return {key: holds for key, holds in fresh.items() if key not in left}

    def assume(self, literal: Literal) -> None:
        """Options decide between a GPU and the CPU: begin again with what they are when none is given."""
        parts = literal.atom.every if literal.holds else tuple(each.negated() for each in literal.atom.none)
        fresh = {each.atom.key: each.holds for each in parts or (literal,) if each.atom.key not in self.assumptions}
        if not self.muted:
            self.granted.update(fresh)
            self._begin_again_with(fresh)

    def assume_rank(self, values: Values, kind: RankKind = RankKind.GLOBAL) -> None:
        """A setting that is handed to the process group as its rank is one: each process is started with its own."""
        only = values.single
        # `init_process_group(rank=args.rank)`: the launcher scripts of old pass it as an option.
        if only is not None and only.config and only.term is not None and self.several_processes:
            fresh = rank_of(only.term, kind)
            if fresh not in self.assumptions:
                self._begin_again_with({fresh: True})

    def assume_several_processes(self, values: Values) -> None:
        if self.several_processes:
            self._begin_again_with(self._several(values, asked=True))
            # With the answer known from the beginning all would have gone as it did.
            self.assumptions.update(self._several(values))

    def _several(self, counts: Iterable[object], asked: bool = False) -> dict[Hashable, bool]:
        """That these numbers are more than one, where nothing is assumed; if `asked`, only where a test asks of one."""
        unknown = [each for each in counts if isinstance(each, Unknown)]
        if asked and not any(speaks_of(key, each) for key in self.asked for each in unknown):
            return {}
        return {key: True for each in unknown if (key := Compares(">", each, Const(1))) not in self.assumptions}

    @property
    def counts_ranks(self) -> bool:
        return bool(self.open_loops) and ("ranks", self.open_loops[-1].event.location) in self.assumptions

    def assume_counted(self, counter: Hashable = None) -> None:
        # What is only tried has started nothing.
        if not self.speculations and (counter is not None or not self.counts_ranks):
            self._begin_again_with({("ranks", counter or self.open_loops[-1].event.location): True})

    def setting(self, value: Unknown, place: Location, default: Value | None = None) -> Value:
        """What the user chooses when he starts the program: one value for all ranks, unless it is their rank."""
        for kind in (RankKind.GLOBAL, RankKind.LOCAL) if value.config and self.assumptions else ():
            if rank_of(value.term, kind) in self.assumptions:
                return Rank(kind, RankSource.ARGUMENT, place=place)
        for key, holds in self.assumptions.items() if value.config else ():
            match key:
                # Where `backend == "ddp"` has turned it on, the backend is that in all other questions, too.
                case Compares("==", Unknown() as chosen, Const(value=str()) as only) if holds and chosen == value:
                    return only
        # Which model or data set it is; whether there are several processes was learnt before.
        if default is None or text_of(default) is None or any(speaks_of(key, value) for key in self.assumptions):
            return value
        self.defaults_matter = True
        return default if self.at_defaults else value


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
    how many processes there are, and whatever else has to hold."""
    key, bound = literal.atom.key, literal.atom.bound
    if isinstance(key, OneOf):
        return all(
            isinstance(each, Truth) and asks_for_one(each.literal if literal.holds else each.literal.negated())
            for each in key.values
        )
    together = literal.atom.every if literal.holds else tuple(each.negated() for each in literal.atom.none)
    if together:
        return any(map(asks_for_one, together))
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
