"""Words of which a pattern needs one: to look for words is many times quicker than to search for a pattern."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

try:
    from re import _constants as codes  # type: ignore[attr-defined]
    from re import _parser as parser  # type: ignore[attr-defined]
except ImportError:  # Python 3.10
    import sre_constants as codes
    import sre_parse as parser

_NONE: frozenset[str] = frozenset()


def words_of(pattern: str) -> frozenset[str]:
    """Whatever the pattern matches holds at least one of these; none where that is not known."""
    tree = parser.parse(pattern)
    return _NONE if tree.state.flags & re.IGNORECASE else _of_sequence(tree)


def _of_sequence(items: Iterable[tuple[Any, Any]]) -> frozenset[str]:
    """Of what has to come one after the other, the part whose words are the longest."""
    best, letters = _NONE, ""
    for code, value in (*items, (None, None)):
        if code is codes.LITERAL:
            letters += chr(value)
            continue
        best = max(best, frozenset((letters,)), _of_one(code, value), key=_shortest)
        letters = ""
    return best


def _of_one(code: Any, value: Any) -> frozenset[str]:
    if code is codes.SUBPATTERN:
        _, flags, _, items = value
        return _NONE if flags & re.IGNORECASE else _of_sequence(items)
    if code is codes.BRANCH:
        ways = [_of_sequence(items) for items in value[1]]
        return _NONE.union(*ways) if all(map(_shortest, ways)) else _NONE
    if code in (codes.MAX_REPEAT, codes.MIN_REPEAT) and value[0] > 0:
        return _of_sequence(value[2])
    return _NONE


def _shortest(words: frozenset[str]) -> int:
    return min(map(len, words), default=0)
