"""What every wing of the product speaks: findings, where they are and how sure they are.

Vocabulary, kept everywhere: a *rank* is one process of the training program, its *global rank* counts over all
nodes and its *local rank* over one node; the *world size* is the number of ranks. A *device* is what a tensor lives
on, a *GPU* the hardware. A model is *wrapped* (DDP, DataParallel) or *sharded* (FSDP). A *finding* is one mistake at
one place; its *remedy* is what to type instead.
"""

from __future__ import annotations

import enum
from collections.abc import Container, Iterable

from gpudoctor.record import dataclass, field


class Severity(enum.Enum):
    """How bad a mistake is: `error` crashes, hangs or trains something wrong, `info` is advice."""

    ERROR = "error"
    WARNING = "warning"
    PERF = "perf"
    INFO = "info"

    @property
    def weight(self) -> int:
        """0 for the mildest, growing with the damage."""
        return _WEIGHTS[self]


_WEIGHTS = {Severity.INFO: 0, Severity.PERF: 1, Severity.WARNING: 2, Severity.ERROR: 3}


class Confidence(enum.Enum):
    """`likely` is what there is a doubt of, and `definite` the rest."""

    DEFINITE = "definite"
    LIKELY = "likely"


class Safety(enum.Enum):
    """`safe` fixes keep what the program means, `unsafe` ones may change it."""

    SAFE = "safe"
    UNSAFE = "unsafe"


class SeenIn(enum.Enum):
    """Which side saw the mistake."""

    CODE = "code"
    RUN = "run"
    MACHINE = "machine"


@dataclass(frozen=True, order=True)
class Cell:
    """A cell of a notebook: its `number`, counted from 1 over cells of all kinds, as editors do, and the lines of the
    notebook's own file that hold a place in it."""

    number: int
    row: int
    end_row: int


@dataclass(frozen=True, slots=True, order=True)
class Location:
    """A stretch of a file. Lines and columns start at 1; `end_column` is one past the last character.

    In a notebook they count in the `cell`.
    """

    path: str
    line: int
    column: int = 1
    end_line: int = 0
    end_column: int = 0
    cell: Cell | None = None

    def __str__(self) -> str:
        return f"{self.start}:{self.column}"

    @property
    def start(self) -> str:
        """The file and the line, as users read it: `train.py:12`, `train.ipynb:cell 3:12`."""
        return f"{self.text}:{self.line}"

    @property
    def text(self) -> str:
        """The text that the lines count in: a file, or a cell of one."""
        return f"{self.path}:cell {self.cell.number}" if self.cell else self.path

    @property
    def rows(self) -> tuple[int, int]:
        """The first and the last line of the file itself: services and git know nothing of cells."""
        return (self.cell.row, self.cell.end_row) if self.cell else (self.line, self.end_line or self.line)

    # Written out, because lint asks for it at each step.
    def __hash__(self) -> int:
        return hash((self.path, self.line, self.column, self.end_line, self.end_column))


@dataclass(frozen=True)
class Related:
    """A place that led to a finding, and what happened there."""

    message: str
    location: Location


@dataclass(frozen=True)
class Edit:
    """Replace what `location` covers by `text`."""

    location: Location
    text: str


@dataclass(frozen=True)
class Fix:
    """Edits that remove a mistake, with a title in the imperative. They are there where somebody asked for edits; else
    it is only known that they can be written."""

    safety: Safety
    title: str
    edits: tuple[Edit, ...]


@dataclass(frozen=True)
class Repairing:
    """What a rule would change; `lint.fix` makes a fix of it where one is asked for."""


@dataclass(frozen=True)
class Finding:
    """One mistake at one place.

    `message` says what happens, on which rank and why; `remedy` says what to write instead; `world` names the way of
    launching in which it happens (`torchrun`, `spawn`, `single`), or is empty where that does not matter. `launcher`
    is the library, if any, that starts the ranks in the place of torchrun: `accelerate`. `unwritten` says how safe a
    fix would be that was not written, because that takes as long as the lint itself, or another has to be made first;
    it may turn out to be none.
    """

    code: str
    name: str
    severity: Severity
    message: str
    location: Location
    remedy: str = ""
    related: tuple[Related, ...] = ()
    seen_in: SeenIn = SeenIn.CODE
    fix: Fix | None = None
    world: str = ""
    launcher: str = ""
    unwritten: Safety | None = None
    doubt: str = ""
    """Why it is no more than likely, a sentence; empty where nothing speaks against it."""
    repair: Repairing | None = field(default=None, compare=False)
    started_by: str = ""
    """The launch file that starts the program so, where one was read, as a clause: "when `run.sh` starts it"."""
    needs: tuple[object, ...] = field(default=(), compare=False)
    """Tests that had to come out right for it besides those on the way to its place; lint says which options they ask
    about, keeps these until it knows which launch gives them, and has none left when it is done."""
    by: tuple[object, bool] | None = field(default=None, compare=False)
    """The event that is wrong there, and whether others are right only under a test of the rank; lint has none left
    when it is done."""
    cause: Location | None = field(default=None, compare=False)
    """What the remedy changes, where that mends more places than this one: findings of one cause are told as one."""

    @property
    def confidence(self) -> Confidence:
        """Likely where there is a doubt."""
        return Confidence.LIKELY if self.doubt else Confidence.DEFINITE


def by_place(findings: Iterable[Finding]) -> list[Finding]:
    """In the order of the text, for machines; people read first what does most harm."""

    def key(each: Finding) -> tuple[object, ...]:
        at = each.location
        return at.path, at.cell.number if at.cell else 0, at.line, each.code, at.column

    return sorted(findings, key=key)


def in_order(findings: Iterable[Finding], stopping: Container[str]) -> list[Finding]:
    """By path, and in a file what does most harm first: by severity, and what stops the training (the codes of
    `stopping`) before what spoils it; then by line."""

    def key(each: Finding) -> tuple[object, ...]:
        at = each.location
        return at.path, -each.severity.weight, each.code not in stopping, at.line, each.code, at.column

    return sorted(findings, key=key)


@dataclass(frozen=True, order=True)
class Problem:
    """Something that a command could not do: a path that is not there, a file that must not be read."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message
