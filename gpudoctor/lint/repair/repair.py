"""What a rule would change about a program: frozen data in the program's terms, at places that the engine knows.

Rules never look at syntax, so a repair names calls, statements and loops by their places, and objects by their values.
`lint/fix` finds the syntax at these places, and the name by which the program calls each value there. Where it finds
none, there is no fix.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.diagnostic import Location, Repairing, Safety
from gpudoctor.lint.domain.value import Value
from gpudoctor.record import dataclass

# --- what is written ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Holds:
    """The expression by which the program calls this value, at the place where it is written. `within` is a text of
    the program in which it stands, for numbers that several names may hold."""

    value: Value
    within: str = ""


@dataclass(frozen=True)
class Imported:
    """A name of a library, as the file calls it: `torch.distributed.get_rank`. Imported where it is not yet."""

    name: str


@dataclass(frozen=True)
class Counter:
    """The name that counts the rounds of the loop at this place."""

    loop: Location


@dataclass(frozen=True)
class Source:
    """What the user wrote here. `part` picks a part of it: of a call or an attribute what that belongs to (`receiver`;
    `named` where that is a name, or an attribute of one), of a call its `function` or an argument (`0`, `loss`), of an
    operation what stands `left` of the operator, of an assignment its `target`, what that belongs to (`owner`), its
    `value`, or what it adds (`added`; of a call of `append`, too)."""

    at: Location
    part: str = ""
    named: bool = False
    """Only where it is a name: what is written twice is made twice."""


@dataclass(frozen=True)
class Either:
    """The first of these that can be written here."""

    choices: tuple[Code, ...]


@dataclass(frozen=True)
class Always:
    """Nothing is written; but what is here must not be under a test in its function."""

    at: Location


@dataclass(frozen=True)
class Fresh:
    """A new name, which nothing in the file has yet; seen from where it is bound: only the same function has it."""

    name: str
    bound: Location


@dataclass(frozen=True)
class CallAgain:
    """The call here once more, with this as its first argument, and behind it those of its arguments that have one of
    these names and mean the same elsewhere."""

    at: Location
    first: Code
    keeps: tuple[str, ...] = ()


Part = str | Holds | Imported | Counter | Source | Either | Always | Fresh | CallAgain
Code = tuple[Part, ...]


# --- what is done, each `at` a place in one file -----------------------------------------------------------------


@dataclass(frozen=True)
class SetArgument:
    """Give the call here this argument, in the place of the one it has. `position` is where it may stand unnamed."""

    at: Location
    name: str
    to: Code
    position: int = -1
    over_plain: bool = False
    """Only in the place of nothing or of what is written out there: a setting is changed where it is made."""
    lacking: bool = False
    """It is known not to be among what `**settings` passes on."""


@dataclass(frozen=True)
class SetArguments:
    """Several of them, for one call."""

    at: Location
    arguments: tuple[SetArgument, ...]


@dataclass(frozen=True)
class RemoveArgument:
    """Take an argument from the call here."""

    at: Location
    name: str
    position: int = -1
    if_given: bool = False
    """It may be missing."""
    also: tuple[tuple[str, int], ...] = ()
    """The names and positions of others that go with it, each of which may be missing."""


@dataclass(frozen=True)
class Before:
    """Insert lines before the statement here; or before the tests around it, of which there must be one."""

    at: Location
    lines: tuple[Code, ...]
    outside: bool = False


@dataclass(frozen=True)
class After:
    """Insert lines after the statement here, and after each test around it in its function that holds none of what
    comes later, at the places `until`."""

    at: Location
    lines: tuple[Code, ...]
    until: tuple[Location, ...] = ()


@dataclass(frozen=True)
class First:
    """Insert lines at the beginning of the block whose header is here: a loop, a function, a class."""

    at: Location
    lines: tuple[Code, ...]


@dataclass(frozen=True)
class Last:
    """Insert lines at the end of the block whose header is here."""

    at: Location
    lines: tuple[Code, ...]


@dataclass(frozen=True)
class AtEnd:
    """Insert lines where the function around this place ends, or the main program."""

    at: Location
    lines: tuple[Code, ...]


@dataclass(frozen=True)
class Replace:
    """Write this in the place of the expression here, or of one part of a call (as in `Source`)."""

    at: Location
    to: Code
    part: str = ""
    constant: bool = False
    """It must be written out there: a number, or a text."""


@dataclass(frozen=True)
class Substitute:
    """Within the expression here, write this wherever a name holds the value, or the constant itself stands. Where it
    stands nowhere there is nothing to do."""

    at: Location
    value: Value
    to: Code
    in_file: bool = False
    """Where it does not stand there, the constant is written elsewhere in the file, and is that everywhere."""


@dataclass(frozen=True)
class Assign:
    """Keep the value of the expression statement here under the name that this is."""

    at: Location
    to: Code


@dataclass(frozen=True)
class Unassign:
    """Drop the name that keeps the value of the call here. Where it is not that of the first argument, it gets that."""

    at: Location


@dataclass(frozen=True)
class SuperFirst:
    """Make `super().__init__()` the first statement of the constructor around this place, or of the class here."""

    at: Location


@dataclass(frozen=True)
class Decorate:
    """Put a decorator on the function around this place. None of the other places may stand in it."""

    at: Location
    decorator: Code
    without: tuple[Location, ...] = ()


@dataclass(frozen=True)
class MoveUp:
    """Move the statement here to before another one of the same block."""

    at: Location
    before: Location


@dataclass(frozen=True)
class Delete:
    """Take the whole statement here away; it is a simple one."""

    at: Location
    recomputed: bool = False
    """Only where it computes a name anew from what that held: `loss = loss / 4`, `loss /= 4`."""


@dataclass(frozen=True)
class Under:
    """Put the statement here under a header: `if rank == 0:`."""

    at: Location
    header: Code
    skips: bool = False
    """Some ranks pass it over: nothing that is read elsewhere may be made there."""


@dataclass(frozen=True)
class Rewrite:
    """Write a line in the place of the whole assignment here."""

    at: Location
    to: Code


RepairStep = (
    SetArgument | SetArguments | RemoveArgument | Before | After | First | Last | AtEnd | Replace | Substitute | Assign
    | Rewrite | Unassign | SuperFirst | Decorate | MoveUp | Delete | Under
)  # fmt: skip


def parts_of(step: RepairStep) -> Iterator[Part]:
    """The parts of all code that a step writes."""
    for inner in getattr(step, "arguments", ()):
        yield from parts_of(inner)
    codes = [value for name in ("to", "header", "decorator") if (value := getattr(step, name, None)) is not None]
    for code in (*codes, *getattr(step, "lines", ())):
        yield from _parts_in(code)


def _parts_in(code: Code) -> Iterator[Part]:
    for part in code:
        yield part
        for choice in part.choices if isinstance(part, Either) else ():
            yield from _parts_in(choice)
        yield from _parts_in(part.first) if isinstance(part, CallAgain) else ()


@dataclass(frozen=True)
class Repair(Repairing):
    """Steps that remove a mistake, with a title in the imperative. All of them are made, or none; `otherwise` is what
    to try where they cannot be."""

    title: str
    steps: tuple[RepairStep, ...]
    safety: Safety | None = None
    """Where it is another one than that of the rule."""
    otherwise: Repair | None = None
    makes_group: bool = False
    """It makes the process group that the program lacks: until then no other repair of the program is of use."""
