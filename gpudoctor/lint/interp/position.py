"""Where an execution is, in fields that are forked, set apart and taken back as a whole.

Each class is a group of the fields of one execution, by what happens to them: a speculative run takes out again what is
`Recorded`, a branch forks and a join merges what is `OnPath`, and a module that is imported begins with a `Position` of
its own. What is saved and restored is the group, whatever belongs to it, so none of its fields can be forgotten; and a
value in it is replaced, never changed, so that to keep it is to keep a reference.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.function import Class, Function
from gpudoctor.lint.domain.traced_number import Trace
from gpudoctor.lint.domain.value import NONE, Value, Values
from gpudoctor.lint.events.event_context import Loop
from gpudoctor.lint.flow.condition import ALWAYS, Condition, Literal
from gpudoctor.lint.flow.store import Delta, Store
from gpudoctor.lint.flow.valueset import ValueSet
from gpudoctor.lint.source.project import ModuleFile
from gpudoctor.record import dataclass, field

if TYPE_CHECKING:
    from gpudoctor.lint.events.event_context import Event
    from gpudoctor.lint.events.knowledge import Stop
    from gpudoctor.lint.interface.library_context import Listener

NEVER = 1 << 62
NOTHING: Values = ValueSet(())
NONE_SET: Values = ValueSet.of(NONE)


@dataclass(slots=True)
class PathExit:
    """A path that left a block: what it wrote since the block began, its condition and its value."""

    writes: Delta[Value]
    path: Condition
    value: Values = NONE_SET


@dataclass(slots=True)
class Frame:
    """An open call of a function, or the body of a module or class."""

    scope: Hashable
    scopes: tuple[Hashable, ...]
    file: ModuleFile
    name: str
    function: Function | None = None
    receiver: Value | None = None
    """The object whose method it is."""
    called_at: Location | None = None
    path: Condition = ALWAYS
    """The path when it was opened."""
    handed: bool = False
    """The caller was given the function, and did not name it itself."""
    base_depth: int = 0
    exits: list[PathExit] = field(default_factory=list)
    global_names: set[str] = field(default_factory=set)
    outer_names: set[str] = field(default_factory=set)
    on_yield: Callable[[Values], None] | None = None
    hint: str = ""
    """The name that the caller gives to the result."""
    yields_at: ast.AST | None = None
    """Where the generator waits that it is the body of."""
    defines: Class | None = None
    """The class whose body it is."""
    augments: bool = False
    """An augmented assignment writes its result."""


class EarlyExits:
    """The paths that leave the function or the loop around from inside of a block, as `return` and `break` do."""

    def __init__(self, position: Position) -> None:
        loop = position.open_loops[-1] if position.open_loops else None
        self._ways = [position.frames[-1].exits, *([loop.breaks, loop.continues] if loop else ())]
        self._counts = [len(way) for way in self._ways]

    def found(self) -> list[PathExit]:
        """Those since the block began."""
        return [exit_ for way, count in zip(self._ways, self._counts, strict=True) for exit_ in way[count:]]

    def pass_through(self, early: list[PathExit], writes: Delta[Value], stays: bool) -> None:
        """On their way out they come by what closes the block, which does not let them go where it ends itself."""
        for exit_ in early:
            exit_.writes = {**exit_.writes, **writes}
        for way in () if stays else self._ways:
            way[:] = [each for each in way if not any(each is gone for gone in early)]


@dataclass
class Notes:
    """What is done, in order."""

    written: list[tuple[Hashable, Values | None]] = field(default_factory=list)
    """The keys that were written, with what they held before, but for the names of calls."""
    kept: list[Hashable] = field(default_factory=list)
    """The scopes of calls whose names some function still sees."""
    asked: list[Literal] = field(default_factory=list)
    """The tests that no value alone decides."""
    numbers: Trace = field(default_factory=Trace)
    """What the numbers decide that were given."""


OpenFrames = tuple[tuple[Frame, ...], tuple[Hashable, ...], tuple[Condition, ...], tuple[bool, ...]]
"""The open calls, and of each its scope, the path when it was opened, and whether its function was handed over."""


@dataclass
class OpenLoop:
    """A loop whose body is being followed."""

    event: Loop
    base_depth: int
    continues: list[PathExit] = field(default_factory=list)
    breaks: list[PathExit] = field(default_factory=list)
    frame_depth: int = 0
    of_any_number: bool = False
    """Its rounds stand for others, of which nobody knows how many there are."""
    begun: int = 0
    """When this round began, by the clock."""
    repeats: bool = False
    """A later round of a body that was followed before, not the first one and not another item."""
    inside_generator: bool = False
    """The rounds are those of the generator's own loop, which is open too."""
    source: Values = NOTHING
    """What it goes over; nothing where it is no `for`."""


class Recorded:
    """What an execution writes down, each thing at the end of a book: a speculative run takes its own pages out."""

    __slots__ = {
        "imprecisions": "Where knowledge ended, and why.",
        "log": "The events.",
        "studied": "Classes whose `forward` or `backward` was looked at, with what is known of what it returns.",
    }

    def __init__(self) -> None:
        self.log: list[Event] = []
        self.imprecisions: dict[Hashable, None] = {}
        self.studied: dict[Hashable, Any] = {}


# One chain of classes, since Python gives the slots of one base a place.
class OnPath(Recorded):
    """What a branch forks and a join merges, beside the layers of the store."""

    __slots__ = {
        "enclosing": "The tests around this place, in this function and its callers.",
        "path": "What had to hold to get here.",
        "settled": "Tests that hold wherever the job goes on from here.",
        "unreachable": "The path has ended.",
    }

    def __init__(self) -> None:
        super().__init__()
        self.start_path()

    def start_path(self) -> None:
        """Nothing was asked yet."""
        self.path: Condition = ALWAYS
        self.settled: Condition = ALWAYS
        self.unreachable = False
        self.enclosing: tuple[Literal, ...] = ()

    def put_back_path(self, before: tuple[Any, ...]) -> None:
        """Let the path be what it was. Written out, because each side of each branch ends so."""
        self.enclosing, self.path, self.settled, self.unreachable = before


