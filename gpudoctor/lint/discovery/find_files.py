"""The files of a request, and which of them are worth reading."""

from __future__ import annotations

import os
from collections.abc import Mapping

from gpudoctor.config import is_excluded
from gpudoctor.diagnostic import Problem
from gpudoctor.lint.discovery.content_signs import concerns_training, may_start, speaks_of_training
from gpudoctor.lint.discovery.walk import PROGRAMS, collect
from gpudoctor.lint.request import STDIN, Request
from gpudoctor.lint.source.encoding import plain_bytes
from gpudoctor.lint.source.file_queries import digest_of, first_bytes, most_bytes
from gpudoctor.lint.source.launch_names import launch_kind, may_start_commands, may_start_training
from gpudoctor.record import dataclass, field


@dataclass(frozen=True)
class FilesFound:
    """The files that a request is about, by their paths without links, in the order of a walk over all folders.

    Those that are `telling` name training; each comes with what stands for its content, or nothing where that is not
    known. The `others` do not, and may yet start it through helpers of their own; each comes with whether it was named.
    `count` counts also those that have nothing to do with it, and `problems` are about paths that lead nowhere.
    """

    telling: Mapping[str, str]
    others: Mapping[str, bool]
    count: int
    problems: tuple[Problem, ...]
    launch_files: Mapping[str, bool] = field(default_factory=dict)
    """Files that may start programs; each comes with whether it was named."""


def find_files(request: Request) -> FilesFound:
    """Find the files of a request, and those among them that are worth reading."""
    named = sorted(path for path in request.paths if path != STDIN)
    found, problems = collect(
        named, request.exclude, respect_gitignore=request.respect_gitignore, edited=request.edited
    )
    wanted = {path: name for path, name in found.items() if not is_excluded(name, request.exclude)}
    if STDIN in request.paths:
        wanted[request.stdin_path] = STDIN
    telling: dict[str, str] = {}
    others: dict[str, bool] = {}
    speaking: set[str] = set()
    launch_files: dict[str, bool] = {}
    passed_over = 0
    # What is found must not hang on the order in which somebody names files: which of two programs comes first decides
    # through which one a helper is read.
    for path in sorted(wanted, key=_as_walked):
        is_named, is_stdin = wanted[path] in request.paths, wanted[path] == STDIN
        raw = request.given.get(path)
        raw = first_bytes(path) if raw is None else raw
        kind = "" if path.endswith(PROGRAMS) or raw is None else launch_kind(path, raw)
        if kind:
            if is_stdin or may_start_training(kind, raw or b"") or b"gpudoctor:" in (raw or b""):
                launch_files[path] = is_named
            elif not is_named:
                passed_over += 1
            continue
        if raw is not None and may_start_commands(path, raw):
            launch_files[path] = is_named
        # What cannot be opened is read all the same: reading says why it cannot. Our own directives are judged wherever
        # they stand, and standard input whatever it is.
        if raw is None or is_stdin or concerns_training(plain_bytes(raw)) or b"gpudoctor:" in raw:
            telling[path] = digest_of(raw) if raw is not None and len(raw) <= most_bytes(path) else ""
        elif is_named or may_start(path, raw):
            others[path] = is_named
            speaking |= {path} if speaks_of_training(raw) else set()
    if not telling:
        # In a folder of files that have nothing to do with training, none is looked at but those that were named, and
        # those that may have a library run it.
        others = {path: is_named for path, is_named in others.items() if is_named or path in speaking}
    return FilesFound(telling, others, len(wanted) - passed_over, tuple(problems), launch_files)


def _as_walked(path: str) -> tuple[list[str], str]:
    """Where a walk over all folders comes by a file: a folder's own files come first."""
    folder, name = os.path.split(path)
    return folder.split(os.sep), name
