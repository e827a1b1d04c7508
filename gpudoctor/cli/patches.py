"""Changes as a patch: exact for `git apply`, in colours on a terminal, and never with what steers one."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from gpudoctor.cli.output import say, write_out
from gpudoctor.cli.terminal import style_for
from gpudoctor.lint.source.encoding import encoding_of
from gpudoctor.lint.source.file import NOTEBOOK
from gpudoctor.report.text import Style, harmless

if TYPE_CHECKING:
    from gpudoctor.lint.fix_loop import FileChange

_LOOKS = {"+++": "bold", "---": "bold", "@@": "hunk", "+": "added", "-": "removed"}
"""By how a line begins; the first that fits counts."""


def write_patch(changes: Iterable[FileChange], colour: str) -> None:
    """Print changes to standard output."""
    style = style_for(sys.stdout, colour)
    lines = [line for change in changes for line in diff_of(change)]
    write_out("".join(f"{_shown(line, style)}\n" for line in lines))
    if any(_plain(line) != line for line in lines):
        say("gpudoctor: control characters are shown as escapes: no patch to apply; `--fix` writes the files")


def diff_of(change: FileChange) -> Iterator[str]:
    """The change as `patch` and `git apply` take it; of a notebook the sources of its cells, for people."""
    before, after = (data.decode(encoding_of(data)) for data in (change.before, change.after))
    if not change.path.endswith(NOTEBOOK):
        yield from _diff(_lines(before), _lines(after), change.shown)
        return
    # Imported late: most projects have no notebooks.
    from gpudoctor.lint.source.notebooks.joined_cells import changed_cells

    for number, old, new in changed_cells(before, after):
        # That the last line of a cell has no line end is no news.
        yield from _diff(_lines(f"{old}\n"), _lines(f"{new}\n"), f"{change.shown}:cell {number}")


def _diff(before: list[str], after: list[str], name: str) -> Iterator[str]:
    for line in difflib.unified_diff(before, after, f"a/{name}", f"b/{name}"):
        yield line.removesuffix("\n")
        if not line.endswith("\n"):
            yield "\\ No newline at end of file"


def _lines(text: str) -> list[str]:
    # Not by `splitlines`, which would also cut at form feeds.
    lines = text.split("\n")
    return [*(f"{line}\n" for line in lines[:-1]), *lines[-1:]] if lines[-1] else [f"{line}\n" for line in lines[:-1]]


def _shown(line: str, style: Style) -> str:
    look = next((look for begin, look in _LOOKS.items() if line.startswith(begin)), "")
    plain = _plain(line)
    return harmless(style.paint(plain, look), "\t\r") if look and style.colour else plain


def _plain(line: str) -> str:
    """The line as it may be printed: a tab is harmless, and so is what ends a line of a file from Windows."""
    body = line.removesuffix("\r")
    return harmless(body, "\t") + line[len(body) :]
