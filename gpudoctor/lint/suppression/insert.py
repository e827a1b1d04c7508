"""Comments that silence what was found, written at the end of the lines that they are meant for."""

from __future__ import annotations

import io
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Edit, Location
from gpudoctor.lint.source.launch_names import DOCKERFILE, launch_kind
from gpudoctor.lint.suppression.directives import ALL, Suppressions

if TYPE_CHECKING:
    from gpudoctor.lint.source.file import SourceFile
    from gpudoctor.lint.suppression.directives import Ignore


def comments_for(source: SourceFile, found: Iterable[tuple[int, str]]) -> list[Edit]:
    """The edits after which nothing is found any more: `found` are lines with the codes of the rules."""
    if source.launches:
        return list(_beside_commands(source, found))
    ends = _ends_of_statements(source.lines)
    codes: dict[int, list[str]] = {}
    for line, code in found:
        # Inside a string, or before a backslash, a comment has no place: then it stands where the statement ends.
        at = ends.get(line, line)
        if code not in codes.setdefault(at, []):
            codes[at].append(code)
    ours = [each for each in Suppressions.of(source).ignores if not each.is_noqa and each.last and each.text != ALL]
    return [_edit(source, line, sorted(new), ours) for line, new in sorted(codes.items())]


def _beside_commands(source: SourceFile, found: Iterable[tuple[int, str]]) -> Iterator[Edit]:
    """At the end of the command, or above it where the format has comments on lines of their own only."""
    codes: dict[int, set[str]] = {}
    above = launch_kind(source.path) == DOCKERFILE
    for line, code in found:
        at = line
        while above and at > 1 and source.lines[at - 2].rstrip().endswith("\\"):
            at -= 1
        while not above and at < len(source.lines) and source.lines[at - 1].endswith("\\"):
            at += 1
        codes.setdefault(at, set()).add(code)
    for at, own in sorted(codes.items()):
        text = source.lines[at - 1]
        comment = f"# gpudoctor: ignore[{', '.join(sorted(own))}]"
        if above:
            yield Edit(Location(source.shown, at, 1, at, 1), f"{comment}\n")
        else:
            end = len(text.rstrip())
            yield Edit(Location(source.shown, at, end + 1, at, len(text) + 1), f"  {comment}")


def _edit(source: SourceFile, line: int, codes: Sequence[str], ours: Sequence[Ignore]) -> Edit:
    text = source.lines[line - 1]
    here = [each for each in ours if each.comment.line == line]
    if here:
        # One comment for all that is silenced on a line.
        last = max(here, key=lambda each: each.location.end_column).location
        place = Location(source.shown, line, last.end_column, line, last.end_column)
        return Edit(place, "".join(f", {code}" for code in codes))
    end = len(text.rstrip())
    place = Location(source.shown, line, end + 1, line, len(text) + 1)
    return Edit(place, f"  # gpudoctor: ignore[{', '.join(codes)}]")


def _ends_of_statements(lines: Sequence[str]) -> dict[int, int]:
    """For the lines at whose end no comment may stand, the line where their statement ends."""
    unfit: set[int] = set()
    ends: dict[int, int] = {}
    waiting: list[int] = []
    text = "\n".join(lines)
    # What Python can parse it can also cut into tokens.
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        waiting += range(token.start[0], token.end[0] + 1)
        if token.type in _TEXTS:
            unfit.update(range(token.start[0], token.end[0]))
        if token.type == tokenize.NEWLINE:
            ends.update((line, token.start[0]) for line in waiting)
            waiting = []
    unfit |= {number for number, line in enumerate(lines, 1) if line.endswith("\\")}
    return {line: end for line, end in ends.items() if line in unfit}


_PARTS = ("FSTRING_START", "FSTRING_MIDDLE", "FSTRING_END")
"""Into these Python 3.12 cuts f-strings."""
_TEXTS = {tokenize.STRING, *(getattr(tokenize, name, tokenize.STRING) for name in _PARTS)}
