"""`gpudoctor lint --fix` and `--diff`: what was fixed, where, and what is left."""

from __future__ import annotations

import difflib
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from gpudoctor.cli.lint import exit_code_of, report, tell
from gpudoctor.cli.output import write_out
from gpudoctor.cli.progress import Progress
from gpudoctor.lint.collector import SeldomCollecting
from gpudoctor.lint.fixing import Change, Fixed, fix
from gpudoctor.lint.source.encoding import encoding_of
from gpudoctor.lint.source.file import NOTEBOOK
from gpudoctor.lint.source.rewriting import NotWritten, write_bytes

if TYPE_CHECKING:
    from gpudoctor.cli.settings import Settings
    from gpudoctor.diagnostic import Finding


def fix_files(settings: Settings, arguments: Sequence[str]) -> int:
    """Fix what can be fixed, or show how; the exit code."""
    progress = Progress(sys.stderr, wanted=not settings.quiet)
    with SeldomCollecting():
        fixed = fix(settings.request, settings.unsafe_fixes, progress)
    progress.close()
    if settings.diff:
        return _show(fixed, settings, arguments)
    refused = [message for change in fixed.changes if (message := _write(change))]
    for message in refused:
        print(f"gpudoctor: {message}", file=sys.stderr)
    if not settings.quiet and not refused:
        for line in _done(fixed.done):
            print(line, file=sys.stderr)
    left = report(fixed.outcome, settings, arguments)
    return max(left, 2) if refused else left


def _write(change: Change) -> str:
    """Write a changed file; why not, where it is refused."""
    try:
        write_bytes(change.path, change.after, change.digest)
    except NotWritten as error:
        return str(error)
    return ""


def _show(fixed: Fixed, settings: Settings, arguments: Sequence[str]) -> int:
    write_out("".join(line for change in fixed.changes for line in diff_of(change)))
    failed = exit_code_of(fixed.outcome, "never")
    if failed:
        tell(fixed.outcome, settings, arguments)
    elif not settings.quiet:
        for line in _done(fixed.done, "would be fixed"):
            print(line, file=sys.stderr)
    return failed or int(bool(fixed.changes))


def diff_of(change: Change) -> Iterator[str]:
    """The change as `patch` and `git apply` take it; of a notebook the sources of its cells, for people."""
    before, after = (data.decode(encoding_of(data)) for data in (change.before, change.after))
    if not change.path.endswith(NOTEBOOK):
        yield from _diff(_lines(before), _lines(after), change.shown)
        return
    # Imported late: most projects have no notebooks.
    from gpudoctor.lint.source.joining import changed_cells

    for number, old, new in changed_cells(before, after):
        # That the last line of a cell has no line end is no news.
        yield from _diff(_lines(f"{old}\n"), _lines(f"{new}\n"), f"{change.shown}:cell {number}")


def _diff(before: list[str], after: list[str], name: str) -> Iterator[str]:
    for line in difflib.unified_diff(before, after, f"a/{name}", f"b/{name}"):
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _lines(text: str) -> list[str]:
    # Not by `splitlines`, which would also cut at form feeds.
    lines = text.split("\n")
    return [*(f"{line}\n" for line in lines[:-1]), *lines[-1:]] if lines[-1] else [f"{line}\n" for line in lines[:-1]]


def _done(findings: Sequence[Finding], what: str = "fixed") -> Iterable[str]:
    """A line for each file and rule: what is gone from it."""
    counted = Counter((each.location.path, each.code, each.name) for each in findings)
    for (path, code, name), count in sorted(counted.items()):
        yield f"{path}: {count} {what}: {code} {name}"
