"""The questions that rules may ask of a program that was executed on paper."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property, reduce
from typing import TYPE_CHECKING

from gpudoctor.coverage import Cause
from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.launched_numbers import Sizes
from gpudoctor.lint.domain.rank import Rank, RankKind, RankSource
from gpudoctor.lint.domain.value import Text, Value, Values
from gpudoctor.lint.events.collective import Collective
from gpudoctor.lint.events.data_loading import Iterate, MakeLoader, MakeSampler
from gpudoctor.lint.events.files import Save
from gpudoctor.lint.events.knowledge import (
    SILENT_SAMPLER,
    Chosen,
    Escape,
    Imprecision,
    LoopRun,
    Prepare,
    Stop,
    UseManaged,
)
from gpudoctor.lint.events.launch_world import LaunchWorld
from gpudoctor.lint.events.model import Forward, Wrap
from gpudoctor.lint.events.placement import DeviceUsed
from gpudoctor.lint.events.process import (
    ArgumentDeclared,
    DestroyGroup,
    EnvironmentRead,
    EnvironmentWrite,
    InitGroup,
    RankAsked,
    Spawn,
)
from gpudoctor.lint.events.training_step import (
    Backward,
    EngineStep,
    MakeOptimizer,
    OptimizerStep,
    TakeGradient,
)
from gpudoctor.lint.flow.condition import ALWAYS, Condition, Divergence, Literal, asked_on_each
from gpudoctor.lint.program.guard_log import Gone, Standing
from gpudoctor.lint.program.reached_ranks import LogOfRanks
from gpudoctor.lint.source.project_answers import Starts, UsedNames
from gpudoctor.manifest.compiled import preparing
from gpudoctor.record import dataclass, field, replace

if TYPE_CHECKING:
    from typing import Protocol

    from gpudoctor.lint.events.event_context import Event
    from gpudoctor.lint.events.option_defaults import Option
    from gpudoctor.lint.flow.valueset import ValueSet
    from gpudoctor.manifest.framework_roles import TrainingPart

    class CodeFile(Protocol):
        """A file, as far as rules see it."""

        @property
        def text(self) -> str:
            """What stands in it."""


_MEETING = frozenset({"MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE"})
"""Variables by which processes find each other."""


@dataclass(frozen=True)
class Assumptions:
    """What an execution took for granted in the end: with the same, another one need not begin again to find it out."""

    switches: Mapping[Hashable, bool] = field(default_factory=dict)
    """Tests of settings by their keys, and how they came out."""
    without_group: bool = False
    at_defaults: bool = False
    """What the user chooses among texts, such as the name of a model, is its default."""
    group_before: Location | None = None
    """The user starts several processes of a program for one: as if it made their process group before this place."""


@dataclass(frozen=True, kw_only=True)
class Program(LogOfRanks):
    """What one entry file does in one launch world."""

    entry: str
    files: frozenset[str] = frozenset()
    """The files of the project that were read for it, as they are shown."""
    sources: tuple[CodeFile, ...] = ()
    """These files themselves."""
    may_run: Callable[[], UsedNames] = field(default=UsedNames, compare=False)
    """Says what code of it names that may run, as far as names tell: also where no call led."""
    worlds: frozenset[LaunchWorld] = frozenset()
    """All the ways of launching for which the entry is read, this one among them."""
    names_before: Mapping[Location, list[dict[str, Values]]] = field(default_factory=dict)
    """What the names in sight hold before a statement, each time that it is executed, where that was asked for."""
    names_after: Mapping[Location, list[dict[str, Values]]] = field(default_factory=dict)
    ended: Stop | None = None
    """Where all of its paths end in an error."""
    untaken: tuple[Stop, ...] = ()
    """Where its files train, as they are written, in functions to which no call has led; only where no backward pass
    was seen."""
    leads_there: Chosen | None = None
    """A call that may lead there, and was not followed because a setting chooses what it calls."""
    ends_before: Stop | None = None
    """The error in which a function ends that trains, or leads there, while other paths of the program live on."""
    strangers: frozenset[str] = frozenset()
    """Modules that it imports, and that are neither its own nor known libraries."""
    gaps: frozenset[str] = frozenset()
    """Why parts of its file cannot be read, each of which is a finding of its own."""
    only_tests: bool = False
    """pytest or unittest collects what its file defines."""
    started_in_several: bool = False
    """Launch files, or who asks for the launch, start several processes of it."""
    told_alike: bool = False
    """All of these are given the same options, as by `torchrun`; `srun` may give each a number of its own."""
    started_on_nodes: int = 1
    """On how many machines its launch files start it, as far as they say."""
    started_for_each_gpu: bool = False
    """Launch files start one process of it for each GPU of one machine."""
    shown_gpus: int | None = None
    """How many GPUs what starts it shows it, where that is known."""
    options_of_one: frozenset[str] = frozenset()
    """Options that launch files give to a single process of it, and never to those of several."""
    sizes: Sizes = field(default_factory=dict)
    """How many processes and machines there are, where what starts it says so."""
    size_matters: bool = False
    """A test of it asks how many there are."""
    idle: tuple[Stop, ...] = ()
    """Where its other files train, as they are written, that have no backward pass that was seen."""
    limit_with_all: Imprecision | None = None
    """The limit that was met with all that the user can choose; then it was followed with the defaults instead."""
    assumptions: Assumptions = field(default_factory=Assumptions, compare=False)
    too_new_torch: Callable[[], Sequence[int]] = field(default=tuple, compare=False)
    """Says the first version of torch that the project cannot be installed with, as `(2, 0)`, or nothing."""
    documented: Starts = field(default_factory=Starts, compare=False)
    """How the project's own scripts and READMEs start it."""
    evaluations: int = 0
    """Expressions that were evaluated for it: what executing it once more takes."""

    def presence(self, *, knows: AbstractSet[str] = frozenset()) -> bool:
        """For a rule of presence, "this line does X": what was seen happens in processes that train together, and means
        what it says, because no framework is in charge but those that the rule `knows`."""
        return self.distributed and not self.managed_by - knows

    def absence(
        self, *, of: Value | None = None, knows: AbstractSet[str] = frozenset(), to_the_end: bool = False
    ) -> bool:
        """For a rule of absence, "nobody does X": what was not seen does not happen. The world is closed: there is an
        entry, no framework is in charge but those that the rule `knows`, no limit was reached before the training was
        over, or at all where X may be done `to_the_end`, no error ends the way to the training, and the object that it
        would be done to did not go into code that was not read."""
        if not self.whole or self.managed_by - knows or self.ends_before is not None:
            return False
        if self.stops and (to_the_end or not self._is_trained) and self.cut_short:
            return False
        return of is None or of not in self.escaped

    @property
    def spawned(self) -> bool:
        """It starts its ranks itself: on one node, and by no launcher."""
        return self.world is LaunchWorld.SPAWN

    @cached_property
    def managed_by(self) -> frozenset[str]:
        """The frameworks that take charge in this program."""
        return Standing.of(self.frameworks, lambda: self.answers.note(Cause.FRAMEWORK))

    def leaving(self, part: TrainingPart) -> frozenset[str]:
        """The frameworks in charge that leave this part of a training to the program."""
        if not self.frameworks:
            return frozenset()
        # Deferred: most programs train without one.
        from gpudoctor.manifest.framework_roles import framework

        return frozenset(name for name in self.frameworks if part in framework(name).leaves)

    @property
    def gpu_chosen_at(self) -> int:
        """The order of the event at which frameworks make the GPU of the process the current one; 0 where it is not
        known of all of them."""
        # Deferred: as above.
        from gpudoctor.manifest.framework_roles import framework

        known = [(each.order, framework(each.framework)) for each in self.in_charge]
        # One that starts the processes chooses when it does so.
        starts = [each.order for each in self.events(Collective) if each.effect.starts]
        chosen = [order for made, each in known for order in (starts if each.starts_processes else [made])]
        return min(chosen, default=0) if all(each.places for _, each in known) else 0

    @property
    def seeding_when_made(self) -> frozenset[str]:
        """The frameworks in charge that set one seed on all ranks as soon as what trains is made."""
        if not self.frameworks:
            return frozenset()
        # Deferred: as above.
        from gpudoctor.manifest.framework_roles import framework

        return frozenset(name for name in self.frameworks if framework(name).seeds_when_made)

    def wraps_as_launched(self, name: str) -> bool:
        """A framework wraps models in what it is launched with: DDP, where nothing in the program says otherwise."""
        # Deferred: as above.
        from gpudoctor.manifest.framework_roles import framework

        return framework(name).wraps_as_told and not any("spreading" in each.otherwise for each in self.in_charge)

    @property
    def shared_out(self) -> bool:
        """A framework may deal out the data among the ranks. DeepSpeed leaves the loaders of the program alone."""
        return self._noted([event for event in self.in_charge if event.shares_data])

    @property
    def streams_shared_out(self) -> bool:
        """A framework may deal out what an `IterableDataset` yields."""
        return self._noted([event for event in self.in_charge if event.shares_data and event.shares_streams])

    def _noted(self, sharing: Sequence[UseManaged]) -> bool:
        if sharing:
            self.answers.note(Cause.FRAMEWORK)
        return bool(sharing)

    @cached_property
    def frameworks(self) -> frozenset[str]:
        """The same, to be named: asking for them silences nobody."""
        return frozenset(event.framework for event in self.events(UseManaged))

    @cached_property
    def launcher(self) -> str:
        """A framework, `mpi`, `slurm`, `options` that tell each its rank, torch's old `launch`; empty for others."""
        # Nobody needs its launcher where it is an option beside a group or a wrapper of the program.
        own = (*self.events(InitGroup), *self._own_wraps)
        usual = self._is_usual
        if len(self.frameworks) == 1 and (any(map(usual, self.in_charge)) or not any(map(usual, own))):
            return next(iter(self.frameworks))
        asked: list[ValueSet[Value] | None] = [each.rank for each in self.events(InitGroup)]
        asked += [each.value for each in self.events(EnvironmentWrite) if each.name == "RANK"]
        given = [value for values in asked for value in values or ()]
        ranks = [part for value in given for part in (value.parts if isinstance(value, Text) else (value,))]
        sources = {rank.source for rank in ranks if isinstance(rank, Rank) and rank.kind is RankKind.GLOBAL}
        # `if args.under_mpi: ... elif "RANK" in os.environ:`, where ranks that are equal have become one.
        if self.world is LaunchWorld.TORCHRUN and any(each.name == "RANK" for each in self.events(EnvironmentRead)):
            sources.add(RankSource.ENVIRONMENT)
        starter = _STARTERS.get(sources.pop(), "") if len(sources) == 1 else ""
        if self.world is not LaunchWorld.TORCHRUN:
            return starter
        named = self.documented.launchers()
        if starter in ("", "slurm") and named & {"launch", "launch --use_env"} and "torchrun" not in named:
            return "launch"
        if starter in ("", "mpi") and named == {"mpi"}:
            return "mpi"
        # Before that there was no torchrun.
        return "launch" if not starter and "torchrun" not in named and self.is_before_torch(1, 9) else starter

    @property
    def takes_local_rank(self) -> bool:
        """Its launcher passes the local rank as an option, and it takes that one."""
        passed = self.launcher == "launch" and "launch --use_env" not in self.documented.launchers()
        # Before that, the variable was set for those alone who asked for it.
        return passed and (self._declares_local_rank or self.is_before_torch(1, 9))

    @property
    def _declares_local_rank(self) -> bool:
        return any(event.name == "local_rank" for event in self.events(ArgumentDeclared))

    @cached_property
    def distributed(self) -> bool:
        """Several processes train together: a process group is made, or a wrapper that needs one."""
        if not self.world.several_processes or self.plays_alone or self._does_nothing_together or self._runs_alone:
            return False
        if self._leaves_ranks_to_others:
            return False
        if self.has(InitGroup, Spawn):
            return True
        # One that uses parts of a program for several processes, and makes no group itself, cannot run in several.
        alone = self.has_entry and not self.frameworks and not self.stops and self._begins_group is None
        # A tool that builds the trainer to take the model out of it is not started as the training is.
        trains = self.has(Backward) or any(each.loop is not None for each in self.events(Iterate))
        tool = self.has_entry and not trains and not self.stops
        return not (alone or tool) and bool(self._own_wraps)

    @cached_property
    def _own_wraps(self) -> list[Wrap]:
        """Those for several ranks that it makes itself: what wraps for it may do so for the only process, too."""
        return [each for each in self.events(Wrap) if each.kind.synchronises and each.handed_to is None]

    @cached_property
    def _does_nothing_together(self) -> bool:
        """A tool that trains nothing, asks no other rank for anything, and does the same on each of them: several
        processes of it would do all of it several times. It may join a group because it shares its options with what
        trains, or, where it calls no model, its logger."""
        groups = [*self.events(InitGroup)]
        by_option = self.assumptions.switches or any(group.condition.literals for group in groups)
        asks = not (self.has(Wrap, MakeLoader, MakeOptimizer) or any(group.is_own for group in groups))
        if not self.has_entry or self.stops or not (by_option if self.has(Forward) else asks):
            return False
        if self.has(Backward, OptimizerStep, Collective, MakeSampler, DestroyGroup, Spawn, UseManaged):
            return False
        return not any(event.condition.divergence & Divergence.RANK for event in self.log)

    @cached_property
    def _leaves_ranks_to_others(self) -> bool:
        """A tool that trains nothing and has nothing to do with ranks in its own file: the project's models or options
        join a group for whoever makes them. Nobody was seen to start several processes of it."""
        if not self.has_entry or self.stops or self.started_in_several or not self.has(Forward, Save):
            return False
        if self.has(Backward, OptimizerStep, MakeSampler, Wrap, DestroyGroup, Spawn):
            return False
        own = (event for event in self.log if event.location.path == self.entry)
        return not any(map(_concerns_ranks, own))

    @cached_property
    def _runs_alone(self) -> bool:
        """One process runs it: tests, which say of ranks what they like, or a tool, which trains nothing and which the
        project starts alone, as it does not start others."""
        if self.has(Spawn):
            return False
        if not self.has_entry:
            return self.only_tests
        # Some start the processes whatever the command line says.
        started = self.frameworks - self.leaving("processes") or self.started_in_several
        does_more = self.has(Backward) or started or self.stops
        return not does_more and self.documented.starts_alone()

    @property
    def may_begin_group(self) -> bool:
        """A helper that was not read may make the process group: `mmcv.runner.init_dist`, or what is told how many
        processes there are."""
        if self._begins_group is not None:
            self._note_unread(self._begins_group)
        return self._begins_group is not None

    def strangers_asked_before(self, event: Event) -> bool:
        """A module of which nothing is known was called before: it may do what a part of the program does."""
        asked = (each for each in self.events(Escape) if each.order < event.order)
        stranger = next((each for each in asked if each.into.lstrip(".").partition(".")[0] in self.strangers), None)
        if stranger is not None:
            self._note_unread(stranger)
        return stranger is not None

    @cached_property
    def _begins_group(self) -> Escape | None:
        return next((each for each in self.events(Escape) if each.may_begin_group), None)

    @property
    def lacks_group(self) -> InitGroup | None:
        """The group that it does not make and was followed with, because the user starts several processes of it."""
        return next(self.events(InitGroup), None) if self.assumptions.group_before is not None else None

    @cached_property
    def plays_alone(self) -> bool:
        """Its process group has one member, or is PyTorch's `fake` one: distributed code is tried in one process."""
        # A device mesh made later takes the group that there is.
        groups = [group for group in self.events(InitGroup) if group.is_own]
        return bool(groups) and all(group.number_of_ranks == 1 or group.only_backend == "fake" for group in groups)

    @cached_property
    def names(self) -> UsedNames:
        """What its code names that may run, perhaps unseen."""
        return self.may_run()

    def has_text(self, *words: str) -> bool:
        """One of these stands in its files, be it in a comment: where not, to ask what code names would be in vain."""
        return any(word in source.text for source in self.sources for word in words)

    def may_name(self, *names: str) -> bool:
        """Code of it that may run, perhaps unseen, has one of these names."""
        return self.has_text(*names) and not self.names.uses.isdisjoint(names)

    @cached_property
    def launched_in_several(self) -> bool:
        """Something shows that several processes run it, also where a framework makes the process group."""
        # Some frameworks make the group unseen; who destroys one expects it, and so does who asks the other ranks.
        expects = self.has(DestroyGroup) or any(event.several for event in self.events(UseManaged))
        expects = expects or (bool(self.leaving("processes")) and self.has(Collective))
        expects = expects or self._prepares
        # A trainer is started either way; who takes what a launcher tells, or asks for the rank, has one in mind.
        told = any(event.of_launcher for event in self.events(EnvironmentRead)) or self._declares_local_rank
        expects = expects or (bool(self.frameworks) and (told or self.has(RankAsked)))
        expects = expects and not (self._runs_alone or self._leaves_ranks_to_others)
        return self.distributed or (self.world.several_processes and (self.started_in_several or expects))

    @property
    def _prepares(self) -> bool:
        """It hands what it trains over to be wrapped and dealt out, which one process has no need of."""
        made = {each.made for each in self.events(UseManaged) if not each.alone}
        return any(event.managed in made and not event.by_itself for event in self.events(Prepare))

    @cached_property
    def escaped(self) -> frozenset[Value]:
        """The objects that were handed to code that could not be read, and the modules under them."""
        values: set[Value] = set()
        for event in self.events(Escape):
            values.update(event.values)
            # Who gets the wrapper gets at the model through `.module`.
            values.update(value.core for value in event.values)
        return Gone.of(values, self._note_gone)

    def _note_gone(self, value: Value) -> None:
        escapes = (each for each in self.events(Escape) for given in each.values if value in (given, given.core))
        into = next(escapes, None)
        # Such a sampler was read, and is known for what it leaves out.
        if into is None or into.into != SILENT_SAMPLER:
            self._note_unread(into, value.label)

    def _note_unread(self, into: Escape | None, about: str = "") -> None:
        what, at = (into.into, into.location) if into is not None else ("code", None)
        self.answers.note(Cause.UNREAD, what, at, about)

    @property
    def cut_short(self) -> bool:
        """A limit was reached: something may have been overlooked."""
        if self.stops:
            self.answers.note(Cause.LIMIT)
        return bool(self.stops)

    @cached_property
    def _is_trained(self) -> bool:
        """It has stepped in a loop, and no limit was met in the first round of one that trains or may begin to."""
        open_loops = {loop.identity for stop in self.stops for loop in stop.loops if not loop.pass_}
        steps = [event for event in self.events(OptimizerStep) if event.loops]
        begun = [event.loop for event in self.events(Iterate) if event.loop and not event.context.evaluating]
        around = [loop for event in (*steps, *self.events(Backward)) for loop in event.loops]
        return bool(steps) and open_loops.isdisjoint(loop.identity for loop in (*around, *begun))

    def cut_before(self, event: Event) -> bool:
        """A limit was reached before this: something that has to come before it may have been overlooked."""
        return self.cut_short and any(stop.order < event.order for stop in self.stops)

    @property
    def limits(self) -> tuple[Imprecision, ...]:
        """These, or the one that was met with all that the user can choose."""
        return self.stops or tuple(each for each in (self.limit_with_all,) if each is not None)

    @cached_property
    def trained_at(self) -> tuple[Location, ...]:
        """Where gradients are asked for or used, and the calls that lead there."""
        # In a file that starts nothing, a gradient that is computed may as well be that of a formula.
        events = list(self.events(Backward, OptimizerStep, *((TakeGradient,) if self.has_entry else ())))
        # Without any gradient, `x.step(action)` of something unknown is that of an environment.
        if all(isinstance(event, OptimizerStep) and event.through == "unknown" for event in events):
            events = []
        places = (at for event in events for at in (event.location, *event.context.calls))
        return tuple(dict.fromkeys((*(event.step for event in self.events(LoopRun)), *places)))

    @cached_property
    def step_loops(self) -> frozenset[Hashable]:
        """The loops of which each round is a step of a training: the innermost ones around the step of an optimizer, or
        of an engine, in which gradients are asked for, too. `for optimizer in optimizers` is none."""
        asked = {loop.identity for event in self.events(Backward) for loop in event.loops}
        steps = (
            # What happens once is no step of a training.
            next((loop.identity for loop in reversed(event.loops) if loop.repeats and loop.identity in asked), None)
            for event in self.events(OptimizerStep, EngineStep)
        )
        return frozenset(identity for identity in steps if identity is not None)

    @property
    def in_charge(self) -> tuple[UseManaged, ...]:
        """Where frameworks take charge."""
        return tuple(self.events(UseManaged))

    @cached_property
    def of_ranks(self) -> Program:
        """The program without what the process that starts the ranks does alone, be it a training of its own."""
        log = self.log_of_ranks
        return self if len(log) == len(self.log) else replace(self, log=log)

    @cached_property
    def by_itself(self) -> Program | None:
        """The program without the branches on which frameworks take charge, where it trains on another one: a framework
        answers for what it does there alone. None where no choice of the user keeps them out."""
        charges = [each for each in self.in_charge if each.call not in preparing()]
        asked = [next((each for each in charge.condition if each.atom.switch), None) for charge in charges]
        without = Condition(frozenset(each.negated() for each in asked if each is not None))
        if None in asked or all(each.condition.excludes(without) for each in self.events(Backward)):
            return None
        # Who declares the options of DeepSpeed alone is followed where it wraps the model itself.
        if not asked and not self._own_wraps:
            return None
        left = (each for each in self.log if not isinstance(each, UseManaged) and not each.condition.excludes(without))
        return replace(self, log=tuple(left))

    @cached_property
    def options(self) -> dict[Hashable, Option]:
        """The command line options and other settings whose default is known."""
        from gpudoctor.lint.events.option_defaults import options_of

        return options_of(self.log)

    def left_out(self, value: Value) -> Value:
        """What it is where the user leaves every option out, as far as that is known."""
        from gpudoctor.lint.events.option_defaults import left_out

        return left_out(value, self.options)

    def comes_to(self, asked: Literal | Value) -> bool | None:
        """Whether it is so where the user leaves every option out; None where that is not known."""
        # Imported late, as above: most programs make no mistake, and nobody asks what is usual.
        from gpudoctor.lint.events.option_defaults import comes_to

        return comes_to(asked, self.options)

    def _is_unusual(self, literal: Literal) -> bool:
        return self.comes_to(literal) is False

    def _is_usual(self, event: Event) -> bool:
        return not any(map(self._is_unusual, event.condition))

    @cached_property
    def taken_on(self) -> frozenset[Literal]:
        """The tests behind which the program is launched and trains: what nobody leaves out who has these troubles."""
        several = self.world.several_processes
        wraps = self._own_wraps if several else self.events(Wrap)
        launch = (self.events(InitGroup), self.events(Spawn), wraps, self.events(UseManaged))
        found = frozenset(literal for alike in launch for when in self._as_launched(alike) for literal in when.literals)
        trains = [event.condition for event in self.events(Backward)]
        return found | (reduce(Condition.intersection, trains).literals if trains else frozenset())

    def _as_launched(self, events: Iterable[Event]) -> Iterator[Condition]:
        """When some of these events happen that several processes need, as far as they need one of them."""
        asked = {event.condition for event in events}
        # Where each model is wrapped, one more may be by an option.
        least = [each for each in asked if not any(each.implies(other) for other in asked if other != each)]
        # `if args.fsdp: ... else: ...` is launched without the option as well.
        usual = [each for each in least if not any(map(self._is_unusual, each))]
        return iter(usual or least)

    def unusual(self, place: Location, inside: Iterable[Location] = ()) -> list[Literal]:
        """Those of `asked_at` that fail where the options are left out, or of what a call does at places `inside`."""
        return [each for each in self.asked_at(place, inside) if self._is_unusual(each)]

    def asked_at(self, place: Location, inside: Iterable[Location] = ()) -> list[Literal]:
        """The tests that lead to all that happens at a place, but for those behind which the program trains."""
        ways = self.ways_to(place, inside)
        found = (each for each in asked_on_each(ways) if each not in self.taken_on)
        return sorted(found, key=lambda each: (_in_text(each.atom.place), each.atom.text, each.holds))

    def ways_to(self, place: Location, inside: Iterable[Location] = ()) -> list[Condition]:
        """When each of the things happens that happen at a place, or `inside` of a call that stands there."""
        events = self.at(place) or [each for at in inside for each in self.at(at) if place in each.context.calls]
        return [event.condition for event in events]

    @property
    def awaits_others(self) -> Location | None:
        """Where a group is made whose other processes, address and rank somebody else must have prepared."""
        prepared = {event.name for event in self.events(EnvironmentWrite)} & _MEETING
        if self.world is LaunchWorld.SPAWN or prepared or self.frameworks:
            return None
        made = (each for each in self.events(InitGroup) if each.condition == ALWAYS and each.init_method is None)
        return next((each.location for each in made if each.rank is None and each.world_size is None), None)

    @property
    def first_worker(self) -> str:
        """The test for the first of the processes that it starts itself, where they make no process group that could be
        asked; empty where they may make one."""
        if not self.spawned or self._own_wraps or self.stops or self.has(InitGroup) or self._begins_group is not None:
            return ""
        # `mp.spawn` hands the number over first; where processes are started one by one, any argument may be it.
        names = {each.rank_called for each in self.events(Spawn) if each.rank_called}
        return f"{names.pop() if len(names) == 1 else 'rank'} == 0"

    def is_before_torch(self, *version: int) -> bool:
        """The project is installed with an older torch than this one."""
        too_new = tuple(self.too_new_torch())
        return bool(too_new) and too_new <= version

    def before_group(self, event: Event) -> bool:
        """It is done before the process group is made that a launcher's processes make, or a framework for them."""
        made = next(self.events(InitGroup, UseManaged), None)
        return self.world is LaunchWorld.TORCHRUN and made is not None and event.order < made.order

    @property
    def may_run_alone(self) -> bool:
        """It is written for one process without a process group as well: a setting or the launcher decides."""
        sizes = (event for event in self.events(EnvironmentRead) if event.of_launcher)
        asked = any(event.has_default is not False for event in sizes)
        return asked or LaunchWorld.SINGLE in self.worlds or bool(self.assumptions.switches)


_STARTERS = {RankSource.ARGUMENT: "options", RankSource.MPI: "mpi", RankSource.SLURM: "slurm"}


def _in_text(place: Location | None) -> tuple[str, int, int]:
    return (place.path, place.line, place.column) if place is not None else ("", 0, 0)


def _concerns_ranks(event: Event) -> bool:
    """It is done by several processes together, or asks which one of them this is."""
    if isinstance(event, (InitGroup, Collective, RankAsked, UseManaged)):
        return True
    told = isinstance(event, EnvironmentRead) and event.of_launcher
    placed = isinstance(event, DeviceUsed) and bool(event.device.divergence & Divergence.RANK)
    return told or placed or bool(event.condition.divergence & Divergence.RANK)
