"""Text on a terminal: wrapping, width and colour. Plain strings, because a rendering library costs more than a lint."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence

from gpudoctor.record import dataclass
from gpudoctor.visible import defused, visible

# A word, where code between backticks counts as one although it has spaces.
_WORD = r"(?:[^\s`]|`[^`\n]*`|`)+"
_CONTINUED = 8
"""How far the rest of a folded line of code is indented beyond its beginning."""

# Our own colours bear a mark that no text can know beforehand, so that they alone are let through.
_OURS = f"\x1b[{os.urandom(8).hex()}:"
_OUR_ESCAPE = f"{re.escape(_OURS)}([0-9;]*m|>[!-~]*\x07)"
_STYLES = {
    "bold": "1",
    "dim": "2",
    "error": "1;31",
    "warning": "1;33",
    "perf": "1;36",
    "info": "1;34",
    "help": "1;32",
    "added": "32",
    "removed": "31",
    "hunk": "36",
}


@dataclass(frozen=True)
class Style:
    """How text may look: how wide, with colour or without, and with which characters."""

    width: int = 80
    colour: bool = False
    unicode: bool = False

    def paint(self, text: str, look: str) -> str:
        """`text` in a look of the table above, where colour is wanted."""
        return self.coloured(text, _STYLES[look])

    def coloured(self, text: str, code: str) -> str:
        """`text` in the colours of an escape sequence, where colour is wanted; `written` lets it through."""
        return f"{_OURS}{code}m{text}{_OURS}0m" if self.colour and text else text

    def linked(self, text: str, address: str) -> str:
        """`text` as a link, where the terminal shows colours, and so links."""
        return f"{_OURS}>{address}\x07{text}{_OURS}>\x07" if self.colour and address else text

    @property
    def bar(self) -> str:
        """What stands between a line's number and the line."""
        return "\N{BOX DRAWINGS LIGHT VERTICAL}" if self.unicode else "|"


def written(lines: Iterable[str]) -> str:
    """Lines for people as they are written: whatever is in them, only our own colours steer the terminal."""
    return "".join(f"{harmless(line)}\n" for line in lines)


def harmless(line: str, kept: str = "") -> str:
    """One line as it is written; the characters of `kept` stay what they are."""
    if line.isprintable():
        return defused(line)
    # Every second piece is the code of a colour or a link of ours.
    pieces = re.split(_OUR_ESCAPE, line)
    begin = next((at for at in range(0, len(pieces), 2) if pieces[at].strip()), 0)
    return "".join(
        _escape(piece) if at % 2 else defused(visible(piece, kept), begins=at == begin)
        for at, piece in enumerate(pieces)
    )


def _escape(code: str) -> str:
    return f"\x1b[{code}" if code.endswith("m") and code[0] != ">" else f"\x1b]8;;{code[1:-1]}\x1b\\"


def wrap(text: str, width: int, indent: str = "", first: str | None = None) -> list[str]:
    """`text` in lines of at most `width` cells; its own line breaks stay, and so do lines that are indented code.

    `first` stands before the first line instead of `indent`.
    """
    lines: list[str] = []
    for paragraph in text.strip().split("\n"):
        prefix = indent if lines or first is None else first
        if paragraph.startswith("    "):
            lines.append(prefix + paragraph)
        else:
            lines.extend(_wrapped(paragraph, width, prefix, indent))
    return lines


def cells(text: str) -> int:
    """How many cells of a terminal `text` takes."""
    if text.isascii():
        return len(text)
    # Imported late: most programs are ASCII.
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)


def _wrapped(paragraph: str, width: int, prefix: str, indent: str) -> Iterator[str]:
    line, empty = prefix, True
    for word in _words(paragraph, width - cells(indent)):
        if not empty and cells(line) + 1 + cells(word) > width:
            yield line
            line, empty = indent, True
        line, empty = line + word if empty else f"{line} {word}", False
    yield line.rstrip()


def _words(paragraph: str, room: int) -> Iterator[str]:
    for word in re.findall(_WORD, paragraph):
        if cells(word) > room:
            yield from word.split()
        else:
            yield word


def folded(line: str, room: int) -> Iterator[tuple[int, str, str]]:
    """A line of code in pieces that fit: where each begins, what to put in front of it, and the piece.

    It is cut behind a blank where there is one, and continued with an indentation.
    """
    start, indent = 0, ""
    while cells(line[start:]) > room - len(indent):
        end = start + room - len(indent)
        while cells(line[start:end]) > room - len(indent):
            end -= 1
        blank = line.rfind(" ", start, end) + 1
        cut = blank if line[start:blank].strip() else end
        yield start, indent, line[start:cut]
        start = cut
        indent = " " * min(_CONTINUED + len(line) - len(line.lstrip()), room // 2)
    yield start, indent, line[start:]


def unindented(lines: Sequence[str]) -> tuple[list[str], int]:
    """The lines without the margin that they share, and how wide that was."""
    margin = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return [line[margin:] for line in lines], margin
