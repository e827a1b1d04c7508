"""Commands that are written as lists of words, in JSON and YAML."""

from __future__ import annotations

from collections.abc import Sequence

from gpudoctor.lint.launchfiles.placed_text import Piece, PlacedText
from gpudoctor.lint.launchfiles.shell_words import Hole, ShellCommand, ShellVariable, Word
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
        Word(
            _parts(word),
            text.location(*span),
            inside=(span,),
        )
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
    return replace(second, words=(*words, *second.words), environment=environment)


def _parts(word: str) -> tuple[str | Hole, ...]:
    """`$(NPROC)` and `${NPROC}` are filled in by whoever reads the file."""
    before, mark, after = word.partition("$")
    # A script is looked at by the shell that it is for.
    if not mark or " " in word or "\n" in word:
        return (word,)
    name = after[1:].partition(")" if after[:1] == "(" else "}")[0]
    return (*((before,) if before else ()), Hole(name))
