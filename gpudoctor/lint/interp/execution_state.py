"""The state of the paper execution: memory, path, open calls and loops, and the log it writes."""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, TypeVar

from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.abstract_state import NO, Flag, Ternary, ValueCell, ValueTable, known_of, written_of
from gpudoctor.lint.domain.function import class_of
from gpudoctor.lint.domain.value import FALSE, TRUE, UNBOUND, Allocated, Anonymous, Unknown, Value, Values, singleton
from gpudoctor.lint.events.data_loading import Iterate
from gpudoctor.lint.events.event_context import Event, EventContext, perhaps_open
from gpudoctor.lint.events.knowledge import Imprecision, Stop
from gpudoctor.lint.events.model import Wrap
from gpudoctor.lint.events.process import EnvironmentRead, InitGroup, Spawn
from gpudoctor.lint.events.program_facts import RANKS_OF_TASKS
from gpudoctor.lint.flow.condition import ALWAYS, Condition, Divergence, Literal, complement, whole
from gpudoctor.lint.flow.interning import numbered, numbered_from
from gpudoctor.lint.flow.store import Delta, Store
from gpudoctor.lint.flow.valueset import ValueSet, union
from gpudoctor.lint.interface.contents import ancestry
from gpudoctor.lint.interp.budget import Budget, OutOfBudget
from gpudoctor.lint.interp.function_traits import FunctionTraits, traits_of
from gpudoctor.lint.interp.limits import (
    A_CHOICE,
    MAX_BEFORE_TRAINING,
    MAX_EVALUATIONS,
    MAX_EVENTS,
    MAX_SECONDS,
    MAX_STATEMENTS,
    MAX_TOGETHER,
)
from gpudoctor.lint.interp.operators import asks_text, disjunction
from gpudoctor.lint.interp.position import (
    NONE_SET,
    POSITION,
    EarlyExits,
    Fork,
    Frame,
    InFrame,
    OpenFrames,
    OpenLoop,
    PathExit,
    Recorded,
    Within,
    put_back,
)
from gpudoctor.lint.interp.restarts import (
    AssumedLaunch,
    NeedsWorld,
    begins_to_train,
    has_distributed,
    is_one,
)
from gpudoctor.lint.interp.widening import widened
from gpudoctor.lint.source.syntax_walk import nodes_of
from gpudoctor.lint.source.unparse import shown

if TYPE_CHECKING:
    from gpudoctor.lint.domain.function import Function
    from gpudoctor.lint.events.launch_world import LaunchWorld
    from gpudoctor.lint.interface.library_context import Listener
    from gpudoctor.lint.interp.function_traits import CallMemory, Habit
    from gpudoctor.lint.interp.written_switches import WrittenSwitches
    from gpudoctor.lint.source.project import ModuleFile, Project

    Owner = TypeVar("Owner", bound=Value)

OLD = -1
"""The age of what was there from the beginning."""
_MAX_PARTS = 4
"""Of more tests it is forgotten that one of them holds."""
UNBOUND_SET: Values = ValueSet.of(UNBOUND)
YES_SET: Values = ValueSet.of(TRUE)
NO_SET: Values = ValueSet.of(FALSE)


class Speculation:
    """What was found out in a speculative run, once it is over."""

    __slots__ = ("_book", "_pages", "events", "returned", "studied", "whole")

    def __init__(self, book: list[Hashable]) -> None:
        self._book = book
        self._pages = len(book), len(book)
        self.events: list[Event] = []
        """What it would have logged."""
        self.studied: list[Hashable] = []
        """The classes whose `forward` was looked at in it."""
        self.whole = True
        """All of it was followed."""
        self.returned = True
        """It came to its end."""

    def close(self, returned: bool) -> None:
        """It is over."""
        self._pages = self._pages[0], len(self._book)
        self.returned = returned

    def reads(self, name: str) -> bool:
        """A variable of this name was read in it."""
        keys = (key for key in islice(self._book, *self._pages) if type(key) is tuple and len(key) == 2)
        return any(type(scope) is tuple and each == name for scope, each in keys)


class _Ages:
    """When things were made, by the clock. No part of the state, which is freed at once only without circles."""

    def __init__(self) -> None:
        self.born: dict[Hashable, int] = {}

    def of(self, key: Hashable) -> int:
        """When the owner of a key was made; `OLD` for what was there from the start."""
        owner = key[0] if type(key) is tuple else key
        return self.born.get(owner.identity if isinstance(owner, Allocated) else owner, OLD)


