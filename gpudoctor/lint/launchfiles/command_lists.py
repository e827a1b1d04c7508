"""Commands that are written as lists of words, in JSON and YAML."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpudoctor.lint.launchfiles.placed_text import Piece, PlacedText
from gpudoctor.lint.launchfiles.shell_words import Environment, Hole, ShellCommand, ShellVariable, Word, WordPart
from gpudoctor.record import replace


def command_of(
    shown: str, words: Sequence[tuple[str, list[Piece]]], variables: dict[str, ShellVariable], folder: str | None = ""
) -> tuple[PlacedText, ShellCommand]:
    """The command that such words are, and the text that they stand in. No shell has seen them."""
    pieces: list[Piece] = []
    spans: list[tuple[int, int]] = []
    length = 0
    for _, own in words:
        start = length
        pieces += own
        length += sum(len(piece.text) for piece in own)
        spans.append((start, length))
        if own:
            last = own[-1]
            pieces.append(Piece(" ", last.line, last.column + len(last.text)))
            length += 1
    text = PlacedText(shown, pieces)
    made = tuple(
        Word(_parts(word, variables), text.location(*span), inside=(span,))
        for (word, _), span in zip(words, spans, strict=True)
    )
    whole = text.location(0, max(0, length - 1))
    return text, ShellCommand(
        made, whole, {name: each for name, each in variables.items() if each.exported}, folder=folder
    )


def followed_by(first: ShellCommand, second: ShellCommand) -> ShellCommand:
    """One command, with the words of another file behind it."""
    # What is quoted in the first cannot be read from the text of the second.
    words = tuple(replace(each, inside=()) for each in first.words)
    environment = {**first.environment, **second.environment}
    folder = second.folder or first.folder
    return replace(second, words=(*words, *second.words), environment=environment, folder=folder)


_EXPANSION = re.compile(r"\$(?:\((\w+)\)|\{(\w+)(?::?-([^}]*))?\}|(\w+))")


def _parts(word: str, variables: Environment) -> tuple[WordPart, ...]:
    """`$(NPROC)` and `${NPROC}` are filled in by whoever reads the file: the first is a variable of the container."""
    # A script is looked at by the shell that it is for.
    if "$" not in word or " " in word or "\n" in word:
        return (word,)
    parts: list[WordPart] = []
    at = 0
    for found in _EXPANSION.finditer(word):
        parts += [word[at : found.start()]] if found.start() > at else []
        known = variables.get(found[1] or "")
        parts += known.word.parts if known is not None else [Hole(found[1] or found[2] or found[4], default=found[3])]
        at = found.end()
    return (*parts, *([word[at:]] if at < len(word) else []))
