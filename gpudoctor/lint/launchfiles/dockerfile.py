"""Dockerfiles: what the container runs, with the variables that the image sets."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from json.decoder import scanstring  # type: ignore[attr-defined]

from gpudoctor.lint.launchfiles.command_lists import command_of
from gpudoctor.lint.launchfiles.launchers import launches_in
from gpudoctor.lint.launchfiles.placed_text import Piece, PlacedText
from gpudoctor.lint.launchfiles.shell import Script, ScriptComment, read_script
from gpudoctor.lint.launchfiles.shell_words import Environment, ShellCommand, ShellVariable, Word
from gpudoctor.lint.launchfiles.start import ProgramStart
from gpudoctor.record import dataclass, replace


@dataclass(frozen=True)
class Instruction:
    """`CMD ...`: its name in capitals, and what it is given, over all of its lines."""

    name: str
    pieces: tuple[Piece, ...]

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces)


@dataclass(frozen=True)
class Image:
    """What a container starts, with the comments of the file; the command to which a service adds words; and what runs
    where it adds none, unless a shell reads that."""

    starts: tuple[ProgramStart, ...]
    comments: tuple[ScriptComment, ...]
    entry: ShellCommand | None
    whole: ShellCommand | None
    copied: tuple[tuple[str, str], ...]
    """Where something lies in it, and what that is outside."""


def read_dockerfile(shown: str, text: str) -> Image:
    """What a container of it starts."""
    variables: dict[str, ShellVariable] = {}
    arguments: dict[str, ShellVariable] = {}
    entry: Instruction | None = None
    command: Instruction | None = None
    folder = ""
    copied: list[tuple[str, str]] = []
    for each in instructions(text):
        if each.name == "FROM":
            variables, arguments, entry, command, folder = {}, {}, None, None, ""
        elif each.name == "ENV":
            variables |= _variables(shown, each, {**arguments, **variables})
        elif each.name == "ARG":
            arguments |= _variables(shown, each, {})
        elif each.name == "WORKDIR":
            folder = posixpath.join(folder, each.text.strip())
        elif each.name in ("COPY", "ADD"):
            copied += _copied(each, folder)
        elif each.name == "ENTRYPOINT":
            # It takes back what the image was to run.
            entry, command = each, None
        elif each.name == "CMD":
            command = each
    listed = _exec_form(entry) if entry is not None else None
    adding = command_of(shown, listed, variables, folder)[1] if listed else None
    given = _exec_form(command) if command is not None else []
    # What a shell reads is no list of words.
    words = [*(listed or []), *given] if given is not None and (entry is None or listed) else []
    whole = command_of(shown, words, variables, folder)[1] if words else None
    starts = tuple(_started(shown, entry, command, variables, folder))
    return Image(starts, tuple(_comments(shown, text)), adding, whole, tuple(copied))


def _copied(each: Instruction, folder: str) -> Iterator[tuple[str, str]]:
    """`COPY src/ /app/`: what is in a folder, or a file into one, or a file under another name."""
    listed = _exec_form(each)
    words = [word for word, _ in listed] if listed is not None else each.text.split()
    if any(word.startswith("--from") or word[:1] == "<" for word in words):
        return
    *sources, last = [word for word in words if not word.startswith("--")] or [""]
    place = posixpath.normpath(posixpath.join(folder, last))
    for source in sources:
        if not any(sign in source for sign in ("$", "*", "://")):
            yield place, source
            yield posixpath.join(place, posixpath.basename(source)), source


def instructions(text: str) -> Iterator[Instruction]:
    """The instructions, in order. What builds the image in heredocs is passed over."""
    pieces: list[Piece] = []
    name = ""
    until = ""
    for number, line in enumerate(text.split("\n"), start=1):
        if until:
            until = "" if line.strip() == until else until
            continue
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        indent = len(line) - len(line.lstrip())
        if not name:
            name = stripped.split(None, 1)[0].upper()
            indent += len(stripped.split(None, 1)[0])
        goes_on = stripped.endswith("\\")
        body = line[indent:].rstrip()
        body = body[:-1] if goes_on else body
        pieces.append(Piece(f"{body} ", number, indent + 1))
        if goes_on:
            continue
        if "<<" in body:
            until = (
                body.partition("<<")[2].lstrip("-").split()[0].strip("'\"") if body.partition("<<")[2].split() else ""
            )
        yield Instruction(name, tuple(pieces))
        pieces, name = [], ""


def _variables(shown: str, each: Instruction, known: Environment) -> dict[str, ShellVariable]:
    text = PlacedText(shown, each.pieces)
    # `ENV NAME value` of old.
    first = each.text.split()
    if first and "=" not in first[0]:
        value = each.text.split(None, 1)[1].strip() if len(first) > 1 else ""
        at = text.location(0, len(text.text.rstrip()))
        return {first[0]: ShellVariable((Word((value,), at),), at, True)}
    script = read_script(
        PlacedText(
            shown, [Piece("export", each.pieces[0].line, 1), *each.pieces, Piece("\nend", each.pieces[-1].line, 1)]
        ),
        {name: replace(bound, exported=False) for name, bound in known.items()},
    )
    return {name: bound for command in script.commands for name, bound in command.environment.items()}


def _started(
    shown: str, entry: Instruction | None, command: Instruction | None, variables: dict[str, ShellVariable], folder: str
) -> Iterator[ProgramStart]:
    given = [_exec_form(each) if each is not None else None for each in (entry, command)]
    whole = entry if entry is not None else command
    if whole is None:
        return
    listed = given[0] if entry is not None else given[1]
    if listed is None:
        text = PlacedText(shown, whole.pieces)
        yield from launches_in(read_script(text, variables, folder=folder), text, {})
        return
    words = [*listed, *(given[1] or [] if entry is not None else [])]
    text, made = command_of(shown, words, variables, folder)
    yield from launches_in(Script((made,), (), ()), text, {})


def _exec_form(each: Instruction) -> list[tuple[str, list[Piece]]] | None:
    """`["torchrun", "train.py"]`: its words, with their places."""
    text = each.text
    if not text.strip().startswith("["):
        return None
    placed = PlacedText("", each.pieces)
    found: list[tuple[str, list[Piece]]] = []
    at = text.index("[") + 1
    while (at := text.find('"', at)) >= 0:
        try:
            word, end = scanstring(text, at + 1)
        except ValueError:
            return None
        found.append((word, placed.stretch(at + 1, end - 1)))
        at = end
    return found


def _comments(shown: str, text: str) -> Iterator[ScriptComment]:
    """Comments have lines of their own, and speak of the instruction below."""
    lines = text.split("\n")
    for number, line in enumerate(lines, start=1):
        stripped = line.strip()
        if stripped.startswith("#"):
            column = line.index("#") + 1
            at = PlacedText(shown, [Piece(stripped, number, column)]).location(0, len(stripped))
            last = number + 1
            while last < len(lines) and (
                lines[last - 1].strip().startswith("#") or lines[last - 1].rstrip().endswith("\\")
            ):
                last += 1
            yield ScriptComment(stripped, at, number, last, True)