class ExecutionState(AssumedLaunch):
    """Memory, path and log. The interpreter proper adds statements, expressions and calls."""

    # Asked at each step, and Python finds what stands in a slot three times as fast as one attribute of fifty.
    # What stands here, not in a group of `position.py`, is one for the whole execution, for the reason that is given.
    __slots__ = {
        "_ages": "When what was made: no two things have one name, whoever made them.",
        "_lasting": "What modules have recorded that were first asked for in a speculative run, until that is over.",
        "_open_frames": "Looked up once: what events say of the open calls.",
        "_places": "Looked up once: where nodes stand.",
        "_texts": "Looked up once: how the source writes nodes.",
        "_traits": "Looked up once: what the bodies of functions hold.",
        "_visits": "How often the program came by each place: what is made in a speculative run has a name of its own.",
        "age": "A method of `_ages`, found quickly.",
        "budget": "What it may take, whatever it does.",
        "evaluations": "Counted against the budget.",
        "followed_loops": "Loops that were followed, each with the calls that led there.",
        "frame_count": "Names scopes: no two have one.",
        "habits": "What the calls of functions have done that did nothing which rules ask about.",
        "hints": "What the results of calls are named, by node.",
        "made_nodes": "Looked up once: nodes that the interpreter has made up.",
        "max_statements": "Counted against by `statements`.",
        "may_train": "What was read of the program trains somewhere, as it is written; it takes long to ask.",
        "memories": "Calls that may be done again from memory, by what was called.",
        "narrowed": "Names of which a path knows more since a test has ended the job: what they hold on it, and held.",
        "parts": "The modules in each module. What is made in a speculative run is known nowhere else.",
        "project": "The files: read once, whoever asks.",
        "statements": "Counted against the budget.",
        "stopped_at": "The statement in which a limit was met, which ends all there is.",
        "stopped_in": "How the program came there.",
        "store": "Memory, which has layers to be set apart by.",
        "watched": "Attributes whose reads somebody wants to be told: what was seen once is not unseen.",
        "written": "Cells and attributes that were ever written to: others need not be looked up, of no object.",
        "written_switches": "Switches in the text of the program that its author may set otherwise.",
    }

    def __init__(self, project: Project, world: LaunchWorld, assumed: dict[Hashable, bool]) -> None:
        super().__init__(world, assumed)
        self.project = project
        self.memories: dict[Hashable, CallMemory] = {}
        self.written_switches: WrittenSwitches = {}
        self._ages = _Ages()
        self.age = self._ages.of
        self.store: Store[Value] = Store(self.age)
        self.followed_loops: set[Hashable] = set()
        self.narrowed: dict[Hashable, tuple[Values, Values]] = {}
        self.parts: dict[Value, set[Value]] = {}
        self.watched: set[tuple[Value, str]] = set()
        self.statements = self.frame_count = 0
        self.max_statements = min(MAX_BEFORE_TRAINING, MAX_STATEMENTS)
        self.may_train: Callable[[Any], bool] = lambda _: False
        self.evaluations = 0
        self.budget = Budget(MAX_SECONDS, MAX_EVALUATIONS)
        self._visits: dict[tuple[Hashable, ...], int] = {}
        self.written: set[object] = set()
        self._open_frames: OpenFrames = ((), (), (), ())
        self._lasting: list[dict[str, Any]] = []
        self.hints: dict[int, str] = {}
        self._places: dict[int, Location] = {}
        self._texts: dict[int, str] = {}
        self.made_nodes: dict[int, ast.AST] = {}
        self.habits: dict[ast.AST, Habit] = {}
        self._traits: dict[ast.AST, FunctionTraits] = {}
        self.stopped_at: tuple[ModuleFile, ast.stmt] | None = None
        self.stopped_in: EventContext | None = None

    # --- places and names --------------------------------------------------------------------------------------

    @property
    def frame(self) -> Frame:
        return self.frames[-1]

    def place(self, node: ast.AST) -> Location:
        found = self._places.get(id(node))
        if found is not None:
            return found
        source = self.frames[-1].file.source
        # Nodes that the interpreter made up have no place of their own.
        if not hasattr(node, "lineno"):
            return Location(source.shown, 1)
        found = self._places[id(node)] = source.location(node)  # type: ignore[arg-type]
        return found

    def text(self, node: ast.AST, limit: int = 60) -> str:
        text = self._texts.get(id(node))
        if text is None:
            # Writing it costs more than most evaluations, and loops come by twice.
            text = self._texts[id(node)] = shown(node, self.frames[-1].file.source.lines)
        return text if len(text) <= limit else text[: limit - 3] + "..."

    def traits_of(self, function: Function) -> FunctionTraits:
        """What the body of a function holds."""
        found = self._traits.get(function.node)
        if found is None:
            found = self._traits[function.node] = traits_of(function.node, function.file.source)  # type: ignore[attr-defined]
        return found

    def allocation_site(self, place: Location) -> Hashable:
        # Python hashes tuples itself, and places by asking them.
        at = place.path, place.line, place.column, place.end_column
        visit = self._visits[at] = self._visits.get(at, 0) + 1
        # By place and visit, so that a restart gives the same things the same names.
        made = numbered((*at, visit))
        # Made again on another path, it is known outside of both.
        born = self._ages.born
        born[made] = OLD if made in born else self.store.clock
        self.store.clock += 1
        return made

    def identities(self, many: int, *at: Hashable) -> range:
        """The same for so many things that are made at once, as something was before."""
        visit = self._visits[at] = self._visits.get(at, 0) + 1
        first, born = numbered_from((*at, many, visit), many), self._ages.born
        born.update(dict.fromkeys(range(first, first + many), OLD if first in born else self.store.clock))
        self.store.clock += 1
        return range(first, first + many)

    def occurrences(self) -> dict[tuple[Hashable, ...], int]:
        """How often the program came by each place."""
        return self._visits.copy()

    def restore_occurrences(self, visits: dict[tuple[Hashable, ...], int]) -> None:
        """Come by again as if for the first time: what is made gets the identities that it got then."""
        self._visits = visits.copy()

    def outlives_round(self, owner: Hashable) -> bool:
        return any(loop.of_any_number and self.age((owner, "")) < loop.begun for loop in self.open_loops)

    def is_older(self, one: Hashable, other: Hashable) -> bool:
        return self.age((one, "")) < self.age((other, ""))

    @property
    def clock(self) -> int:
        """How much has been made: things and frames."""
        return self.store.clock

    def open_scope(self) -> Hashable:
        """The scope of a new call."""
        self.store.clock += 1
        self.frame_count += 1
        scope = ("frame", self.frame_count)
        self._ages.born[scope] = self.clock
        return scope

    def begin_scope(self, scope: Hashable) -> None:
        """From here on the names of a new call are written: those of its own layer are nobody else's."""
        self._ages.born[scope] = self.clock
        # A layer that is opened next is younger.
        self.store.clock += 1

    # --- log ---------------------------------------------------------------------------------------------------

    def event_context(self, at: Location) -> EventContext:
        """How the program came here."""
        # Many events happen in the same frames, which are set apart only by being replaced.
        frames, scopes, paths, handed = self._open_frames
        if frames is not self.frames:
            frames = self.frames
            scopes, paths = tuple([frame.scope for frame in frames]), tuple([frame.path for frame in frames])
            handed = tuple([frame.handed for frame in frames])
            self._open_frames = frames, scopes, paths, handed
        # A body run inside a generator's loop is one round of one loop, not of two.
        loops = tuple([loop.event for loop in self.open_loops if not loop.inside_generator])
        # By position, which takes half as long.
        return EventContext(
            at, self.calls, loops, self.path, frames[-1].name if frames else "", "no_grad" in self.contexts,
            self.contexts,
            not self.behind_main_guard, scopes, paths, handed,
        )  # fmt: skip

    @property
    def receiver(self) -> Value | None:
        return self.frame.receiver

    @property
    def in_body(self) -> bool:
        return self.frame.function is not None and self.frame.function.kind == "library"

    @property
    def parameters(self) -> dict[str, Values]:
        frame = self.frame
        signature = frame.function.node.args if frame.function is not None else None
        if signature is None:
            return {}
        rest = {signature.kwarg.arg: f"**{signature.kwarg.arg}"} if signature.kwarg is not None else {}
        names = [each.arg for each in ast.walk(signature) if isinstance(each, ast.arg)]
        held = [(rest.get(name, name), self.read((frame.scope, name))) for name in names]
        return {name: values for name, values in held if values is not None}

    def open_methods(self, value: Value) -> list[tuple[str, Location | None]]:
        """The methods of this object that are still open, and where each was called; the outermost first."""
        return [(frame.name, frame.called_at) for frame in self.frames if frame.receiver == value]

    def reached_at(self, value: Value) -> Location | None:
        return next((called_at for _, called_at in self.open_methods(value)), None)

    def emit(self, kind: type[Event], /, *, at: Location | None = None, **fields: object) -> None:
        """Add an event to the log; an event that only repeats an earlier one of the same loop round is left out."""
        # Evaluating for a look only, such as finding a receiver, must not look like doing.
        if self.muted or self.unreachable:
            return
        # Found out only while executing under torchrun: begin again with spawned ranks.
        if kind is Spawn:
            self.start_ranks(fields.get("nprocs"))
            self._begin_again_with(self._told_by_start(fields.get("nprocs")))
        assert at is not None
        if len(self.log) >= MAX_EVENTS:
            raise OutOfBudget(f"more than {MAX_EVENTS} events")
        if kind is InitGroup and self.without_group:
            raise NeedsWorld
        # These are done only by distributed runs: whatever guards them was switched on.
        wraps = kind is Wrap and fields["kind"].synchronises  # type: ignore[attr-defined]
        begins = kind is InitGroup and fields.get("again") is not True
        # One more that an option wraps, where another is anyway or a framework takes charge, has switched nothing on;
        # nor has what makes a mesh of a group that is there.
        if begins:
            self.refine_and_restart(_chosen_for_tasks(self.log), of_one=is_one(fields.get("world_size")))
        elif wraps and (self.choices.waiting or not has_distributed(self.log)):
            self.refine_or_wait(self.trains_beside)
        elif kind is Iterate:
            self._begin_again_with(self.choices.decide(self.trains_beside, self.frames))
        self.log.append(kind(context=self.event_context(at), order=len(self.log), **fields))

    def trains_beside(self, statements: Sequence[ast.stmt], file: ModuleFile) -> bool:
        """What these statements call asks for gradients, be it a method of an object that a name holds in an open
        call: `trainer.fit()`."""
        from gpudoctor.lint.discovery.call_search import goes_backward

        sides = chain([(statements, file)], self._methods_called(statements))
        return any(goes_backward(body, module, self.project) for body, module in sides)

    def _methods_called(self, statements: Sequence[ast.stmt]) -> Iterator[tuple[Sequence[ast.stmt], ModuleFile]]:
        for func in (call.func for node in statements for call in nodes_of(ast.Call, node)):
            if not isinstance(func, ast.Attribute) or not isinstance(func.value, ast.Name):
                continue
            held = [self.store.get((frame.scope, func.value.id)) for frame in self.frames]
            objects = {value: None for values in held for value in values or ()}
            for cls in filter(None, map(class_of, objects)):
                for each in ancestry(cls):
                    module = self.project.module_of(each.place.path)
                    if func.attr in each.methods and module is not None:
                        yield each.methods[func.attr].body, module

    def record_imprecision(self, why: str, at: Location, *, unread: bool = False) -> None:
        key = (why, at)
        # Loops and repeated calls lose the same knowledge each time.
        if key not in self.imprecisions:
            self.imprecisions[key] = None
            self.emit(Imprecision, at=at, why=why, unread=unread)

    def unknown(self, node: ast.AST, why: str, divergence: Divergence = Divergence.NONE) -> Values:
        """A value about which nothing is known, a new one at each visit."""
        term = Anonymous("", self.allocation_site(self.place(node)))
        return ValueSet.of(Unknown(term, why, self.text(node, 40), divergence))

    def as_read(self, target: ast.expr) -> ast.expr:
        """What is written to, read. Made once, since places and texts are remembered by the identity of nodes."""
        made = self.made_nodes.get(id(target))
        if not isinstance(made, ast.expr):
            parts = {name: getattr(target, name) for name in target._fields}
            made = ast.copy_location(type(target)(**parts | {"ctx": ast.Load()}), target)
            self.made_nodes[id(target)] = made
        return made

    # --- memory ------------------------------------------------------------------------------------------------

    def read(self, key: Hashable) -> Values | None:
        """What a key holds on this path."""
        self.reads.append(key)
        values = self.store.now.get(key)
        return values if values is None or values.is_definite else values.restrict(self.path)

    def write(self, key: Hashable, values: Values) -> None:
        """Bind a key; too many values become an unknown one."""
        # As `age` does, which would be called for each write.
        owner = key[0] if type(key) is tuple else key
        born = self._ages.born.get(owner.identity if isinstance(owner, Allocated) else owner, OLD)
        if born < self.oldest_write:
            self.oldest_write = born
        if self.notes is not None and owner is not self.frames[-1].scope:
            self.notes.written.append((key, self.store.now.get(key)))
        # Two values are what an `if` leaves; it is loops that pile them up.
        self.store.set(key, values if len(values.bindings) <= 2 else widened(key, values), born)

    def state(self, owner: Owner, cell: ValueCell[Owner]) -> Values | None:
        """What a cell of an object holds, None where nothing was written on this path."""
        # As in `read`: few questions are asked as often as these.
        key = (owner, cell)
        self.reads.append(key)
        if cell not in self.written:
            return None
        values = self.store.now.get(key)
        if values is None or values.single is UNBOUND:
            return None
        return values if values.is_definite else written_of(values, self.path, cell.collects)

    def set_state(self, owner: Owner, cell: ValueCell[Owner], values: Values) -> None:
        self.written.add(cell)
        self.write((owner, cell), values)

    def flag(self, owner: Owner, flag: Flag[Owner]) -> Ternary:
        key = (owner, flag)
        self.reads.append(key)
        if flag not in self.written:
            return NO
        values = self.store.now.get(key)
        return known_of(values, self.path) if values is not None else NO

    def flag_by_path(self, owner: Owner, flag: Flag[Owner]) -> Values:
        key = (owner, flag)
        self.reads.append(key)
        values = self.store.now.get(key)
        here = UNBOUND_SET if values is None else values.restrict(self.path)
        return here.map(lambda each: TRUE if each is TRUE else FALSE)

    def set_flag(self, owner: Owner, flag: Flag[Owner], is_so: bool = True) -> None:
        self.written.add(flag)
        self.write((owner, flag), YES_SET if is_so else NO_SET)

    def entry(self, owner: Owner, table: ValueTable[Owner], name: str) -> Values | None:
        """What a table of an object holds under a name, None where nothing was written on this path."""
        key = (owner, table, name)
        self.reads.append(key)
        values = self.store.now.get(key)
        return written_of(values, self.path, collects=False) if values is not None else None

    def set_entry(self, owner: Owner, table: ValueTable[Owner], name: str, values: Values) -> None:
        self.write((owner, table, name), values)

    def own_attribute(self, owner: Hashable, name: str) -> Values | None:
        # Few programs set one, and it is asked for with each attribute.
        return self.read((owner, name)) if name != "__dict__" or name in self.written else None

    def set_own_attribute(self, owner: Hashable, name: str, values: Values) -> None:
        self.written.add(name)
        self.write((owner, name), values)

    # --- paths -------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Count a statement against the budget."""
        self.statements += 1
        if self.statements > self.max_statements:
            chosen = self.defaults_matter and not self.at_defaults
            trains_later = chosen and not begins_to_train(self.log) and self.may_train(self)
            if self.max_statements != MAX_BEFORE_TRAINING or trains_later:
                raise OutOfBudget(f"more than {self.max_statements} statements")
            self.max_statements = MAX_STATEMENTS
        # Asking for the time costs as much as a short statement.
        if self.statements % 64 == 0:
            self.budget.check()
            if self.choices.is_late(self.statements):
                self._begin_again_with(self.choices.decide(self.trains_beside, self.frames))

    @property
    def lookahead_exhausted(self) -> bool:
        """A look ahead has taken what it may."""
        return self.look_ends is not None and self.statements >= self.look_ends

    def check_evaluations(self) -> None:
        """Ask whether time is over: a single statement can hold as many expressions as a program."""
        if self.evaluations > self.budget.steps:
            raise OutOfBudget(f"more than {MAX_EVALUATIONS} expressions")
        self.budget.check()

    def branch(
        self,
        test: bool | Literal,
        then: Callable[[], None],
        otherwise: Callable[[], None],
        more: bool = True,
        other: Sequence[ast.stmt] = (),
    ) -> None:
        """Follow both outcomes of a test, then join what lives. With `more`, something is done on both sides, which is
        `other` on the second."""
        # The test itself has ended the path.
        if self.unreachable:
            return
        if isinstance(test, bool):
            (then if test else otherwise)()
            return
        # What was written on each side lies in a layer, so neither side sees the other's.
        base, leaving = self.path, EarlyExits(self)
        sides: list[PathExit] = []
        aborted, left = False, test
        for literal, body, another in ((test, then, more), (test.negated(), otherwise, False)):
            self.choices.open.append((base, another, other, self.frame.file))
            side = self.run_branch(base, literal, body)
            self.choices.open.pop()
            aborted = aborted or side.job_aborted
            if side.end is not None:
                sides.append(side.end)
                left = literal
        self.join(base, sides)
        if len(sides) == 2 and (gone := leaving.found()):
            self._keep_what_is_left(base, test, sides, gone)
        self.end_choice()
        if aborted and len(sides) == 1:
            # The other ranks did not go another way, the job ended there: what is left always holds from here on.
            self.path = base
            # What kind of value it is must be learnt again where it is asked again.
            if left.atom.switch or (left.atom.none if left.holds else left.atom.every):
                self.settled = self.settled.conjoined_with(left)
            self.settle(left)

    def _keep_what_is_left(self, base: Condition, test: Literal, sides: list[PathExit], gone: list[PathExit]) -> None:
        """`if alone: if rank: return` leaves what `if alone and rank: return` leaves."""
        for side, here in zip(sides, (test, test.negated()), strict=True):
            told = side.path.difference(base.conjoined_with(here))
            left = whole(told) if told else None
            # What one answer says of another was so before.
            if left is None or not any(each.path.answer(left) is False for each in gone):
                continue
            if left.atom.place is not None and _is_fixed(here) and _is_fixed(left):
                one = disjunction([here.negated(), left], f"{left!r} where {here!r}", left.atom.place)
                self.path = self.path.conjoined_with(one.literal)

    def settle(self, literal: Literal) -> None:
        """Whoever gets on from here has this answer: no name holds what it would hold with the other one."""
        answer = ALWAYS.conjoined_with(literal)
        told = answer.literals | {each.negated() for each in answer.literals}
        now = self.store.now
        for scope in dict.fromkeys([*self.frame.scopes, *[frame.scope for frame in self.frames]]):
            for name in self.store.names(scope):
                values = now.get((scope, name))
                # Most names hold one value, always.
                if values is None or values.is_definite:
                    continue
                if not any([not told.isdisjoint(b.condition.literals) for b in values.bindings]):  # noqa: C419, a list is quicker here
                    continue
                left = values.restrict(answer).bindings
                if left:
                    here = union([singleton(b.value, b.condition.difference(answer)) for b in left])
                    self.store.set((scope, name), here, self.age((scope, name)))
                    self.narrowed[(scope, name)] = (here, values)

    def fork(self, path: Condition) -> Fork:
        """Inside, the execution is on this path. What it does there is forgotten, unless it is joined."""
        return Fork(self, self.store, path)

    def run_branch(self, base: Condition, literal: Literal, body: Callable[[], None]) -> Fork:
        """Follow one side of a branch."""
        inside, contexts = base.conjoined_with(literal), self.contexts
        with self.fork(inside) as side:
            # Only what is new: a switch around the whole program was noted further out.
            self.enclosing += tuple([part for part in inside if part not in base.literals])
            body()
            settled = self.settled
        if len(self.contexts) > len(contexts):
            # `if not last: stack.enter_context(model.no_sync())`: on this side alone.
            self.contexts = contexts + perhaps_open(self.contexts[len(contexts) :])
        if settled is not self.settled:
            self._settle_where(literal, settled.difference(self.settled))
        return side

    def _settle_where(self, test: Literal, told: Condition) -> None:
        """What a branch has settled holds wherever its test does: `if frozen: assert not distributed`."""
        for each in told:
            composed = each.atom.none if each.holds else each.atom.every
            parts = [part if each.holds else part.negated() for part in composed] or [each]
            if len(parts) < _MAX_PARTS and each.atom.place is not None:
                one = disjunction([*parts, test.negated()], f"{each!r} where {test!r}", each.atom.place)
                self.settled = self.settled.conjoined_with(one.literal)

    def abort(self, what: str, at: Location, error: str = "", why: str = "") -> None:
        """The path ends with an error, and with it the job: the launcher stops all ranks. `error` is the exception,
        where it is one of Python's own, of which is known who catches it."""
        self.unreachable = self.job_aborted = True
        self.stop = Stop(what, at, error, why)
        self.raised.append(error)

    def join(self, base: Condition, sides: list[PathExit]) -> None:
        """Go on where the sides meet."""
        self.unreachable = not sides
        if len(sides) < 2:
            self.path = sides[0].path if sides else base
            for side in sides:
                self.store.apply(side.writes)
            return
        path = sides[0].path
        for exit_ in sides[1:]:
            # `if rank == 0: … ` with both sides alive: afterwards all ranks are here again.
            path = path.intersection(exit_.path)
        self.path = path
        if self.narrowed:
            self._widen_again([side.writes for side in sides])
        self.store.merge([(side.path.difference(path), side.writes) for side in sides], UNBOUND_SET, widened)

    def _widen_again(self, sides: list[Delta[Value]]) -> None:
        """What was narrowed on one side was not written there: who asks for it behind the join makes the same test as
        before the branch."""
        for writes in sides:
            for key in writes.keys() & self.narrowed.keys():
                here, before = self.narrowed[key]
                if writes[key] is here and any(other.get(key) is not here for other in sides):
                    writes[key] = before

    def exit_path(self, depth: int, value: Values = NONE_SET) -> PathExit:
        """End the current path, keeping what it wrote above `depth` layers."""
        exit_ = PathExit(self.store.changes_since(depth), self.path, value)
        self.unreachable, self.job_aborted = True, False
        return exit_

    def for_each_value(self, values: Values, visit: Callable[[Value], Values], node: ast.AST) -> Values:
        # A join would bring the path back to life.
        if self.unreachable:
            return NONE_SET
        here = values.restrict(self.path)
        if self.settled and len(here.bindings) > 1:
            here = self._left_by_settled(here)
        # By far the most visits: no layer and no join is needed.
        if len(here.bindings) == 1:
            return visit(here.bindings[0].value)
        self.evaluations += A_CHOICE * len(here.bindings)
        results: list[Values] = []
        sides: list[PathExit] = []
        base, aborted = self.path, 0
        for left, binding in enumerate(here.bindings, 1 - len(here.bindings)):
            self.choices.open.append((base, left < 0, (), None))
            # `model = DDP(model) if distributed else model`: each is called under its own condition.
            with self.fork(base.and_(binding.condition)) as side:
                result = visit(binding.value)
            self.choices.open.pop()
            aborted += side.job_aborted
            if side.end is not None:
                results.append(result.guarded_by(binding.condition))
                sides.append(side.end)
        ended_the_job = 0 < aborted == len(here.bindings) - len(sides)
        # A dictionary that rank 0 alone has filled: the other ranks find nothing in it, and get on.
        if here.bindings:
            sides += [PathExit({}, gap) for gap in complement(base, [binding.condition for binding in here.bindings])]
        self.join(base, sides)
        if ended_the_job and sides:
            self.path = base
        self.end_choice()
        return self.widen_if_large(union(results), node)

    def _left_by_settled(self, values: Values) -> Values:
        """The values that may be here, where of some tests one always holds."""
        inside = self.path
        for each in self.settled.leaves_alone(inside):
            inside = inside.conjoined_with(each)
        left = values.restrict(inside) if inside is not self.path else values
        return left if left.bindings else values

    def widen_if_large(self, values: Values, node: ast.AST) -> Values:
        """The values, or one unknown where they are so many that each further step would multiply them."""
        return values if len(values.bindings) <= MAX_TOGETHER else widened(("one of", self.place(node)), values)

    def held(self, key: Hashable) -> Values | None:
        return self.store.get(key)

    # --- where the execution is ----------------------------------------------------------------------------------

    def in_frame(self, frame: Frame, called_at: Location | None = None, contexts: tuple[str, ...] = ()) -> InFrame:
        """Inside, this call or body is open, and what its decorators open around it."""
        return InFrame(self, frame, called_at, contexts)

    def in_caller(self, frames: tuple[Frame, ...], calls: tuple[Location, ...]) -> Within:
        """Inside, the frames that were opened since are out of sight: a block belongs to the frame that wrote it."""
        return Within(self, frames=frames, calls=calls)

    def in_round(self, loop: OpenLoop) -> Within:
        """Inside is a round of this loop."""
        return Within(self, open_loops=(*self.open_loops, loop))

    def in_contexts(self, *names: str) -> Within:
        """Inside, these are open; behind it, neither are those that were opened meanwhile."""
        return Within(self, contexts=self.contexts + names)

    def on_path(self, path: Condition) -> Within:
        """Inside, this was asked. What is learnt there does not hold behind it; what is done there is done."""
        return Within(self, path=path, enclosing=self.enclosing)

    def at_main_guard(self) -> Within:
        return Within(self, behind_main_guard=True)

    def trying(self, *, attributes: bool) -> Within:
        """Inside, this very code looks whether an attribute is there, where it does."""
        return Within(self, attributes_asked_in=len(self.frames) if attributes else self.attributes_asked_in)

    @contextmanager
    def isolated(self) -> Iterator[None]:
        """Inside, nothing holds of what leads here, and what is done there is not done by who asks for it.

        It is done once and for all, whoever was the first to ask: it is no part of a look ahead either, nobody listens
        to it, and an import inside a rank guard still binds the module for everybody.
        """
        before, frames, begun = POSITION(self), self.frames, self._sizes()
        self.start_position()
        # The frame at the bottom stays: where the entry stands decides what `sys.path` holds.
        self.frames = frames[:1]
        try:
            yield
        finally:
            put_back(self, before)
            if self.speculations:
                self._lasting.append(self._taken_out(begun))

    @contextmanager
    def speculative(self, statements: int | None = None) -> Iterator[Speculation]:
        """Inside, things are tried: nothing of it has happened behind it, but what it would have logged is known.

        With `statements`, no further calls are followed after so many. Somebody who is asked for events logs them also
        where those around want none.
        """
        run, before, begun = Speculation(self.reads), POSITION(self), self._sizes()
        self.speculations += 1
        self.muted = False
        if statements is not None:
            self.look_ends = self.statements + statements
        ends = self.look_ends
        try:
            with self.store.delta():
                yield run
        finally:
            pages = self._taken_out(begun)
            run.events, run.studied = pages["log"], pages["studied"]
            run.whole = ends is None or self.statements < ends
            run.close(returned=not self.unreachable)
            put_back(self, before)
            if not self.speculations:
                self._bring_back()

    def _sizes(self) -> list[int]:
        return [len(getattr(self, name)) for name in Recorded.__slots__]

    def _taken_out(self, sizes: list[int]) -> dict[str, Any]:
        """What was recorded since, which is taken out of the books."""
        found: dict[str, Any] = {}
        for name, size in zip(Recorded.__slots__, sizes, strict=True):
            book = getattr(self, name)
            found[name] = [*islice(book, size, None)]
            if isinstance(book, list):
                del book[size:]
            else:
                for key in found[name]:
                    del book[key]
        return found

    def _bring_back(self) -> None:
        """What modules have recorded is recorded when all is over in which they were asked for."""
        for pages in self._lasting:
            for name, found in pages.items():
                book = getattr(self, name)
                book.extend(found) if isinstance(book, list) else book.update(dict.fromkeys(found))
        self._lasting.clear()

    def listening(self, listener: Listener) -> Within:
        return Within(self, listener=listener)

    def events_suppressed(self) -> Within:
        """Nothing is logged inside."""
        return Within(self, muted=True)


def _chosen_for_tasks(log: Iterable[Event]) -> set[Hashable]:
    """The texts that somebody has to choose for a variable to be asked for that `srun` or `mpirun` sets."""
    asked = (each for each in log if type(each) is EnvironmentRead and each.insists and each.name in RANKS_OF_TASKS)
    chosen = (literal for each in asked for literal in each.condition if literal.holds)
    return {literal.atom.key for literal in chosen if asks_text(literal.atom.key)}


def _is_fixed(test: Literal) -> bool:
    """It comes out for a rank as it does wherever it is asked again: by its number, and by what the user has chosen."""
    return test.atom.switch or test.atom.divergence is Divergence.RANK
