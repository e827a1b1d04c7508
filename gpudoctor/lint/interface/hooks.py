"""What the evaluation of a program raises, for those who know what its values stand for.

The interpreter follows Python and knows no library. Where a step of it may mean more than Python says, it raises a
hook. Some are answered for a kind of value, as Python asks the class of an object; of others all are told who
subscribe; and a few have one who answers for all. Who subscribes stands in a file of `analyses` or `library`, and that
file in the list of `library/register.py`: no other file knows of it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from gpudoctor.diagnostic import Location
    from gpudoctor.lint.domain.arguments import Arguments
    from gpudoctor.lint.domain.function import Class, Instance, Library
    from gpudoctor.lint.domain.value import Allocated, Unknown, Value, Values
    from gpudoctor.lint.events.event_context import Event
    from gpudoctor.lint.flow.condition import Literal
    from gpudoctor.lint.interface.library_context import LibraryContext

F = TypeVar("F")
K = TypeVar("K")


def answers(hook: dict[K, F], *kinds: K) -> Callable[[F], F]:
    """Answer a hook that is asked of kinds of values, or of whatever else it knows."""

    def register(answer: F) -> F:
        hook.update(dict.fromkeys(kinds, answer))
        return answer

    return register


def told(hook: list[F]) -> Callable[[F], F]:
    """Subscribe to a hook."""

    def register(subscriber: F) -> F:
        hook.append(subscriber)
        return subscriber

    return register


class Handled:
    """A handler of exceptions was followed."""

    __slots__ = {
        "errors": "Python's own exceptions that it names.",
        "events": "What it has done.",
        "goes_on": "The program goes on behind it.",
        "handler": "How it is written.",
        "returned": "What it has left the function or a loop with.",
        "since": "The first event of what it protects.",
        "tried": "Where that stands.",
        "until": "The first one after that.",
        "writes": "How many names and attributes it has written, where it goes on.",
    }

    def __init__(
        self, handler: ast.ExceptHandler, events: list[Event], since: int, until: int, goes_on: bool, writes: int,
        returned: tuple[Values, ...], errors: tuple[str, ...], tried: Location,
    ) -> None:  # fmt: skip
        self.handler, self.events, self.since, self.until = handler, events, since, until
        self.goes_on, self.writes, self.returned = goes_on, writes, returned
        self.errors, self.tried = errors, tried


class AskedOfKinds:
    """What the kinds of values answer."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: dict[type[Value], Callable[[LibraryContext, list[Value], ast.AST], Values]] = {}
        """An operator has an operand of this kind."""
        self.comparisons: dict[type[Value], Callable[[LibraryContext, list[Value], ast.AST], Values]] = {}
        """A comparison has one that is compared item by item."""
        self.arrays_compared: list[Callable[[LibraryContext, list[Value], ast.AST], Values | None]] = []
        """The same for values made of a share of the data that may be arrays; None where they are not known to be."""
        self.iterations: dict[type[Value], Callable[[LibraryContext, Any, ast.AST], Values]] = {}
        """What a loop over it gets in one round."""
        self.items: dict[type[Value], Callable[[LibraryContext, Any, object, ast.AST], Values]] = {}
        """`value[key]`, also where it is unpacked; the key is None where it is no constant."""
        self.item_set: dict[type[Value], Callable[[LibraryContext, Any, Values, Values], None]] = {}
        """`value[...] = new`."""
        self.memberships: dict[type[Value], Callable[[LibraryContext, Value, Any], Value | None]] = {}
        """`key in value`; None where that is as open as of anything."""
        self.tests: dict[type[Value], Callable[[LibraryContext, Any, Location], Value]] = {}
        """What a test sees that asks whether it is true."""
        self.attributes: dict[type[Value], Callable[[Any, str], bool | None]] = {}
        """It has an attribute of this name; None where that is not known."""
        self.tells_kind: set[str] = set()
        """Functions that say of a value alone of what kind it is: `isinstance`."""
        self.agreed: dict[type[Value], Callable[[LibraryContext, Any], bool]] = {}
        """All ranks surely have the same of it, whichever it is of several values."""
        self.contexts: dict[type[Value], Callable[[LibraryContext, Values, Callable[[], None]], None]] = {}
        """`with value:` around a block; one of the values is of the kind, or all are."""
        self.parts_of_results: dict[object, Callable[[LibraryContext, Unknown, str, ast.AST], Values | None]] = {}
        """An attribute of what this function of a library has returned, where that is not known; None where the
        attribute is not known either."""
        self.constructions: dict[type[Value], Callable[[LibraryContext, Any, Callable[[], object]], None]] = {}
        """Its constructor runs, which is one of the project."""