class Position(OnPath):
    """What is set apart while something is executed that has nothing to do with who asks for it."""

    __slots__ = {
        "attributes_asked_in": "In how deep a call a handler waits for an attribute that is not there; 0 for none.",
        "behind_main_guard": "A test of `__name__` leads here.",
        "calls": "Where the open calls stand.",
        "contexts": "What `with` has opened, by name.",
        "executing_module": "The body of a module is being executed, and not yet a function of the library file.",
        "frames": "The open calls, and the bodies of modules and classes, innermost last.",
        "job_aborted": "The path that ended last has done so with an error, and with it the job.",
        "listener": "Somebody is told what is done.",
        "look_ends": "After so many statements a look ahead, as at an item of a data set, follows no further calls.",
        "muted": "Nothing is logged.",
        "notes": "What is written and asked, where somebody wants to repeat it. They grow as books do.",
        "oldest_write": "The age of the oldest thing that was written to: it grows with each thing that is made.",
        "open_loops": "The loops whose bodies are being followed, innermost last.",
        "raised": "Python's own exceptions with which paths have ended, in order; empty for another one, or an end "
        "that is none. It grows as a book does.",
        "reads": "The keys that were read, in order: what a long function has read decides whether it is followed "
        "again. It grows as a book does.",
        "speculations": "How many speculative runs this is a part of.",
        "started_here": "What a process does is being followed that the program has started itself.",
        "stop": "What ended a path last, with an error.",
    }

    def __init__(self) -> None:
        super().__init__()
        self.start_position()

    def start_position(self) -> None:
        """As at the beginning of a program, before the first module."""
        self.start_path()
        self.frames: tuple[Frame, ...] = ()
        self.calls: tuple[Location, ...] = ()
        self.open_loops: tuple[OpenLoop, ...] = ()
        self.contexts: tuple[str, ...] = ()
        self.behind_main_guard = self.started_here = False
        self.executing_module = False
        self.attributes_asked_in = 0
        self.muted = False
        self.speculations = 0
        self.look_ends: int | None = None
        self.listener: Listener | None = None
        self.oldest_write = NEVER
        self.raised: list[str] = []
        self.reads: list[Hashable] = []
        self.notes: Notes | None = None
        self.job_aborted = False
        self.stop: Stop | None = None


ON_PATH: Callable[[OnPath], tuple[Any, ...]] = attrgetter(*OnPath.__slots__)
"""What there is to put back of a path."""
_OF_POSITION = (*OnPath.__slots__, *Position.__slots__)
POSITION: Callable[[Position], tuple[Any, ...]] = attrgetter(*_OF_POSITION)
"""What there is to put back of a position."""


def put_back(owner: Position, values: tuple[Any, ...]) -> None:
    """Let all that is in a position be what it was."""
    for name, value in zip(_OF_POSITION, values, strict=True):
        setattr(owner, name, value)


class Fork:
    """A path of its own for the length of a block, which leaves nothing behind unless it is joined."""

    __slots__ = ("_at", "_before", "_layer", "_path", "_store", "end", "job_aborted")

    def __init__(self, at: Position, store: Store[Value], path: Condition) -> None:
        self._at, self._store, self._path = at, store, path
        self.end: PathExit | None = None
        """Where the block comes out, if it does."""
        self.job_aborted = False
        """It did not, since the job has ended."""

    def __enter__(self) -> Fork:
        m = self._at
        self._before = ON_PATH(m)
        self._layer = self._store.open()
        m.path, m.unreachable, m.job_aborted = self._path, False, False
        return self

    def __exit__(self, *error: object) -> None:
        m = self._at
        if m.unreachable:
            self.job_aborted = m.job_aborted
        else:
            self.end = PathExit(self._layer, m.path)
        self._store.close()
        m.put_back_path(self._before)


class Within:
    """Some fields are something else for the length of a block, whatever ends it."""

    __slots__ = ("_fields", "_state")

    def __init__(self, state: Position, **fields: object) -> None:
        self._state = state
        self._fields = fields

    def __enter__(self) -> None:
        m, fields = self._state, self._fields
        for name, value in fields.items():
            fields[name] = getattr(m, name)
            setattr(m, name, value)

    def __exit__(self, *error: object) -> None:
        for name, value in self._fields.items():
            setattr(self._state, name, value)


class InFrame:
    """A frame is open for the length of a block; written out, because each call opens one."""

    __slots__ = ("_before", "_called_at", "_contexts", "_frame", "_state")

    def __init__(self, state: Position, frame: Frame, called_at: Location | None, contexts: tuple[str, ...]) -> None:
        self._state = state
        self._frame = frame
        self._called_at = called_at
        self._contexts = contexts

    def __enter__(self) -> Frame:
        m = self._state
        self._before = m.frames, m.calls, m.open_loops, len(m.contexts)
        m.frames = (*m.frames, self._frame)
        if self._called_at is not None:
            m.calls = (*m.calls, self._called_at)
        if self._contexts:
            m.contexts += self._contexts
        return self._frame

    def __exit__(self, *error: object) -> None:
        m = self._state
        m.frames, m.calls, m.open_loops, opened = self._before
        if self._contexts:
            # What the call has opened for a block of its caller stays open.
            m.contexts = m.contexts[:opened] + m.contexts[opened + len(self._contexts) :]
