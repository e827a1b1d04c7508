"""Words of commands, as far as they are known."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeAlias

from gpudoctor.diagnostic import Location
from gpudoctor.record import dataclass, field, replace


@dataclass(frozen=True)
class Hole:
    """A part of a word that only the machine knows: a variable from outside, or what commands print."""

    variable: str = ""
    commands: tuple[tuple[str, ...], ...] = ()
    """Their words, with nothing for a word that is not known."""
    default: str | None = None
    """What it is where the machine says nothing: `${NPROC:-8}`."""
    single: bool = False
    """It is one word, as each item of a loop is."""
    early: bool = False
    """It is filled in once, before the nodes that read it are started."""


_OWN_FOLDER = frozenset({"dirname", "cd"})
"""`$(dirname "$0")`, `$(cd "$(dirname "$0")" && pwd)`."""
WordPart: TypeAlias = "str | Hole"


@dataclass(frozen=True)
class Word:
    """One word of a command, where it stands, and what it is made of."""

    parts: tuple[WordPart, ...]
    at: Location
    open: bool = False
    """It may be several words or none: `$ARGS`, with `ARGS` from outside."""
    inside: tuple[tuple[int, int], ...] = field(default=(), compare=False)
    """Of each part the offsets in the text that it was read from."""

    @property
    def text(self) -> str | None:
        """What it says, where that is known."""
        if len(self.parts) == 1 and isinstance(self.parts[0], str):
            return self.parts[0]
        return None if any(isinstance(part, Hole) for part in self.parts) else "".join(map(str, self.parts))

    @property
    def usual(self) -> str | None:
        """What it says where nothing is set from outside; None where that is not known."""
        parts = [part if isinstance(part, str) else part.default for part in self.parts]
        return None if None in parts else "".join(map(str, parts))

    @property
    def beside(self) -> str | None:
        """The path that it is from the folder of its script: `"$(dirname "$0")/env.sh"`; None for all others."""
        first = self.parts[0] if self.parts else ""
        if not isinstance(first, Hole) or not any(command[0] in _OWN_FOLDER for command in first.commands if command):
            return None
        rest = Word(self.parts[1:], self.at).text
        return rest.lstrip("/") if rest is not None else None

    @property
    def number(self) -> int | None:
        """The number that it is."""
        text = self.text
        return int(text) if text is not None and text.isdecimal() else None

    @property
    def holes(self) -> tuple[Hole, ...]:
        """What is not known of it."""
        return tuple(part for part in self.parts if isinstance(part, Hole))

    @property
    def shown(self) -> str:
        """What it says for people."""
        return "".join(part if isinstance(part, str) else _shown(part) for part in self.parts)

    def after(self, prefix: str) -> Word | None:
        """What stands behind a beginning, as the value in `--nodes=2`; None where it does not begin so."""
        first = self.parts[0] if self.parts else ""
        if not isinstance(first, str) or not first.startswith(prefix):
            return None
        rest = first[len(prefix) :]
        kept = rest or len(self.parts) == 1
        parts = ((rest,) if kept else ()) + self.parts[1:]
        inside = self.inside[1:]
        if kept and self.inside:
            inside = ((self.inside[0][0] + len(prefix), self.inside[0][1]), *inside)
        return Word(parts, self.at, inside=inside)


def _shown(hole: Hole) -> str:
    if hole.variable:
        return f"${hole.variable}"
    return f"$({' | '.join(' '.join(word or '…' for word in command) for command in hole.commands)})"


@dataclass(frozen=True)
class ShellVariable:
    """What a variable of the shell holds. Several words are an array's."""

    words: tuple[Word, ...]
    at: Location
    exported: bool = False
    array: bool = False
    granted: bool = False
    """Nobody sets it: it stands for the GPUs that there are, for the driver as well."""

    @property
    def word(self) -> Word:
        return self.words[0] if self.words else Word(("",), self.at)


def bound_to(text: str | None, at: Location, name: str = "") -> ShellVariable:
    """A variable that says this; one that is not known where it is filled in from elsewhere."""
    usual = re.fullmatch(r"\$\{(\w+):?-([^}$]*)\}", text or "")
    hole = Hole(usual[1], default=usual[2]) if usual is not None else Hole(name)
    return ShellVariable((Word((text,) if text is not None and "$" not in text else (hole,), at),), at, True)


def show_gpus(variables: dict[str, ShellVariable], count: int, at: Location) -> None:
    """A container sees so many, numbered from 0, unless it is told by name which."""
    devices = ",".join(map(str, range(min(count, 64))))
    variables.setdefault("CUDA_VISIBLE_DEVICES", replace(bound_to(devices, at), granted=True))


Environment = Mapping[str, ShellVariable]


def filled_in_before(variables: Environment) -> dict[str, ShellVariable]:
    """Variables as nodes find them that are started with them: what is not known of them is the same on all nodes."""
    found: dict[str, ShellVariable] = {}
    for name, bound in variables.items():
        parts = [
            tuple(part if isinstance(part, str) else replace(part, early=True) for part in word.parts)
            for word in bound.words
        ]
        words = tuple(replace(word, parts=new) for word, new in zip(bound.words, parts, strict=True))
        found[name] = replace(bound, words=words)
    return found


@dataclass(frozen=True)
class ShellCommand:
    """A command that a file runs, with all that is known about it there.

    `environment` holds what the command is told. `per_node` says that each node expands its words, `background` that
    the next command does not wait for it, `looped` that it may run several times.
    """

    words: tuple[Word, ...]
    at: Location
    environment: Environment
    conditional: bool = False
    looped: bool = False
    background: bool = False
    per_node: bool = False
    waits: int = 0
    """How often the script has waited before for what runs in the background."""
    folder: str | None = ""
    """From where it is started, seen from where the file is; None where that is not known."""
    heredoc: Word | None = field(default=None, compare=False)
    """What it reads from the file itself, where it does."""
