"""One execution of an entry file in one launch world, from its first line to the program that rules see."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Location
from gpudoctor.lint.discovery.classify import Classified, is_test
from gpudoctor.lint.discovery.top_level import DEFINITIONS, is_main_guard
from gpudoctor.lint.domain.rank import SizeKind
from gpudoctor.lint.domain.symbols import IsTrue
from gpudoctor.lint.events.event_context import Event, EventContext
from gpudoctor.lint.events.knowledge import Chosen, Imprecision, NotReached, Stop
from gpudoctor.lint.events.launch_world import LaunchWorld
from gpudoctor.lint.events.program_facts import AsStarted
from gpudoctor.lint.events.training_step import Backward
from gpudoctor.lint.flow.condition import ALWAYS
from gpudoctor.lint.interface.hooks import HOOKS
from gpudoctor.lint.interp.budget import Budget, OutOfBudget
from gpudoctor.lint.interp.interpreter import Interpreter
from gpudoctor.lint.interp.limits import MAX_EVALUATIONS, MAX_LIBRARY_STATEMENTS, MAX_RESTARTS, MAX_SECONDS
from gpudoctor.lint.interp.position import Frame
from gpudoctor.lint.interp.restarts import NeedsWorld, RefineAndRestart
from gpudoctor.lint.interp.written_switches import written_switches
from gpudoctor.lint.library.library_names import IMPORTS
from gpudoctor.lint.program import Assumptions, Program
from gpudoctor.lint.source.file_traits import Role
from gpudoctor.lint.source.project import ModuleFile, Project
from gpudoctor.record import dataclass, field, replace

if TYPE_CHECKING:
    from gpudoctor.lint.domain.launched_numbers import Sizes
    from gpudoctor.lint.interp.evaluator import Evaluator, LastCall
    from gpudoctor.lint.interp.reachable_code import CodeParts  # noqa: TC004, a record asks for the name alone
    from gpudoctor.lint.interp.scope_snapshots import ScopeSnapshots
    from gpudoctor.lint.source.project_answers import UsedNames

NOWHERE: frozenset[Location] = frozenset()
NOTHING_ASSUMED = Assumptions()
NOT_STARTED = AsStarted()


@dataclass(frozen=True)
class EntryStart:
    """A file that is executed first, and what it was found to be."""

    module: ModuleFile
    what: Classified
    started: AsStarted = NOT_STARTED
    code_parts: CodeParts = field(default_factory=dict)


def execute(
    start: EntryStart,
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
        m.budget, m.or_spawn = budget, or_spawn
        m.given, m.words = start.started.given, start.started.words
        m.leaves_out_the_rest = start.started.left_out
        m.configured, m.tasks_of = start.started.configured, start.started.tasks_of
        m.sizes = _sizes_of(start.started) if world is LaunchWorld.TORCHRUN else {}
        m.without_group, m.at_defaults = assumed.without_group, assumed.at_defaults
        m.may_train = partial(_may_still_train, start)
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


def _run(m: Interpreter, start: EntryStart) -> bool:
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
    m: Interpreter, start: EntryStart, files: Sequence[ModuleFile], whole: bool, trained: set[str]
) -> tuple[NotReached, tuple[Stop, ...]]:
    """Where the program trains, as its files are written, if no backward pass was seen, and why it did not come there;
    then where the other files do in which none was."""
    if not any(each.source.shown not in trained and _may_train(each.source.text) for each in files) and whole:
        return NotReached(chosen=None if trained else _called_of_unknown_module(m)), ()
    # Imported late: most programs train in all of their files that do.
    from gpudoctor.lint.interp.unreached_training import idle, training_not_reached

    others = idle(files, start.code_parts, trained) if whole else ()
    if whole and trained:
        return NotReached(), others
    started = frozenset(start.what.commands)
    chosen = m.chosen_calls.values()
    return training_not_reached(start.module, files, start.code_parts, whole, started, chosen, m.fatal), others


def _called_of_unknown_module(m: Interpreter) -> Chosen | None:
    """The first call of what a module has whose name is not known, where files of the project train that were not
    read."""
    called = next((each for each in m.chosen_calls.values() if each.by in IMPORTS), None)
    if called is None:
        return None
    # Imported late: few programs name their modules so.
    from gpudoctor.lint.discovery.content_signs import trains_below
    from gpudoctor.lint.interp.unreached_training import chosen_by

    return chosen_by(called) if trains_below(m.project.root) else None


def _may_still_train(start: EntryStart, m: Interpreter) -> bool:
    """What was read so far asks for gradients somewhere: the entry itself, or one of its files."""
    whole = start.what.role is not Role.PART
    return whole and any(
        _not_trained(m, start, files, whole, set())[0].where for files in ([start.module], _files_read(m, whole))
    )


def _files_read(m: Interpreter, whole: bool) -> list[ModuleFile]:
    # What waits in a program to be asked for is known to hold definitions, and to be imported.
    read = (module for scope, module in m.packages.items() if whole or scope not in m.pending)
    return [module for module in read if isinstance(module, ModuleFile)]


def _names_that_may_run(start: EntryStart, files: Sequence[ModuleFile]) -> UsedNames:
    # Imported late: few rules that find something ask for it.
    from gpudoctor.lint.interp.reachable_code import names_that_may_run

    return names_that_may_run(start.module, files, start.code_parts, frozenset(start.what.commands))


def _may_train(text: str) -> bool:
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
    begun = m.stopped_in or EventContext(place)
    context = EventContext(place, condition=ALWAYS, loops=begun.loops, frames=begun.frames)
    m.log.append(Imprecision(context=context, order=len(m.log), why=why, limit=True))


def _program(
    m: Interpreter,
    start: EntryStart,
    world: LaunchWorld,
    whole: bool,
    seen: ScopeSnapshots | None,
    *,
    group_before: Location | None,
) -> Program:
    entry = start.module
    files = _files_read(m, whole)
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
        documented=m.project.documented_starts(),
        evaluations=m.evaluations,
        sizes=m.sizes,
        size_matters=m.size_matters,
    )
