"""Comments that silence nothing are taken away."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Edit, Fix, Location, Safety
from gpudoctor.record import replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gpudoctor.lint.suppression.directives import Ignore, SuppressionRemark


def without(unused: Iterable[SuppressionRemark], every: Sequence[Ignore], lines: Sequence[str]) -> Iterator[Fix | None]:
    """For each remark, a fix that takes its entry out of the comment, or the comment away where nothing in it is of
    use. None where prose follows it, which may speak of it."""
    ignores = [each.ignore for each in unused]
    of_no_use = [each for each in ignores if each is not None]
    return (None if each is None else _without(each, of_no_use, every, lines) for each in ignores)


def _without(ignore: Ignore, unused: Sequence[Ignore], every: Sequence[Ignore], lines: Sequence[str]) -> Fix | None:
    together = [each for each in every if each.comment == ignore.comment]
    line = lines[ignore.comment.line - 1]
    before, after = line[: ignore.comment.column - 1], line[ignore.comment.end_column - 1 :]
    if all(each in unused for each in together):
        if after.strip() and not after.lstrip().startswith("#"):
            return None
        place = _whole(ignore.comment, before, after, len(lines))
    else:
        place = _entry(ignore.location, line)
    return Fix(Safety.SAFE, "Take away what silences nothing", (Edit(place, ""),))


def _whole(comment: Location, before: str, after: str, count: int) -> Location:
    """The comment with the space before it, and with its line where nothing else stands there."""
    if not before.strip() and not after.strip() and comment.line < count:
        return Location(comment.path, comment.line, 1, comment.line + 1, 1)
    if after.strip():
        return replace(comment, end_column=comment.end_column + len(after) - len(after.lstrip()))
    return replace(comment, column=len(before.rstrip()) + 1, end_column=comment.end_column + len(after))


def _entry(item: Location, line: str) -> Location:
    """The entry with the comma behind it, or before it where it is the last one."""
    before, after = line[: item.column - 1], line[item.end_column - 1 :]
    if after.lstrip().startswith(","):
        gap = len(after) - len(after.lstrip().removeprefix(",").lstrip())
        return replace(item, end_column=item.end_column + gap)
    return replace(item, column=len(before.rstrip().removesuffix(",").rstrip()) + 1)
