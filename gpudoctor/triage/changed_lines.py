"""Which lines of a text are new, compared with an older one, in nearly linear time whatever the texts are.

Lines that stand once in both texts and in the same order are held for the same (as in `git diff --patience`). What lies
between two of them is compared line by line where it is short, and counts as changed where not.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

_DEPTH = 4
"""How often what lies between such lines is looked at in the same way: there, more lines stand once."""
_SHORT = 10_000
"""Pairs of lines that are compared with each other."""
_PAIRS = 1_000_000
"""Of one file together."""

FileLines = Sequence[bytes]
_Hunk = tuple[int, int, int, int]
"""Lines of the old text and lines of the new one that differ: two ranges, counted from 0, of which one may be empty."""


def changed_lines(old: bytes, new: bytes) -> list[range]:
    """The lines of `new`, counted from 1, that are not in `old`. Ends of lines are not compared."""
    before, after = _lines(old), _lines(new)
    # Where lines were only taken away, the two around the gap are what is left of the change.
    return [range(c + 1, d + 1) if d > c else range(c, c + 2) for _, _, c, d in _LineDiff(before, after).gaps()]


def _lines(text: bytes) -> list[bytes]:
    # Git may keep other line ends than there are in the folder.
    return text.replace(b"\r\n", b"\n").split(b"\n")


class _LineDiff:
    def __init__(self, old: FileLines, new: FileLines) -> None:
        self._old = old
        self._new = new
        self._pairs = _PAIRS

    def gaps(self) -> Iterator[_Hunk]:
        return self._differing((0, len(self._old), 0, len(self._new)), _DEPTH)

    def _differing(self, gap: _Hunk, depth: int) -> Iterator[_Hunk]:
        a, b, c, d = gap = self._without_ends(gap)
        pairs = (b - a) * (d - c)
        if not pairs:
            if a < b or c < d:
                yield gap
        elif pairs <= min(_SHORT, self._pairs):
            self._pairs -= pairs
            yield from self._by_pairs(gap)
        elif depth and (same := self._anchors(gap)):
            for i, j in (*same, (b, d)):
                yield from self._differing((a, i, c, j), depth - 1)
                a, c = i + 1, j + 1
        else:
            yield gap

    def _without_ends(self, gap: _Hunk) -> _Hunk:
        """Without the lines at its beginning and at its end that are the same."""
        a, b, c, d = gap
        while a < b and c < d and self._old[a] == self._new[c]:
            a, c = a + 1, c + 1
        while a < b and c < d and self._old[b - 1] == self._new[d - 1]:
            b, d = b - 1, d - 1
        return a, b, c, d

    def _by_pairs(self, gap: _Hunk) -> Iterator[_Hunk]:
        a, b, c, d = gap
        for kind, i, k, j, m in SequenceMatcher(None, self._old[a:b], self._new[c:d], autojunk=False).get_opcodes():
            if kind != "equal":
                yield a + i, a + k, c + j, c + m

    def _anchors(self, gap: _Hunk) -> list[tuple[int, int]]:
        """Lines that stand once in both parts, as many as are in the same order."""
        a, b, c, d = gap
        old, new = Counter(self._old[a:b]), Counter(self._new[c:d])
        at = {self._new[j]: j for j in range(c, d) if new[self._new[j]] == 1}
        line = self._old
        return _rising([(i, at[line[i]]) for i in range(a, b) if old[line[i]] == 1 and line[i] in at])


def _rising(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest part of these pairs of which the second numbers rise, too."""
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for number, (_, j) in enumerate(pairs):
        place = bisect_left(ends, j)
        before.append(last[place - 1] if place else -1)
        ends[place : place + 1], last[place : place + 1] = [j], [number]
    found = []
    number = last[-1] if last else -1
    while number >= 0:
        found.append(pairs[number])
        number = before[number]
    return found[::-1]
