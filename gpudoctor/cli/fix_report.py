"""`gpudoctor lint --fix` and `--diff`: what was fixed, where, and what is left."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable, Sequence

from gpudoctor.cli.lint_report import exit_code_of, report, tell
from gpudoctor.cli.output import say, write_lines
from gpudoctor.cli.patches import write_patch
from gpudoctor.cli.progress import Progress
from gpudoctor.cli.settings import Settings
from gpudoctor.diagnostic import Finding
from gpudoctor.drafts import remove_drafts
from gpudoctor.lint.fix_loop import FileChange, Fixed, fix
from gpudoctor.lint.request import STDIN
from gpudoctor.lint.runtime.garbage import SeldomCollecting
from gpudoctor.lint.source.atomic_write import NotWritten, write_bytes
from gpudoctor.lint.source.encoding import encoding_of


def fix_files(settings: Settings, arguments: Sequence[str]) -> int:
    """Fix what can be fixed, or show how; the exit code."""
    with Progress(sys.stderr, wanted=not settings.quiet) as progress, SeldomCollecting():
        fixed = fix(settings.request, settings.unsafe_fixes, progress)
    if settings.diff:
        return _show(fixed, settings, arguments)
    given = settings.request.stdin_name if STDIN in settings.request.paths else ""
    if given:
        return _hand_back(fixed, os.path.realpath(given), settings, arguments)
    remove_drafts({os.path.dirname(os.path.realpath(path)) for path in fixed.outcome.read})
    refused = [message for change in fixed.changes if (message := _write(change))]
    for message in refused:
        say(f"gpudoctor: {message}")
    if not settings.quiet and not refused:
        for line in _done(fixed.done):
            say(line)
    left = report(fixed.outcome, settings, arguments)
    return max(left, 2) if refused else left


def _hand_back(fixed: Fixed, path: str, settings: Settings, arguments: Sequence[str]) -> int:
    """Write what came from standard input to standard output, fixed, and the report to standard error."""
    after = next((change.after for change in fixed.changes if change.path == path), settings.request.stdin)
    if sys.stdout.isatty():
        write_lines(after.decode(encoding_of(after), "replace").splitlines())
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(after)
        sys.stdout.flush()
    if not settings.quiet:
        say(*_done(fixed.done))
    return report(fixed.outcome, settings, arguments, aside=True)


def _write(change: FileChange) -> str:
    """Write a changed file; why not, where it is refused."""
    try:
        write_bytes(change.path, change.after, change.digest)
    except NotWritten as error:
        return str(error)
    return ""


def _show(fixed: Fixed, settings: Settings, arguments: Sequence[str]) -> int:
    write_patch(fixed.changes, settings.colour)
    failed = exit_code_of(fixed.outcome, "never")
    if failed:
        tell(fixed.outcome, settings, arguments)
    elif not settings.quiet:
        for line in _done(fixed.done, "would be fixed"):
            say(line)
    return failed or int(bool(fixed.changes))


def _done(findings: Sequence[Finding], what: str = "fixed") -> Iterable[str]:
    """A line for each file and rule: what is gone from it."""
    counted = Counter((each.location.path, each.code, each.name) for each in findings)
    for (path, code, name), count in sorted(counted.items()):
        yield f"{path}: {count} {what}: {code} {name}"
