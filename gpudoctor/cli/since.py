"""`gpudoctor lint --since REV`: only what lines have to do with that were changed since a git revision."""

from __future__ import annotations

import ast
import os
import re
import subprocess
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpudoctor.errors import UsageError
from gpudoctor.record import replace

if TYPE_CHECKING:
    from gpudoctor.diagnostic import Finding, Location
    from gpudoctor.lint.task import Outcome

Changed = dict[str, list[range]]
"""Ranges of lines by the path of their file, absolute and without links."""

# What a repository's own settings would start is never started.
_GIT = ("git", "-c", "core.fsmonitor=false", "-c", "core.quotePath=true", "--no-pager")
_HUNK = re.compile(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@")
_SECONDS = 60
_WHOLE = range(1, 10**9)


def changed_since(revision: str) -> Changed:
    """The lines that differ from where the branch left `revision`, and all lines of files that git does not know."""
    top = _top()
    base = _base(revision)
    options = ("--unified=0", "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames", "--src-prefix=a/")
    text = _git("diff", *options, "--dst-prefix=b/", "--diff-filter=d", base, "--", folder=top)
    changed = {os.path.realpath(os.path.join(top, name)): lines for name, lines in _hunks(text)}
    for name in _git("ls-files", "--others", "--exclude-standard", "-z", folder=top).split("\0"):
        if name:
            changed[os.path.realpath(os.path.join(top, name))] = [_WHOLE]
    return changed


def only_changed(outcome: Outcome, changed: Changed) -> Outcome:
    """The outcome with those findings of which some place, the mistake or what leads to it, was changed."""
    return replace(outcome, findings=tuple(each for each in outcome.findings if _concerns(each, changed)))


def _concerns(finding: Finding, changed: Changed) -> bool:
    places = [finding.location, *(related.location for related in finding.related)]
    return any(
        line in lines
        for place in places
        for lines in changed.get(os.path.realpath(place.path), ())
        # The last line of a long call may be the one that was changed.
        for line in _rows(place)
    )


def _rows(place: Location) -> range:
    """The lines of the file; of a notebook those of its JSON, as git counts them."""
    first, last = place.rows
    return range(first, min(last, first + 100) + 1)


def _hunks(text: str) -> Iterator[tuple[str, list[range]]]:
    """The files of a diff with the lines that are new in them."""
    name, lines = "", list[range]()
    for row in text.split("\n"):
        if row.startswith("+++ "):
            name, lines = _path(row.removeprefix("+++ ")), []
        elif (hunk := _HUNK.match(row)) and name:
            start, count = int(hunk[1]), int(hunk[2] or 1)
            # Where lines were only taken away, the two around the gap are what is left of the change.
            lines.append(range(start, start + count) if count else range(start, start + 2))
            yield name, lines


def _path(written: str) -> str:
    # Git writes unusual names as C does.
    if written.startswith('"'):
        written = os.fsdecode(ast.literal_eval("b" + written))
    return written.rstrip("\t").removeprefix("b/")


def _top() -> str:
    try:
        return _git("rev-parse", "--show-toplevel").rstrip("\n")
    except _Failed as error:
        raise UsageError("--since: this folder belongs to no git repository") from error


def _base(revision: str) -> str:
    """The commit at which this branch and the revision parted; the revision itself where none is known."""
    try:
        # A revision that looks like an option must stay a revision.
        commit = _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}").strip()
    except _Failed as error:
        more = "; a shallow clone may lack it: fetch it first (`fetch-depth: 0` in GitHub Actions)"
        raise UsageError(f"--since {revision}: git knows no such revision here{more}") from error
    try:
        return _git("merge-base", commit, "HEAD").strip()
    except _Failed:
        return commit


class _Failed(Exception):
    """Git ended with an error."""


def _git(*arguments: str, folder: str | None = None) -> str:
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        run = subprocess.run(
            [*_GIT, *arguments], cwd=folder, env=environment, capture_output=True, timeout=_SECONDS, check=False
        )
    except FileNotFoundError as error:
        raise UsageError("--since: git is not installed, and nothing else knows what was changed") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"--since: git cannot be asked: {error}") from error
    if run.returncode:
        raise _Failed(os.fsdecode(run.stderr).strip())
    return run.stdout.decode("utf-8", "surrogateescape")
