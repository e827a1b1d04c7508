"""The code of a file, without what is only said about it."""

from __future__ import annotations

import io
import tokenize
from collections.abc import Iterator
from functools import lru_cache

Token = tokenize.TokenInfo

_BEGINS_BEHIND = frozenset({tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING})
_IS_NOTHING = frozenset({tokenize.NL, tokenize.COMMENT})


@lru_cache(maxsize=64)
def without_comments(text: str) -> str:
    """The text without its comments, and without strings that are statements of their own, as documentation is."""
    lines = io.StringIO(text).readlines()
    try:
        said = sorted(_said(text), key=lambda token: token.start)
    except (tokenize.TokenError, SyntaxError):
        # What cannot be told apart counts as code.
        return text
    # From behind, so that the places before stay where they are.
    for token in reversed(said):
        (first, begin), (last, end) = token.start, token.end
        lines[first - 1 : last] = [lines[first - 1][:begin] + lines[last - 1][end:]]
    return "".join(lines)


def _said(text: str) -> Iterator[Token]:
    alone: Token | None = None
    begins = True
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token
        if token.type in _IS_NOTHING:
            continue
        if alone is not None and token.type == tokenize.NEWLINE:
            yield alone
        alone = token if begins and token.type == tokenize.STRING else None
        begins = token.type in _BEGINS_BEHIND
