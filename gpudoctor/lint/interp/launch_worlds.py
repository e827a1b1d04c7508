"""From an entry file to programs: in which worlds it is meant to run, and one execution in each."""

from __future__ import annotations

import ast
import re
from collections.abc import Hashable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from gpudoctor.diagnostic import Location
from gpudoctor.lint.discovery.classify import Classified, is_test
from gpudoctor.lint.discovery.top_level import DEFINITIONS, is_main_guard
from gpudoctor.lint.domain.module import WrapperKind
from gpudoctor.lint.domain.rank import Rank, Size, SizeKind
from gpudoctor.lint.domain.symbols import AnyOf, Compares, IsTrue, asked_of
from gpudoctor.lint.domain.value import Const, Unknown
from gpudoctor.lint.events.collective import Collective
from gpudoctor.lint.events.data_loading import MakeLoader, MakeSampler, Split
from gpudoctor.lint.events.event_context import Event, EventContext
from gpudoctor.lint.events.files import Download, Save
from gpudoctor.lint.events.knowledge import Imprecision, NotReached, Stop, UseManaged
from gpudoctor.lint.events.model import Wrap
from gpudoctor.lint.events.placement import DeviceUsed, Move
from gpudoctor.lint.events.process import ArgumentDeclared, EnvironmentRead, InitGroup, SeedSet
from gpudoctor.lint.events.reporting import StartLogger
from gpudoctor.lint.events.training_step import Backward, MakeOptimizer, OptimizerStep
from gpudoctor.lint.flow.condition import ALWAYS, Literal
from gpudoctor.lint.flow.interning import forget_keys
from gpudoctor.lint.hooks import HOOKS
from gpudoctor.lint.interp.budget import Budget, OutOfBudget
from gpudoctor.lint.interp.interpreter import Interpreter
from gpudoctor.lint.interp.limits import (
    MAX_ENTRY_EVALUATIONS,
    MAX_ENTRY_SECONDS,
    MAX_EVALUATIONS,
    MAX_LIBRARY_STATEMENTS,
    MAX_RESTARTS,
    MAX_SECONDS,
)
from gpudoctor.lint.interp.position import Frame
from gpudoctor.lint.interp.restarts import NeedsWorld, RefineAndRestart
from gpudoctor.lint.interp.written_switches import written_switches
from gpudoctor.lint.program import Assumptions, LaunchWorld, Program
from gpudoctor.lint.program_facts import AsStarted
from gpudoctor.lint.source.file_traits import Role
from gpudoctor.lint.source.project import ModuleFile, Project
from gpudoctor.record import dataclass, field, replace

if TYPE_CHECKING:
    from gpudoctor.lint.domain.launched_numbers import Sizes
    from gpudoctor.lint.interp.evaluator import Evaluator, LastCall
    from gpudoctor.lint.interp.reachable_code import CodeParts  # noqa: TC004, a record asks for the name alone
    from gpudoctor.lint.interp.scope_snapshots import ScopeSnapshots
    from gpudoctor.lint.program import UsedNames

E = TypeVar("E", bound=Event)

