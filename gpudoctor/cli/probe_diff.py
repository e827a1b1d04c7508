"""What changed since an earlier probe, in lines for a terminal: worse first, and of each kind as many as fit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpudoctor.probe.results import Direction
from gpudoctor.report.text import wrap

if TYPE_CHECKING:
    from gpudoctor.probe.results import Change, Comparison
    from gpudoctor.report.text import Style

_LOOKS = {Direction.WORSE: "error", Direction.BETTER: "help", Direction.OTHER: "info"}
_MOST = 6
_SIGN = 15


def changes(comparison: Comparison, style: Style) -> Iterator[str]:
    """The comparison under a heading of its own."""
    yield style.paint(f"since {comparison.against}", "bold")
    for sentence in comparison.surroundings:
        yield from wrap(sentence, style.width, " " * _SIGN, f"  {'not the same':<{_SIGN - 2}}")
    for direction in (Direction.WORSE, Direction.BETTER, Direction.OTHER):
        found = comparison.of(direction)
        for change in found[:_MOST]:
            yield from _change(change, style)
        if len(found) > _MOST:
            yield f"{' ' * _SIGN}and {len(found) - _MOST} more that are {direction.value}: see the JSON or the page"
    for direction in (Direction.NEW, Direction.GONE):
        names = [f"{change.what} ({change.after or change.before})" for change in comparison.of(direction)]
        if names:
            sign = f"  {direction.value:<{_SIGN - 2}}"
            lines = wrap(", ".join(names), style.width, " " * _SIGN, sign)
            yield from (style.paint(line, "dim") for line in lines)
    if not comparison.changes:
        yield "  nothing got worse or better by more than noise"
    yield style.paint(f"  {comparison.same} figures and verdicts are as they were", "dim")
    for note in comparison.notes:
        yield from (style.paint(line, "dim") for line in wrap(note, style.width, "  "))


def _change(change: Change, style: Style) -> Iterator[str]:
    sign = f"  {change.direction.value:<{_SIGN - 2}}"
    lines = wrap(f"{change.what}: {_told(change)}", style.width, " " * _SIGN, sign)
    lines[0] = style.paint(sign, _LOOKS[change.direction]) + lines[0][len(sign) :]
    yield from lines
    if change.because:
        yield from (style.paint(line, "dim") for line in wrap(change.because, style.width, " " * _SIGN))


def _told(change: Change) -> str:
    before, after = (_shown(each, change.unit) for each in (change.before, change.after))
    if not before or not after:
        return f"{after or before} ({'new' if after else 'gone'})"
    share = f" ({change.relative:+.0%})" if change.relative is not None else ""
    return f"{before} -> {after}{share}"


def _shown(value: float | str | None, unit: str) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    if unit in ("of linear", "of the step"):
        return f"{value:.0%} {unit}"
    if unit == "bytes":
        return f"{value / (1 << 20):.0f} MiB"
    return f"{value:.3g} {unit}" if abs(value) < 1000 else f"{value:.0f} {unit}"
