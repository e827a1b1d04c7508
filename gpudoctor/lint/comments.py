"""The code of a file, without what is only said about it."""

from __future__ import annotations

from functools import lru_cache
from io import StringIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from tokenize import TokenInfo


@lru_cache(maxsize=64)
def without_comments(text: str) -> str:
    """The text without its comments, and without strings that are statements of their own, as documentation is."""
    from tokenize import TokenError

    lines = StringIO(text).readlines()
    try:
        said = sorted(_said(lines), key=lambda token: token.start)
    except (TokenError, SyntaxError):
        said = []
    # What cannot be told apart counts as code.
    if not said:
        return text
    # From behind, so that the places before stay where they are.
    for token in reversed(said):
        (first, begin), (last, end) = token.start, token.end
        lines[first - 1 : last] = [lines[first - 1][:begin] + lines[last - 1][end:]]
    return "".join(lines)


def _said(lines: list[str]) -> Iterator[TokenInfo]:
    # Few programs are asked, and it takes a while to load.
    import tokenize

    begins_behind = (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING)
    alone, begins = None, True
    for token in tokenize.generate_tokens(iter(list(lines)).__next__):
        if token.type == tokenize.COMMENT:
            yield token
        if token.type in (tokenize.NL, tokenize.COMMENT):
            continue
        if alone is not None and token.type == tokenize.NEWLINE:
            yield alone
        alone = token if begins and token.type == tokenize.STRING else None
        begins = token.type in begins_behind