NOWHERE: frozenset[Location] = frozenset()
NOTHING_ASSUMED = Assumptions()
NOT_STARTED = AsStarted()
LAUNCHERS = frozenset({"RANK", "LOCAL_RANK", "WORLD_SIZE", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"})
_WORK = (
    Backward, DeviceUsed, Download, MakeLoader, MakeOptimizer, Move, OptimizerStep, Save, SeedSet, Split, StartLogger,
)  # fmt: skip
"""What each of several ranks has to do in another way than a program for one process does."""


def programs_of(
    entry: ModuleFile,
    what: Classified,
    project: Project,
    launch: str = "auto",
    started: AsStarted = NOT_STARTED,
) -> list[Program]:
    """The entry executed in each world that it is written for, with what its launch files say of the start."""
    start = _Start(entry, what, started)
    programs = _in_worlds(start, project, launch)
    # `--compute-stats` in the only script that starts it: it is there for more than that.
    if started.given and programs and all(each.untaken and not each.trained_at for each in programs):
        freely = replace(start, started=replace(started, given={}))
        others = _in_worlds(freely, project, launch)
        if any(each.trained_at for each in others):
            start, programs = freely, others
    if launch != "auto":
        return programs
    if started.several:
        return _as_several(start, project, programs)
    return _as_one(start, project, programs) if started.differs else programs


def _in_worlds(start: _Start, project: Project, launch: str) -> list[Program]:
    forget_keys()
    programs = _in_each_world(start, project, launch, Budget(MAX_ENTRY_SECONDS, MAX_ENTRY_EVALUATIONS))
    worlds = frozenset(program.world for program in programs)
    return [_told(replace(program, worlds=worlds), start.started) for program in programs]


def _told(program: Program, started: AsStarted) -> Program:
    """With what launch files say of how it is started."""
    return replace(program, started_in_several=started.several, shown_one_gpu=started.one_gpu)


def _as_several(start: _Start, project: Project, programs: list[Program]) -> list[Program]:
    # As one process nobody starts it.
    several = [each for each in programs if each.world.several_processes]
    if several or not start.started.surely:
        return several or programs
    # It knows of one process only, and each of them will train a model of its own.
    as_several = _in_worlds(start, project, LaunchWorld.TORCHRUN.value)
    return [each for each in as_several if each.assumptions.group_before is not None] or programs


def _as_one(start: _Start, project: Project, programs: list[Program]) -> list[Program]:
    # A framework starts the others, if need be, and so does the program itself.
    if any(each.frameworks for each in programs):
        return programs
    known = [each for each in programs if each.world is not LaunchWorld.TORCHRUN]
    if known or not start.started.alone:
        return known
    # That it cannot do without the others is a rule's to say.
    return [each for each in _in_worlds(start, project, LaunchWorld.SINGLE.value) if each.awaits_others() is None]


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
    start, left = _Start(entry, what, started), Budget(min(seconds, MAX_ENTRY_SECONDS), MAX_ENTRY_EVALUATIONS)
    again = (_execute(start, project, left, each.world, each.assumptions, places, attempts=1)[0] for each in programs)
    return [_told(each, started) for each in again if each is not None]


@dataclass(frozen=True)
class _Start:
    """A file that is executed first, and what it was found to be."""

    module: ModuleFile
    what: Classified
    started: AsStarted = NOT_STARTED
    code_parts: CodeParts = field(default_factory=dict)


def _in_each_world(start: _Start, project: Project, launch: str, left: Budget) -> list[Program]:
    if launch != "auto":
        program, _, _ = _follow(start, project, left, LaunchWorld(launch))
        if program is not None and program.world is LaunchWorld.TORCHRUN and _trains_alone(program):
            program = _with_group(start, project, left, program)
        return [program] if program is not None else []
    # torchrun first: most programs take both, and it is what PyTorch documents.
    program, switches, m = _follow(start, project, left, LaunchWorld.TORCHRUN, or_spawn=True)
    # It called `mp.spawn`, after it has asked for its launcher: under torchrun that would start processes of processes.
    if program is None:
        program, switches, m = _follow(start, project, left, LaunchWorld.SPAWN)
    if program is None:
        return []
    # Taken for several processes, a plain script would look as if it forgot everything.
    if not _is_distributed(program) or (
        start.module.source.cells is not None and program.world is LaunchWorld.TORCHRUN
    ):
        # Nothing of it asked: what one process does is known already.
        if not m.world_matters:
            return [replace(program, world=LaunchWorld.SINGLE)]
        alone, _, _ = _follow(start, project, left, LaunchWorld.SINGLE)
        return [alone] if alone is not None else []
    programs = _with_another_choice(start, project, left, program, switches)
    if _may_use_data_parallel(program):
        # The switch that turned DDP on is off where DataParallel is used: `if args.distributed: … else: …`.
        kept = _beside(switches) | m.granted
        off = {key: value if key in kept else not value for key, value in switches.items()}
        alone, _, _ = _follow(start, project, left, LaunchWorld.SINGLE, Assumptions(off, without_group=True))
        if alone is not None and _uses_data_parallel(alone):
            programs.append(alone)
    return programs


def _trains_alone(program: Program) -> bool:
    """A training that knows of one process only: started as several, each would train a model of its own."""
    if not program.has_entry or program.only_tests or program.may_begin_group or program.frameworks:
        return False
    return program.has(Backward, OptimizerStep) and not _is_distributed(program)


def _with_group(start: _Start, project: Project, left: Budget, program: Program) -> Program:
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
    start: _Start, project: Project, left: Budget, program: Program, switches: dict[Hashable, bool]
) -> list[Program]:
    """`if task == "test": mp.spawn(test); elif task == "train": mp.spawn(train)`, `if args.test: test() else: train()`:
    where the choice that was met first comes to no training, one that comes to it is followed as well."""
    chosen = [key for key, holds in switches.items() if holds and _may_be_another(key)]
    if program.trained_at or not program.untaken or not chosen:
        return [program]
    others = {**{key: holds for key, holds in switches.items() if key not in chosen}, **dict.fromkeys(chosen, False)}
    another, _, _ = _execute(start, project, left, program.world, Assumptions(others))
    # What turned distribution on is not one of several things to do.
    if another is None or not another.trained_at or not _is_distributed(another):
        return [program]
    return [another, program]


def _may_be_another(key: Hashable) -> bool:
    match key:
        case Compares("==", Unknown(), Const(value=str())) | IsTrue(Unknown()):
            return True
    return False


def _beside(switches: dict[Hashable, bool]) -> set[Hashable]:
    """Of `local_rank == -1 or no_cuda` the first decides how many processes there are; the other stays as it is."""
    found: set[Hashable] = set()
    for key in switches:
        parts = key.literals if isinstance(key, AnyOf) else frozenset()
        about_ranks = [each for each in parts if _is_about_ranks(each)]
        found |= {each.atom.key for each in parts if each not in about_ranks} if about_ranks else set()
    return found


def _is_about_ranks(literal: Literal) -> bool:
    return any(isinstance(each, (Rank, Size)) for each in asked_of(literal))


def _is_distributed(program: Program) -> bool:
    """Something in it only makes sense with several processes."""
    if program.plays_alone and program.world is not LaunchWorld.SPAWN:
        return False
    if program.world is LaunchWorld.SPAWN or any(_its_own(program, InitGroup, UseManaged, Collective)):
        return True
    # Only a launcher sets these, so who reads them expects to be started by one.
    if any(event.name in LAUNCHERS for event in _its_own(program, EnvironmentRead)):
        return True
    if any(event.name == "local_rank" for event in _its_own(program, ArgumentDeclared)):
        return True
    if any(event.kind in (WrapperKind.DDP, WrapperKind.FSDP) for event in program.events(Wrap)):
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
    return isinstance(event, EnvironmentRead) and event.default is None


def _uses_data_parallel(program: Program) -> bool:
    return any(event.kind is WrapperKind.DATA_PARALLEL for event in program.events(Wrap))


def _may_use_data_parallel(program: Program) -> bool:
    # Other wrappers' names end with it, and to ask what code names takes longer than to look at the text.
    name = re.compile(r"(?<!Distributed)(?<!Sharded)DataParallel\b")
    return any(name.search(source.text) for source in program.sources) and program.may_name("DataParallel")


def _follow(
    start: _Start,
    project: Project,
    left: Budget,
    world: LaunchWorld,
    assumed: Assumptions = NOTHING_ASSUMED,
    or_spawn: bool = False,
) -> tuple[Program | None, dict[Hashable, bool], Interpreter]:
    """One world; where a limit ends it before the training, with the default of each model and data set to choose."""
    seen = _execute(start, project, left, world, assumed, or_spawn=or_spawn)
    program, _, first = seen
    if program is None or not program.stops or not program.has_entry or _trains_in_loop(program):
        return seen
    # Nothing was chosen that a default would have decided.
    if not first.defaults_matter:
        return seen
    at_defaults = replace(program.assumptions, at_defaults=True)
    again, switches, m = _execute(start, project, left, program.world, at_defaults)
    if again is None or not (_trains_in_loop(again) if program.trained_at else again.trained_at):
        return seen
    return replace(again, limit_with_all=program.stops[0]), switches, m


def _trains_in_loop(program: Program) -> bool:
    """A whole step of its training was followed, not just the gradients that it begins with."""
    return any(event.loops for event in program.events(OptimizerStep))


def _execute(
    start: _Start,
    project: Project,
    left: Budget,
    world: LaunchWorld,
    assumed: Assumptions = NOTHING_ASSUMED,
    places: frozenset[Location] = NOWHERE,
    attempts: int = MAX_RESTARTS,
    or_spawn: bool = False,
) -> tuple[Program | None, dict[Hashable, bool], Interpreter]:
    """One world, begun again whenever a switch was learnt. With `or_spawn`, it may turn out that the program starts its
    ranks itself."""
    known, granted = dict(assumed.switches), set[Hashable]()
    written = written_switches(start.module.source) if world.several_processes else {}
    # Whether they turn distribution on is learnt once; who is executed again knows.
    open_ended = attempts > 1 and bool(written)
    # One for all attempts: whoever waits does not care how often it was begun.
    budget = Budget(min(MAX_SECONDS, left.left), min(MAX_EVALUATIONS, left.steps))
    for _ in range(attempts):
        m = Interpreter(project, world, known)
        m.budget, m.given, m.or_spawn = budget, start.started.given, or_spawn
        m.configured = start.started.configured
        m.sizes = _sizes_of(start.started) if world is LaunchWorld.TORCHRUN else {}
        m.without_group, m.at_defaults = assumed.without_group, assumed.at_defaults
        seen = _watch(m, places) if places else None
        if assumed.group_before is not None:
            _begin_group_before(m, assumed.group_before)
        m.granted = granted
        m.written_switches = {node: each for node, each in written.items() if open_ended or IsTrue(each) in known}
        try:
            whole = _run(m, start)
        # What ran before the switch was known saw both of its sides: the log of it is void.
        except RefineAndRestart:
            known = {**known, **m.refinements}
            world, or_spawn = m.world_unasked, or_spawn and not m.launcher_matters
            open_ended = open_ended and not any(IsTrue(each) in known for each in written.values())
            continue
        except NeedsWorld:
            return None, known, m
        finally:
            budget.steps -= m.evaluations
            left.steps -= m.evaluations
        # None of them did: the program is what stands there.
        if open_ended:
            open_ended = False
            continue
        return _program(m, start, m.world_unasked, whole, seen, group_before=assumed.group_before), known, m
    return _program(m, start, m.world_unasked, False, seen, group_before=assumed.group_before), known, m


def _sizes_of(started: AsStarted) -> Sizes:
    """How many processes there are, as far as the launch says so."""
    whole, on_each = started.processes, started.per_node
    if whole is None:
        return {}
    sizes = {SizeKind.WORLD: whole}
    if on_each is not None:
        sizes |= {SizeKind.LOCAL_WORLD: on_each, SizeKind.NODES: whole // on_each}
    return sizes


def _watch(m: Interpreter, places: frozenset[Location]) -> ScopeSnapshots:
    """Note what names hold at some places."""
    # Imported late: most runs ask for no fixes.
    from gpudoctor.lint.interp.scope_snapshots import ScopeSnapshots

    seen = ScopeSnapshots(places)
    m.on_statement = seen.note
    return seen


def _is_around(m: Evaluator, statement: ast.stmt, place: Location) -> bool:
    """It stands in no block but the main guard, and the place in it or in its blocks."""
    if m.frame.file.source.shown != place.path or is_main_guard(statement) or isinstance(statement, DEFINITIONS):
        return False
    return statement.lineno <= place.line <= (statement.end_lineno or statement.lineno)


def _begin_group_before(m: Interpreter, place: Location) -> None:
    """Make the process group before the statement around this place, outside of its blocks, the first time."""
    watch, made = m.on_statement, False

    def look(m: Evaluator, statement: ast.stmt, after: bool) -> None:
        nonlocal made
        if not made and not after and _is_around(m, statement, place):
            made = True
            for begins in HOOKS.group_lacking:
                begins(m, statement)
        if watch is not None:
            watch(m, statement, after)

    m.on_statement = look


def _run(m: Interpreter, start: _Start) -> bool:
    entry, commands = start.module, start.what.commands
    scope: Hashable = ("module", entry.name, entry.source.shown)
    m.packages[scope] = entry
    m.main_scope = scope
    # What a package does when it is imported, such as setting up a logger, makes no program of it.
    whole = start.what.role is not Role.PART
    if not whole:
        m.reading_library, m.max_statements = True, MAX_LIBRARY_STATEMENTS
        m.project.parses_late = True
    for gap in entry.source.cells.gaps if entry.source.cells else ():
        _note_at(m, gap.why, Location(entry.source.shown, gap.line, 1))
    try:
        with m.budget:
            m.run_module(scope, entry)
            if commands or not whole or (m.handed_over and not _trained_in(m.log)):
                _run_parts(m, scope, entry, commands, whole)
            for each in m.at_end:
                _run_at_end(m, each)
    except OutOfBudget as limit:
        _note(m, entry, str(limit), m.stopped_at)
    # What was seen until then stands, as after any other limit.
    except RecursionError:
        _note(m, entry, "the program is nested too deeply to follow", m.stopped_at)
    except MemoryError:
        _note(m, entry, "more memory than there is", m.stopped_at)
    return whole


def _run_at_end(m: Interpreter, end: LastCall) -> None:
    """`atexit.register(close)`, `signal.signal(SIGTERM, save)`: the last that a program does."""
    frame = end.frame
    opened = Frame(frame.scope, frame.scopes, frame.file, frame.name, base_depth=m.store.depth)
    with m.in_frame(opened), m.fork(end.path):
        m.call(end.function, end.arguments, end.node)


def _run_parts(m: Interpreter, scope: Hashable, entry: ModuleFile, commands: tuple[str, ...], whole: bool) -> None:
    # Imported late: most files that are linted are programs, and start in one way.
    from gpudoctor.lint.interp.entry import run_as_library, run_commands, run_handed_over

    run_commands(m, scope, entry, commands)
    if not whole:
        run_as_library(m, scope, entry)
    elif m.handed_over and not _trained_in(m.log):
        run_handed_over(m, scope, entry)


def _not_trained(
    m: Interpreter, start: _Start, files: Sequence[ModuleFile], whole: bool, trained: set[str]
) -> tuple[NotReached, tuple[Stop, ...]]:
    """Where the program trains, as its files are written, if no backward pass was seen, and why it did not come there;
    then where the other files do in which none was."""
    if not any(each.source.shown not in trained and may_train(each.source.text) for each in files) and whole:
        return NotReached(), ()
    # Imported late: most programs train in all of their files that do.
    from gpudoctor.lint.interp.unreached_training import idle, training_not_reached

    others = idle(files, start.code_parts, trained) if whole else ()
    if whole and trained:
        return NotReached(), others
    started = frozenset(start.what.commands)
    chosen = m.chosen_calls.values()
    return training_not_reached(start.module, files, start.code_parts, whole, started, chosen, m.fatal), others


def _names_that_may_run(start: _Start, files: Sequence[ModuleFile]) -> UsedNames:
    # Imported late: few rules that find something ask for it.
    from gpudoctor.lint.interp.reachable_code import names_that_may_run

    return names_that_may_run(start.module, files, start.code_parts, frozenset(start.what.commands))


def may_train(text: str) -> bool:
    """Worth a look for what asks for gradients."""
    return "backward(" in text or "training_step" in text


def _trained_in(log: Sequence[Event]) -> set[str]:
    """The files that take part in a backward pass."""
    backward = [event for event in log if type(event) is Backward]
    return {place.path for event in backward for place in (event.location, *event.context.calls)}


def _note(m: Interpreter, entry: ModuleFile, why: str, at: tuple[ModuleFile, ast.stmt] | None = None) -> None:
    if at is None and entry.source.tree.body:
        at = entry, entry.source.tree.body[0]
    _note_at(m, why, at[0].source.location(at[1]) if at is not None else Location(entry.source.shown, 1))


def _note_at(m: Interpreter, why: str, place: Location) -> None:
    m.log.append(Imprecision(context=EventContext(place, condition=ALWAYS), order=len(m.log), why=why, limit=True))


def _program(
    m: Interpreter,
    start: _Start,
    world: LaunchWorld,
    whole: bool,
    seen: ScopeSnapshots | None,
    *,
    group_before: Location | None,
) -> Program:
    entry = start.module
    # What waits in a program to be asked for is known to hold definitions, and to be imported.
    read = (module for scope, module in m.packages.items() if whole or scope not in m.pending)
    files = [module for module in read if isinstance(module, ModuleFile)]
    log = tuple(event if event.order == order else replace(event, order=order) for order, event in enumerate(m.log))
    missed, others = _not_trained(m, start, files, whole, _trained_in(log))
    return Program(
        entry=entry.source.shown,
        world=world,
        log=log,
        has_entry=whole,
        files=frozenset(file.source.shown for file in files) - m.beside,
        sources=tuple(file.source for file in files),
        may_run=partial(_names_that_may_run, start, files),
        parts={whole: frozenset(parts) for whole, parts in m.parts.items()},
        ended=m.ended,
        untaken=missed.where,
        leads_there=missed.chosen,
        ends_before=missed.end,
        idle=others,
        strangers=frozenset(m.strangers),
        gaps=frozenset(gap.why for gap in entry.source.cells.gaps) if entry.source.cells else frozenset(),
        only_tests=is_test(entry.source),
        names_before=seen.before if seen else {},
        names_after=seen.after if seen else {},
        assumptions=Assumptions(m.assumptions, m.without_group, m.at_defaults, group_before),
        too_new_torch=m.project.too_new_torch,
        launchers_named=m.project.launchers_named,
        launchers_naming_it=m.project.launchers_naming_it,
        evaluations=m.evaluations,
        sizes=m.sizes,
        size_matters=m.size_matters,
    )
