"""Figures and names as all pages show them."""

from __future__ import annotations

import math
import re

NONE = "\N{EN DASH}"
_KEPT = "\n\N{NO-BREAK SPACE}"
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def clean(text: str) -> str:
    """Without what is not to be seen: control characters, marks that turn the direction, halves of characters."""
    return "".join(char if char.isprintable() or char in _KEPT else "\N{REPLACEMENT CHARACTER}" for char in text)


def number(value: float | None) -> str:
    """Three digits that count, and no more noise than that; whole numbers of four digits and more in groups."""
    if value is None or not math.isfinite(value):
        return NONE
    if value == int(value) or abs(value) >= 1000:
        return grouped(value, 0)
    return f"{value:.1e}" if abs(value) < 0.001 else f"{value:.3g}"


def grouped(value: float, places: int) -> str:
    return f"{value:,.{places}f}".replace(",", "\N{NO-BREAK SPACE}")


def percent(share: float | None) -> str:
    """A share of one."""
    return NONE if share is None or not math.isfinite(share) else f"{100 * share:.0f}\N{NO-BREAK SPACE}%"


def size(count: float | None) -> str:
    """Bytes."""
    if count is None:
        return NONE
    power = 0
    while count >= 1024 and power < len(_UNITS) - 1:
        count, power = count / 1024, power + 1
    shown = f"{count:.0f}" if count >= 10 else f"{count:.3g}"
    return f"{shown}\N{NO-BREAK SPACE}{_UNITS[power]}"


def duration(seconds: float | None) -> str:
    """A time, in the unit that suits it."""
    if seconds is None or not math.isfinite(seconds):
        return NONE
    if seconds >= 180:
        return f"{number(seconds / 60)}\N{NO-BREAK SPACE}min"
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "µs")):
        if seconds * factor >= 1 or unit == "µs":
            return f"{number(seconds * factor)}\N{NO-BREAK SPACE}{unit}"
    return NONE


def moment(text: str) -> str:
    """A time of ISO 8601 in UTC for reading: 2026-11-22 03:10 UTC."""
    found = re.fullmatch(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d):\d\dZ", text)
    return f"{found[1]} {found[2]} UTC" if found else text
