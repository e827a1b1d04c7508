"""What a rule would change about a program: frozen data in the program's terms, at places that the engine knows.

Rules never look at syntax, so a repair names calls, statements and loops by their places, and objects by their values.
`lint/fix` finds the syntax at these places, and the name by which the program calls each value there. Where it finds
none, there is no fix.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Location, Repairing, Safety
from gpudoctor.lint.values.base import Value
from gpudoctor.record import dataclass

# --- what is written ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Holds:
    """The expression by which the program calls this value, at the place where it is written."""

    value: Value


@dataclass(frozen=True, slots=True)
class Imported:
    """A name of a library, as the file calls it: `torch.distributed.get_rank`. Imported where it is not yet."""

    name: str


@dataclass(frozen=True, slots=True)
class Counter:
    """The name that counts the rounds of the loop at this place."""

    loop: Location


@dataclass(frozen=True, slots=True)
class Source:
    """What the user wrote here. Of a call, `part` may pick what it is called on, or one of its arguments: `receiver`,
    `function`, `0`, `loss`."""

    at: Location
    part: str = ""


@dataclass(frozen=True, slots=True)
class Either:
    """The first of these that can be written here."""

    choices: tuple[Code, ...]


Part = str | Holds | Imported | Counter | Source | Either
Code = tuple[Part, ...]


# --- what is done ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SetArgument:
    """Give the call here this argument, in the place of the one it has. `position` is where it may stand unnamed."""

    call: Location
    name: str
    to: Code
    position: int = -1


@dataclass(frozen=True, slots=True)
class RemoveArgument:
    """Take an argument from the call here."""

    call: Location
    name: str
    position: int = -1


@dataclass(frozen=True, slots=True)
class Before:
    """Insert lines before the statement here."""

    at: Location
    lines: tuple[Code, ...]


@dataclass(frozen=True, slots=True)
class After:
    """Insert lines after the statement here."""

    at: Location
    lines: tuple[Code, ...]


@dataclass(frozen=True, slots=True)
class First:
    """Insert lines at the beginning of the block whose header is here: a loop, a function, a class."""

    block: Location
    lines: tuple[Code, ...]


@dataclass(frozen=True, slots=True)
class Last:
    """Insert lines at the end of the block whose header is here."""

    block: Location
    lines: tuple[Code, ...]


@dataclass(frozen=True, slots=True)
class Replace:
    """Write this in the place of the expression here, or of one part of a call (as in `Source`)."""

    at: Location
    to: Code
    part: str = ""


@dataclass(frozen=True, slots=True)
class Assign:
    """Keep the value of the expression statement here under the name that this is."""

    at: Location
    to: Code


@dataclass(frozen=True, slots=True)
class Delete:
    """Take the whole statement here away."""

    at: Location


@dataclass(frozen=True, slots=True)
class Under:
    """Put the statement here under a header: `if rank == 0:`."""

    at: Location
    header: Code


Step = SetArgument | RemoveArgument | Before | After | First | Last | Replace | Assign | Delete | Under


@dataclass(frozen=True, slots=True)
class Repair(Repairing):
    """Steps that remove a mistake, with a title in the imperative. All of them are made, or none."""

    title: str
    steps: tuple[Step, ...]
    safety: Safety | None = None
    """Where it is another one than that of the rule."""
