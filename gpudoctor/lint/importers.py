"""The programs of the project that import a file which is linted on its own.

A helper makes no mistake by itself: whether its save is guarded, or its loader sharded, stands in the script that
calls it. A hook that is handed a changed helper alone would miss that script.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpudoctor.lint.source.discover import collect, concerns_training
from gpudoctor.lint.source.limits import most_bytes
from gpudoctor.lint.source.project import Project

if TYPE_CHECKING:
    from pathlib import Path

    from gpudoctor.lint.source.project import Sources

MOST_FILES = 600
"""In a project of more files nobody is asked who imports a file."""
MOST_CANDIDATES = 4
"""So many programs are tried for one file, the nearest ones first."""


def importers_of(file: Path, sources: Sources) -> list[str]:
    """Scripts that may import the file, the nearest first: they act as a main program and mention its name."""
    project = Project(file, sources)
    paths, _ = collect([project.root], ())
    if len(paths) > MOST_FILES:
        return []
    names = [os.fsencode(file.stem), os.fsencode(file.parent.name)]
    if file.stem == "__init__":
        del names[0]
    found = sorted(_candidates(paths, file, names), key=lambda ranked: ranked[:2])
    return [path for _, _, path in found[:MOST_CANDIDATES]]


def _candidates(paths: list[Path], file: Path, names: list[bytes]) -> Iterator[tuple[int, int, str]]:
    for path in paths:
        if path == file or "test" in path.name:
            continue
        raw = _raw(path)
        if b"__main__" not in raw or not concerns_training(raw):
            continue
        mentioned = next((index for index, name in enumerate(names) if name in raw), None)
        if mentioned is not None:
            yield mentioned, _distance(path, file), str(path)


def _raw(path: Path) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(most_bytes(str(path)))
    except OSError:
        return b""


def _distance(one: Path, other: Path) -> int:
    return len(os.path.relpath(one, other.parent).split(os.sep))
