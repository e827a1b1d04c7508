"""Code in colours, for terminals: rich knows the syntax, and is imported only where colour is wanted."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from gpudoctor.report.text import Style

Looks = Sequence[str]
"""For each character of a line the numbers of its escape sequence, empty for the terminal's own colour."""


def looks_of(lines: Sequence[str]) -> list[Looks]:
    """How the characters of lines that belong together look as Python."""
    from rich.color import ColorSystem
    from rich.style import Style as Painted
    from rich.syntax import Syntax

    text = Syntax("", "python", theme="ansi_dark").highlight("\n".join(lines))
    looks = [""] * len(text.plain)
    known: dict[Painted, str] = {}
    for span in text.spans:
        if not isinstance(span.style, Painted):
            continue
        if span.style not in known:
            # The escape sequence before a text, without what begins and ends it.
            known[span.style] = span.style.render("x", color_system=ColorSystem.STANDARD).partition("m")[0][2:]
        looks[span.start : span.end] = [known[span.style]] * (span.end - span.start)
    found: list[Looks] = []
    start = 0
    for line in lines:
        found.append(looks[start : start + len(line)])
        start += len(line) + 1
    return found


def highlighted(text: str, looks: Looks, style: Style) -> str:
    """`text` in the looks of its characters; what has none, as three dots at the end, stays as it is."""
    pieces = []
    for look, run in groupby(range(len(text)), key=lambda at: looks[at] if at < len(looks) else ""):
        every = list(run)
        piece = text[every[0] : every[-1] + 1]
        pieces.append(style.coloured(piece, look) if look else piece)
    return "".join(pieces)