class ToldToAll:
    """What everybody is told who subscribes."""

    def __init__(self) -> None:
        super().__init__()
        self.attribute_sets: list[Callable[[LibraryContext, Value, str, Values, Location], None]] = []
        """`owner.name = values`, before it is done."""
        self.changes_by_itself: list[Callable[[Value, str], bool]] = []
        """An attribute that others write, too: what the program has put there need not be there when it looks."""
        self.watched_reads: list[Callable[[LibraryContext, Value, str, ast.AST], None]] = []
        """`value.name` is read, which is among the watched attributes of the execution."""
        self.opened: list[Callable[[LibraryContext, Iterable[Value]], None]] = []
        """From here on these may have attributes that nobody was seen to set."""
        self.subtracted: list[Callable[[LibraryContext, Value, Value, ast.AST], None]] = []
        """`left - right`, of what is neither constant nor answered for."""
        self.divided: list[Callable[[LibraryContext, Value, Value, ast.AST], None]] = []
        """`left / right`, of whatever it is."""
        self.augmented: list[Callable[[LibraryContext, Values, Values, ast.AST], None]] = []
        """`old += by`."""
        self.accumulated: list[Callable[[LibraryContext, ast.expr, Values, ast.AST], None]] = []
        """`target += ...` and `target = target + ...`, with what it is then."""
        self.printed: list[Callable[[LibraryContext, Values, Location], None]] = []
        """Values become text in an f-string; what a function shows is the business of its model."""
        self.written_under_any_name: list[Callable[[LibraryContext, Value, Values, Values, ast.AST], None]] = []
        """An entry or an attribute is written whose name is not known: the owner, the name, what is written."""
        self.dropped: list[Callable[[LibraryContext, ast.Call, Values, Callable[[], list[Value]], bool], None]] = []
        """Nothing takes what a call returns; the last arguments find what the method was called on, and say whether a
        notebook shows what it returns."""
        self.part_taken: list[Callable[[LibraryContext, ast.Call, Values, str], None]] = []
        """An attribute is all that is taken of what a call returns."""
        self.sets_made: list[Callable[[LibraryContext, Values, list[Values]], None]] = []
        """`{a, b}`, which is a list to us."""
        self.handled: list[Callable[[LibraryContext, Handled, Location], None]] = []
        """A handler of exceptions has done what it does."""
        self.context_closed: list[Callable[[LibraryContext, str, Location], None]] = []
        """The block of a context of a library has ended."""
        self.cut_by_rank: list[Callable[[LibraryContext, Values, Location], None]] = []
        """The rank decides what `value[...]` is."""
        self.picked: list[Callable[[LibraryContext, Value, Values, Location], None]] = []
        """`value[index]`, with an index that this rank has found out for itself."""
        self.cut_off: list[Callable[[LibraryContext, Values, Values, Location], None]] = []
        """`value[:end]`, with an end that is not written there."""
        self.made_alone: list[Callable[[LibraryContext, Value], None]] = []
        """An object was made of a class that nothing in its file makes one of: its users are not known."""


class AnsweredByOne:
    """What one answers for all."""

    def __init__(self) -> None:
        super().__init__()
        self.instance: list[Callable[[Class, Hashable, Location, str, LibraryContext], Allocated]] = []
        """The value of a new object of a class of the project."""
        self.written_settings: list[Callable[[LibraryContext, object, Location], Values | None]] = []
        """What the text of a setting stands for where it names something else, `${oc.env:RANK}`; None of any other."""
        self.lacks: list[Callable[[LibraryContext, Value, str], bool]] = []
        """An object surely has no such attribute, where none was found in it or in its class."""
        self.inherits: list[Callable[[Any, str], bool]] = []
        """A module has it from a class of a library, so that no `__getattr__` of its own is asked."""
        self.context_name: list[Callable[[str], str]] = []
        """How an open context of a library is called in the log; empty for one that means nothing."""
        self.text_parts: list[Callable[[LibraryContext, Values], list[Value]]] = []
        """What a text is made of, where it is made of these."""
        self.computed: list[Callable[[ast.operator, Value, Unknown], Value]] = []
        """What an operator makes of an unknown number that was computed from shares of the data."""
        self.library_compared: list[Callable[[ast.cmpop, Library, Value], bool | None]] = []
        """What a comparison with a name of a library comes to; None where that is open."""
        self.starts_ranks: list[Callable[[str], bool]] = []
        """A function of a library starts ranks of this program."""
        self.group_lacking: list[Callable[[LibraryContext, ast.AST], None]] = []
        """A program for one process is executed as one of several: here it would make their process group."""
        self.unknown_call: list[Callable[[LibraryContext, Value, Arguments, ast.AST], Values]] = []
        """Something is called of which nothing is known."""
        self.library_call: list[Callable[[LibraryContext, str, Arguments, ast.AST], Values]] = []
        """A library callable without a model."""
        self.derived_from: list[Callable[[LibraryContext, Instance, str, Arguments, ast.AST], None]] = []
        """An object is made whose class derives from one of a framework, of this name, which takes charge."""
        self.is_off: list[Callable[[LibraryContext, Literal], bool]] = []
        """Whether a test is of options alone, and does not hold where none of them is given."""
        self.method_call: list[Callable[[LibraryContext, Value, str, Arguments, ast.AST], Values]] = []
        """A method for which nobody answers."""


class Hooks(AskedOfKinds, ToldToAll, AnsweredByOne):
    """What may be subscribed to."""


HOOKS = Hooks()
