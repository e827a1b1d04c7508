"""A script that is one word of another one, as behind `bash -c`, or stands behind its command."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpudoctor.lint.launchfiles.placed_text import Piece, PlacedText
from gpudoctor.lint.launchfiles.shell_words import ShellVariable, Word
from gpudoctor.record import replace

ESCAPE = r'\\([\\"$`\n])'
"""Between double quotes."""


def quoted_script(
    word: Word, text: PlacedText, variables: dict[str, ShellVariable], *, early: bool
) -> tuple[PlacedText, dict[str, ShellVariable]]:
    """The script that a word is, as behind `bash -c`, where what the outer shell has put into it is a variable.
    `early` where that happens once for all nodes that run the script."""
    pieces: list[Piece] = []
    known = dict(variables)
    for number, (part, (start, end)) in enumerate(zip(word.parts, word.inside, strict=False)):
        if isinstance(part, str):
            own = text.stretch(start, end)
            if "".join(piece.text for piece in own) != part:
                own = list(_without_escapes(text, start, end))
            if "".join(piece.text for piece in own) == part:
                pieces += own
            else:
                at = text.location(start, end)
                pieces += [Piece(line, at.line, at.column) for line in part.splitlines(keepends=True)]
        else:
            name, at = f"_outer_{number}", text.location(start, end)
            known[name] = ShellVariable((Word((replace(part, early=early or part.early),), at),), at)
            pieces.append(Piece(f"${{{name}}}", at.line, at.column))
    return PlacedText(text.path, pieces), known


def _without_escapes(text: PlacedText, start: int, end: int) -> Iterator[Piece]:
    """A stretch between double quotes, without the backslashes that stand for what follows them."""
    at = start
    for found in re.finditer(ESCAPE, text.text[start:end]):
        yield from text.stretch(at, start + found.start())
        at = start + found.end() - (found[1] != "\n")
    yield from text.stretch(at, end)
