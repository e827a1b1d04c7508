"""From an entry file to programs: in which worlds it is meant to run, with which switches on."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import TypeVar

from gpudoctor.diagnostic import Location
from gpudoctor.lint.discovery.classify import Classified
from gpudoctor.lint.domain.module import WrapperKind
from gpudoctor.lint.domain.rank import Rank, Size
from gpudoctor.lint.domain.symbols import AnyOf, IsTrue, asked_of
from gpudoctor.lint.domain.value import Unknown
from gpudoctor.lint.events.collective import Collective
from gpudoctor.lint.events.data_loading import MakeLoader, MakeSampler, Split
from gpudoctor.lint.events.event_context import Event
from gpudoctor.lint.events.files import Download, Save
from gpudoctor.lint.events.knowledge import UseManaged
from gpudoctor.lint.events.launch_world import LaunchWorld
from gpudoctor.lint.events.model import Wrap
from gpudoctor.lint.events.placement import DeviceUsed, Move
from gpudoctor.lint.events.process import ArgumentDeclared, EnvironmentRead, InitGroup, SeedSet
from gpudoctor.lint.events.program_facts import AsStarted
from gpudoctor.lint.events.reporting import StartLogger
from gpudoctor.lint.events.training_step import Backward, MakeOptimizer, OptimizerStep
from gpudoctor.lint.flow.interning import forget_keys
from gpudoctor.lint.interp.budget import Budget
from gpudoctor.lint.interp.entry_execution import NOT_STARTED, NOTHING_ASSUMED, EntryStart, execute
from gpudoctor.lint.interp.interpreter import Interpreter
from gpudoctor.lint.interp.limits import MAX_BEFORE_TRAINING, MAX_ENTRY_EVALUATIONS, MAX_ENTRY_SECONDS
from gpudoctor.lint.interp.operators import asks_text
from gpudoctor.lint.interp.restarts import Declined, OtherWay
from gpudoctor.lint.program import Assumptions, Program
from gpudoctor.lint.source.file_traits import Role
from gpudoctor.lint.source.project import ModuleFile, Project
from gpudoctor.record import replace

E = TypeVar("E", bound=Event)

_WORK = (
    Backward, DeviceUsed, Download, MakeLoader, MakeOptimizer, Move, OptimizerStep, Save, SeedSet, Split, StartLogger,
)  # fmt: skip
"""What each of several ranks has to do in another way than a program for one process does."""


def programs_of(
    entry: ModuleFile, what: Classified, project: Project, launch: str = "auto", started: AsStarted = NOT_STARTED
) -> list[Program]:
    """The entry executed in each world that it is written for, with what its launch files say of the start."""
    start = EntryStart(entry, what, started)
    programs = _in_worlds(start, project, launch)
    # `--compute-stats` in the only script that starts it: it is there for more than that.
    if started.given and programs and all(each.untaken and not each.trained_at for each in programs):
        freely = replace(start, started=replace(started, given={}, words=None))
        others = _in_worlds(freely, project, launch)
        if any(each.trained_at for each in others):
            start, programs = freely, others
    if launch != "auto":
        return programs
    # Each of several processes takes itself for the only one.
    if started.tasks_of and not any(each.has(InitGroup) or each.frameworks or each.spawned for each in programs):
        return _in_worlds(start, project, LaunchWorld.SINGLE.value)
    if started.several:
        return _as_several(start, project, programs)
    return _as_one(start, project, programs) if started.differs or _is_tool(started, programs) else programs


def _is_tool(started: AsStarted, programs: list[Program]) -> bool:
    """All launch files start it as one process, and it trains nothing: that it could be several is what it imports."""
    return started.alone and not any(each.trained_at or each.untaken for each in programs)


def _in_worlds(start: EntryStart, project: Project, launch: str) -> list[Program]:
    forget_keys()
    programs = _in_each_world(start, project, launch, Budget(MAX_ENTRY_SECONDS, MAX_ENTRY_EVALUATIONS))
    worlds = frozenset(program.world for program in programs)
    # Who asks for this launch says so himself.
    several = start.started.several or launch == LaunchWorld.TORCHRUN.value
    return [_told(replace(program, worlds=worlds), start.started, several) for program in programs]


def _told(program: Program, started: AsStarted, several: bool) -> Program:
    """With what launch files say of how it is started."""
    of_one = started.of_one if several else frozenset[str]()
    return replace(
        program,
        started_in_several=several,
        told_alike=several and not started.alone,
        started_on_nodes=(started.processes or 1) // (started.per_node or started.processes or 1),
        shown_gpus=started.gpus,
        started_for_each_gpu=started.for_each_gpu,
        options_of_one=of_one,
    )


def _as_several(start: EntryStart, project: Project, programs: list[Program]) -> list[Program]:
    # As one process nobody starts it.
    several = [each for each in programs if each.world.several_processes]
    if several or not start.started.surely:
        return several or programs
    # It knows of one process only, and each of them will train a model of its own.
    as_several = _in_worlds(start, project, LaunchWorld.TORCHRUN.value)
    return [each for each in as_several if each.assumptions.group_before is not None] or programs


def _as_one(start: EntryStart, project: Project, programs: list[Program]) -> list[Program]:
    from gpudoctor.manifest.framework_roles import framework

    # Lightning starts the others, if need be, and so does the program itself.
    if any(framework(name).starts_processes for each in programs for name in each.frameworks):
        return programs
    known = [each for each in programs if each.world is not LaunchWorld.TORCHRUN]
    if known or not start.started.alone:
        return known
    # That it cannot do without the others is a rule's to say.
    return [each for each in _in_worlds(start, project, LaunchWorld.SINGLE.value) if each.awaits_others is None]


def with_names(
    programs: Sequence[Program],
    entry: ModuleFile,
    what: Classified,
    project: Project,
    places: frozenset[Location],
    seconds: float,
    started: AsStarted = NOT_STARTED,
) -> list[Program]:
    """The programs of an entry executed once more, noting what names hold at these places.

    The keys of values stay, so that what a finding speaks of is known again.
    """
    start, left = EntryStart(entry, what, started), Budget(min(seconds, MAX_ENTRY_SECONDS), MAX_ENTRY_EVALUATIONS)
    made: list[Program] = []
    for each in programs:
        again = execute(start, project, left, each.world, each.assumptions, places, attempts=1)[0]
        made += [_told(again, started, each.started_in_several)] if again is not None else []
    return made


def _in_each_world(start: EntryStart, project: Project, launch: str, left: Budget) -> list[Program]:
    if launch != "auto":
        program, _, _ = _follow(start, project, left, LaunchWorld(launch))
        if program is not None and program.world is LaunchWorld.TORCHRUN and _trains_alone(program):
            program = _with_group(start, project, left, program)
        return [program] if program is not None else []
    # torchrun first: most programs take both, and it is what PyTorch documents.
    program, switches, m = _follow(start, project, left, LaunchWorld.TORCHRUN, or_spawn=True)
    # It called `mp.spawn`, after it has asked for its launcher: under torchrun that would start processes of processes.
    # Which switches lead there is known, and what stands before it on their other sides need not be followed again.
    if program is None:
        program, switches, m = _follow(start, project, left, LaunchWorld.SPAWN, Assumptions(m.refinements))
    if program is None:
        return []
    # Taken for several processes, a plain script would look as if it forgot everything. What runs notebooks and tests
    # is one process, too, which may start others; `run_test.py` may be a program of its own.
    collected = program.only_tests and start.what.role is not Role.MAIN
    by_one = start.module.source.cells is not None or collected
    tasks = [key.key for key in switches if isinstance(key, Declined)]
    if tasks and not _is_distributed(program):
        # No other launcher is to be chosen.
        program, switches, m = _follow(start, project, left, program.world, Assumptions(dict.fromkeys(tasks, True)))
        if program is None:
            return []
    if not _is_distributed(program) or (by_one and program.world is LaunchWorld.TORCHRUN):
        # Nothing of it asked: what one process does is known already.
        if not m.world_matters:
            return [replace(program, world=LaunchWorld.SINGLE)]
        alone, _, _ = _follow(start, project, left, LaunchWorld.SINGLE)
        if alone is not None:
            return [alone]
        # `if args.debug: worker(0) else: …`: as one process it starts others.
        program, switches, m = _follow(start, project, left, LaunchWorld.SPAWN)
        if program is None:
            return []
    programs = _with_another_choice(start, project, left, program, switches)
    programs += _by_framework(start, project, left, program, switches)
    if _may_use_data_parallel(program):
        # The switch that turned DDP on is off where DataParallel is used: `if args.distributed: … else: …`.
        kept = _beside(switches) | m.granted
        # What was too much with all there is to choose from is so again.
        cut = program.limit_with_all
        for each in _kept_as_they_are(switches, kept, program):
            off = {key: value if key in each else not value for key, value in switches.items()}
            assumed = Assumptions(off, without_group=True, at_defaults=cut is not None)
            alone, _, _ = _follow(start, project, left, LaunchWorld.SINGLE, assumed)
            # Beside what turned DDP on, some of it has turned the training on.
            if alone is None or alone.trained_at or not program.trained_at:
                break
        if alone is not None and _uses_data_parallel(alone):
            programs.append(replace(alone, limit_with_all=alone.limit_with_all or cut))
    return programs


def _trains_alone(program: Program) -> bool:
    """A training that knows of one process only: started as several, each would train a model of its own."""
    if not program.has_entry or program.only_tests or program.may_begin_group or program.frameworks:
        return False
    return program.has(Backward, OptimizerStep) and not _is_distributed(program)


def _with_group(start: EntryStart, project: Project, left: Budget, program: Program) -> Program:
    """The same as if it made a process group where it begins to work, which is the first that it lacks: what else it
    lacks as one rank of several shows only then."""
    assumed = replace(program.assumptions, group_before=_begins_to_work(program))
    grouped, _, _ = _follow(start, project, left, program.world, assumed)
    return grouped if grouped is not None else program


def _begins_to_work(program: Program) -> Location | None:
    """The first place at which a rank does something of its own, in the function that leads to its training, too."""
    first = next(program.events(*_WORK))
    training = next(program.events(Backward, OptimizerStep))
    ways = (*first.context.calls, first.location), (*training.context.calls, training.location)
    return next((one for one, other in zip(*ways, strict=False) if one != other), first.location)


def _with_another_choice(
    start: EntryStart, project: Project, left: Budget, program: Program, switches: dict[Hashable, bool]
) -> list[Program]:
    """`if task == "test": mp.spawn(test); elif task == "train": mp.spawn(train)`, `if args.test: test() else: train()`:
    where the choice that was met first comes to no training, one that comes to it is followed as well."""
    chosen = [key for key, holds in switches.items() if holds and _may_be_another(key)]
    if program.trained_at or not program.untaken or not chosen:
        return [program]
    others = {**{key: holds for key, holds in switches.items() if key not in chosen}, **dict.fromkeys(chosen, False)}
    another, _, _ = execute(start, project, left, program.world, Assumptions(others))
    # What turned distribution on is not one of several things to do.
    if another is None or not another.trained_at or not _is_distributed(another):
        return [program]
    return [another, program]


def _by_framework(
    start: EntryStart, project: Project, left: Budget, program: Program, switches: dict[Hashable, bool]
) -> list[Program]:
    """The program as a framework starts or manages it, where that is one of its ways."""
    ways = {key.key: key.holds for key in switches if isinstance(key, OtherWay)}
    managed = execute(start, project, left, program.world, Assumptions(ways))[0] if ways else None
    return [managed] if managed is not None and managed.frameworks and managed.trained_at else []


def _may_be_another(key: Hashable) -> bool:
    return asks_text(key) or (isinstance(key, IsTrue) and isinstance(key.value, Unknown))


def _beside(switches: dict[Hashable, bool]) -> set[Hashable]:
    """Of `local_rank == -1 or no_cuda` the first decides how many processes there are; the other stays as it is."""
    found: set[Hashable] = set()
    for key in switches:
        parts = key.literals if isinstance(key, AnyOf) else frozenset()
        about_ranks = [each for each in parts if any(isinstance(part, (Rank, Size)) for part in asked_of(each))]
        found |= {each.atom.key for each in parts if each not in about_ranks} if about_ranks else set()
    return found


def _kept_as_they_are(
    switches: dict[Hashable, bool], kept: set[Hashable], program: Program
) -> Iterable[frozenset[Hashable]]:
    """Which of the switches that led to DDP may stay as they are without it: none, those that are on, as
    `--is_training 1`, those that are off, as `--test`, or all beside a number that tells ranks from one process:
    `--do_train` and `args.local_rank == -1`."""
    flags = [(key, holds) for key, holds in switches.items() if isinstance(key, IsTrue)]
    on = {key for key, holds in flags if holds and program.comes_to(key.value) is not False}
    off = {key for key, holds in flags if not holds}
    every = {key for key, _ in flags} if len(flags) < len(switches) else set[Hashable]()
    return dict.fromkeys(frozenset(kept | each) for each in (set[Hashable](), on, off, every))


def _is_distributed(program: Program) -> bool:
    """Something in it only makes sense with several processes."""
    if program.plays_alone and program.world is not LaunchWorld.SPAWN:
        return False
    if program.world is LaunchWorld.SPAWN or any(_its_own(program, InitGroup, UseManaged, Collective)):
        return True
    # Only a launcher sets these, so who reads them expects to be started by one.
    if any(event.of_launcher for event in _its_own(program, EnvironmentRead)):
        return True
    if any(event.name == "local_rank" for event in _its_own(program, ArgumentDeclared)):
        return True
    wraps = [event for event in program.events(Wrap) if event.kind in (WrapperKind.DDP, WrapperKind.FSDP)]
    if wraps and not _is_another_ones(program, wraps):
        return True
    shards = any(event.sampler.distributed for event in program.events(MakeSampler))
    # A DistributedSampler beside DataParallel is a mistake of its own, in one process.
    return shards and not _uses_data_parallel(program)


def _its_own(program: Program, *kinds: type[E]) -> Iterator[E]:
    """What happens in it; of a program that trains nothing, not what modules do when they are imported: a package that
    asks at once whether a launcher has started it does so in its tools for one process as well."""
    trains = program.has(Backward)
    return (event for event in program.events(*kinds) if trains or not event.context.importing or _insists(event))


def _insists(event: Event) -> bool:
    """`os.environ["RANK"]`, which ends whatever was not started by a launcher."""
    return isinstance(event, EnvironmentRead) and event.insists


def _is_another_ones(program: Program, wraps: list[Wrap]) -> bool:
    """A tool makes the model of the training as well: it trains nothing and makes no group, and the setting that wraps
    the model there is off here."""
    chosen = bool(program.assumptions.switches) or all(event.condition.literals for event in wraps)
    return chosen and not program.has(Backward) and all(event.group_exists is False for event in wraps)


def _uses_data_parallel(program: Program) -> bool:
    return any(event.kind is WrapperKind.DATA_PARALLEL for event in program.events(Wrap))


def _may_use_data_parallel(program: Program) -> bool:
    # Other wrappers' names end with it, and to ask what code names takes longer than to look at the text.
    name = re.compile(r"(?<!Distributed)(?<!Sharded)DataParallel\b")
    # A pattern that looks behind itself asks at each letter.
    texts = [source.text for source in program.sources if "DataParallel" in source.text]
    return any(map(name.search, texts)) and program.may_name("DataParallel")


def _follow(
    start: EntryStart,
    project: Project,
    left: Budget,
    world: LaunchWorld,
    assumed: Assumptions = NOTHING_ASSUMED,
    or_spawn: bool = False,
) -> tuple[Program | None, dict[Hashable, bool], Interpreter]:
    """One world; where a limit ends it before the training, with the default of each model and data set to choose."""
    seen = execute(start, project, left, world, assumed, or_spawn=or_spawn)
    program, _, first = seen
    if program is None or not program.stops or not program.has_entry or _trains_in_loop(program):
        return seen
    # Nothing was chosen that a default would have decided.
    if not first.defaults_matter or assumed.at_defaults:
        return seen
    # Nor does the program train, as far as it was read.
    if not (program.trained_at or first.may_train(first)):
        return seen
    at_defaults = replace(program.assumptions, at_defaults=True)
    again, switches, m = execute(start, project, left, program.world, at_defaults)
    early = first.statements > MAX_BEFORE_TRAINING == first.max_statements
    if again is None or not (early or (_trains_in_loop(again) if program.trained_at else again.trained_at)):
        return seen
    return replace(again, limit_with_all=program.stops[0]), switches, m


def _trains_in_loop(program: Program) -> bool:
    """A whole step of its training was followed, not just the gradients that it begins with."""
    return any(event.loops for event in program.events(OptimizerStep))
