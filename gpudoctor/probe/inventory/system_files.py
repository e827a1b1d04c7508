"""Files by which Linux tells of the machine: where one cannot be read, it says nothing."""

from __future__ import annotations

from pathlib import Path


def text_in(path: str | Path) -> str:
    """What the file says."""
    try:
        return Path(path).read_text(errors="replace").strip()
    except OSError:
        return ""


def lines_in(path: str | Path) -> list[str]:
    """The same, line by line."""
    return text_in(path).splitlines()
