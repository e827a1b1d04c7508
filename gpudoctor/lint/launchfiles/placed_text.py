"""Text that stands somewhere in a file, perhaps in pieces: a command in a recipe, a quoted string, a list of words."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Location
from gpudoctor.record import dataclass

if TYPE_CHECKING:
    import re


@dataclass(frozen=True)
class Piece:
    """A stretch of the text, without a line break but at its end, and where it stands in the file."""

    text: str
    line: int
    column: int


def filled_in(piece: Piece, places: re.Pattern[str], value: Callable[[re.Match[str]], str]) -> Iterator[Piece]:
    """The piece with something else in its places, which stands there where they do."""
    at = 0
    for found in places.finditer(piece.text):
        if found.start() > at:
            yield Piece(piece.text[at : found.start()], piece.line, piece.column + at)
        yield Piece(value(found), piece.line, piece.column + found.start())
        at = found.end()
    if at < len(piece.text):
        yield Piece(piece.text[at:], piece.line, piece.column + at)


class PlacedText:
    """A text made of pieces of a file, which knows where each of its characters stands there."""

    def __init__(self, path: str, pieces: Iterable[Piece]) -> None:
        self.path = path
        self._pieces = list(pieces)
        self._offsets: list[int] = []
        at = 0
        for piece in self._pieces:
            self._offsets.append(at)
            at += len(piece.text)
        self.text = "".join(piece.text for piece in self._pieces)

    @classmethod
    def whole(cls, path: str, text: str) -> PlacedText:
        """All of a file."""
        lines = text.split("\n")
        return cls(path, [Piece(f"{line}\n", number, 1) for number, line in enumerate(lines, start=1)])

    def location(self, start: int, end: int) -> Location:
        """The place of a stretch, by its offsets in characters."""
        line, column = self._place(start)
        # One past the last character stands behind it, and not where the next piece begins.
        end_line, end_column = self._place(max(start, end - 1))
        return Location(self.path, line, column, end_line, end_column + (end > start))

    def stretch(self, start: int, end: int) -> list[Piece]:
        """The pieces of a stretch."""
        found: list[Piece] = []
        for offset, piece in zip(self._offsets, self._pieces, strict=True):
            first, last = max(start, offset), min(end, offset + len(piece.text))
            if first < last:
                text = piece.text[first - offset : last - offset]
                found.append(Piece(text, piece.line, piece.column + first - offset))
        return found

    def _place(self, offset: int) -> tuple[int, int]:
        if not self._pieces:
            return 1, 1
        index = max(0, bisect_right(self._offsets, offset) - 1)
        piece = self._pieces[index]
        return piece.line, piece.column + min(offset - self._offsets[index], len(piece.text))
