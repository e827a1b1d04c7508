"""Which lines were changed since a git revision, and which findings have to do with them.

Git is asked for names and for what it keeps, and the texts are compared here: `git diff` would read the files of the
folder through filters, which are commands that the repository names. It fetches nothing either, for the same reason.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping

from gpudoctor.diagnostic import Finding, Location
from gpudoctor.errors import UsageError
from gpudoctor.lint.request import Outcome
from gpudoctor.lint.source.file_queries import most_bytes
from gpudoctor.record import dataclass, replace
from gpudoctor.triage.changed_lines import changed_lines

Changed = dict[str, list[range]]
"""Ranges of lines by the path of their file, absolute and without links."""

# What a repository's own settings would start is never started.
_GIT = ("git", "-c", "core.fsmonitor=", "-c", f"core.hooksPath={os.devnull}", "--no-pager")
_NOTHING_FETCHED = {"GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0"}
_SECONDS = 60
_AT_ONCE = 20
"""Files of the revision that are in memory together."""
_WHOLE = range(1, 10**9)


@dataclass(frozen=True)
class Since:
    """A revision to compare with: its files with git's number for what they hold, and the files that git knows or would
    know now. Names count from `top`, the folder of the repository."""

    revision: str
    top: str
    then: dict[str, str]
    now: frozenset[str]


def changed_since(revision: str, folder: str) -> Since:
    """Where the branch left `revision`, in the repository that `folder` belongs to."""
    top = os.path.realpath(_top(folder))
    then = dict(_files_of(_base(revision, top), top))
    names = _git("ls-files", "--cached", "--others", "--exclude-standard", "-z", folder=top)
    return Since(revision, top, then, frozenset(os.fsdecode(names).split("\0")))


def only_changed(outcome: Outcome, since: Since, texts: Mapping[str, bytes]) -> Outcome:
    """The outcome with those findings of which some place, the mistake or what leads to it, was changed.

    `texts` count instead of the files, by their paths.
    """
    paths = {os.path.realpath(place.path) for finding in outcome.findings for place in _places(finding)}
    changed = _changed(sorted(paths), since, texts)
    return replace(outcome, findings=tuple(each for each in outcome.findings if _concerns(each, changed)))


def _changed(paths: Iterable[str], since: Since, texts: Mapping[str, bytes]) -> Changed:
    """The lines of these files that differ, and all lines of files that are new."""
    changed: Changed = {}
    older: list[tuple[str, str]] = []
    for path in paths:
        name = os.path.relpath(path, since.top).replace(os.sep, "/")
        if name in since.then:
            older.append((path, since.then[name]))
        elif name in since.now or (path in texts and not os.path.exists(path)):
            changed[path] = [_WHOLE]
    for start in range(0, len(older), _AT_ONCE):
        some = older[start : start + _AT_ONCE]
        for (path, _), old in zip(some, _contents(some, since), strict=True):
            new = texts[path] if path in texts else _content(path)
            changed[path] = [_WHOLE] if old is None or new is None else changed_lines(old, new)
    return changed


def _content(path: str) -> bytes | None:
    """What lint has read."""
    most = most_bytes(path)
    try:
        with open(path, "rb") as file:
            data = file.read(most + 1)
    except OSError:
        return None
    return data if len(data) <= most else None


def _contents(older: list[tuple[str, str]], since: Since) -> Iterator[bytes | None]:
    """What git keeps for each; None where nobody would read so much."""
    answers = _git("cat-file", "--batch-check", folder=since.top, told="".join(f"{blob}\n" for _, blob in older))
    sizes = [line.split()[2:] for line in answers.splitlines()]
    fits = [bool(size) and int(size[0]) <= most_bytes(path) for (path, _), size in zip(older, sizes, strict=True)]
    if not all(sizes):
        raise UsageError(
            f"since {since.revision}: this clone lacks files of that time, and nothing is fetched here; "
            f"`git diff {since.revision}` fetches them"
        )
    wanted = [blob for (_, blob), fit in zip(older, fits, strict=True) if fit]
    data = _git("cat-file", "--batch", folder=since.top, told="".join(f"{blob}\n" for blob in wanted))
    at = 0
    for fit in fits:
        if not fit:
            yield None
            continue
        end = data.index(b"\n", at)
        size = int(data[at:end].split()[2])
        yield data[end + 1 : end + 1 + size]
        at = end + size + 2


def _files_of(commit: str, top: str) -> Iterator[tuple[str, str]]:
    for row in os.fsdecode(_git("ls-tree", "-r", "-z", "--full-tree", commit, folder=top)).split("\0"):
        about, _, name = row.partition("\t")
        # Not links, and not the repositories within this one.
        if about.startswith("100"):
            yield name, about.split()[2]


def _places(finding: Finding) -> Iterator[Location]:
    yield finding.location
    yield from (related.location for related in finding.related)


def _concerns(finding: Finding, changed: Changed) -> bool:
    return any(
        line in lines
        for place in _places(finding)
        for lines in changed.get(os.path.realpath(place.path), ())
        # The last line of a long call may be the one that was changed.
        for line in _rows(place)
    )


def _rows(place: Location) -> range:
    """The lines of the file; of a notebook those of its JSON, as git counts them."""
    first, last = place.rows
    return range(first, min(last, first + 100) + 1)


def _top(folder: str) -> str:
    try:
        return os.fsdecode(_git("rev-parse", "--show-toplevel", folder=folder)).rstrip("\n")
    except _Failed as error:
        raise UsageError("since: this folder belongs to no git repository") from error


def _base(revision: str, top: str) -> str:
    """The commit at which this branch and the revision parted; the revision itself where none is known."""
    try:
        # A revision that looks like an option must stay a revision.
        found = _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}", folder=top)
    except _Failed as error:
        more = "; a shallow clone may lack it: fetch it first (`fetch-depth: 0` in GitHub Actions)"
        raise UsageError(f"since {revision}: git knows no such revision here{more}") from error
    commit = found.decode("ascii").strip()
    try:
        return _git("merge-base", commit, "HEAD", folder=top).decode("ascii").strip()
    except _Failed:
        return commit


class _Failed(UsageError):
    """Git ended with an error."""


def _git(*arguments: str, folder: str, told: str = "") -> bytes:
    environment = {**os.environ, **_NOTHING_FETCHED, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    command = [*_GIT, *arguments]
    try:
        run = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            input=told.encode("ascii"),
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except FileNotFoundError as error:
        raise UsageError("since: git is not installed, and nothing else knows what was changed") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"since: git cannot be asked: {error}") from error
    if run.returncode:
        raise _Failed(f"since: git says: {run.stderr.decode('utf-8', 'replace').strip()}")
    return run.stdout
