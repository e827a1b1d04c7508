"""The programs of the project that import a file which is linted on its own.

A helper makes no mistake by itself: whether its save is guarded, or its loader sharded, stands in the script that
calls it. A hook that is handed a changed helper alone would miss that script.
"""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterator
from itertools import islice

from gpudoctor.lint.discovery.classify import classify, is_test
from gpudoctor.lint.discovery.content_signs import concerns_training, may_start
from gpudoctor.lint.discovery.walk import files_below
from gpudoctor.lint.source.file import Sources
from gpudoctor.lint.source.file_queries import first_bytes
from gpudoctor.lint.source.file_traits import Role
from gpudoctor.lint.source.layout import project_root
from gpudoctor.lint.source.project import project_of

MOST_FILES = 600
"""In a project of more files nobody is asked who imports a file."""
MOST_CANDIDATES = 8
"""So many programs are tried for one file, until `MOST_PROGRAMS` have read it."""
MOST_PROGRAMS = 4
_MOST_CLASSIFIED = 40
"""Of so many files that mention it, it is asked whether they are programs."""


class Importers:
    """Finds programs that may import a file. What lies in a project is asked once."""

    def __init__(self, sources: Sources, *, respect_gitignore: bool = True) -> None:
        self._sources = sources
        self._respect_gitignore = respect_gitignore
        self._programs: dict[str, list[tuple[str, bytes]]] = {}

    def of(self, file: str, known: Container[str] = ()) -> list[str]:
        """Programs that may import the file, the likeliest first: they mention its name, and are none of those known.

        What has an import of that name comes before what only mentions it, a program that names a framework before one
        that leaves this to what it imports, and the nearest first.
        """
        root, _ = project_root(os.path.dirname(file))
        if root not in self._programs:
            self._programs[root] = _programs_of(root, respect_gitignore=self._respect_gitignore)
        stem = os.path.splitext(os.path.basename(file))[0]
        names = [os.fsencode(stem), os.fsencode(os.path.basename(os.path.dirname(file)))]
        if stem == "__init__":
            del names[0]
        unknown = [each for each in self._programs[root] if each[0] not in known]
        found = sorted(_candidates(unknown, file, names))[:_MOST_CLASSIFIED]
        return list(islice((path for *_, path in found if self._is_program(path)), MOST_CANDIDATES))

    def _is_program(self, path: str) -> bool:
        """It starts something, and not only what a test tries out."""
        project, module = project_of(path, self._sources)
        return module is not None and not is_test(module.source) and classify(module, project).role is not Role.PART


def _programs_of(root: str, *, respect_gitignore: bool) -> list[tuple[str, bytes]]:
    """What may be programs of a project, with their text; none where there are too many files."""
    # What nothing marks as a project may be a whole home folder: it is not searched to its end.
    paths = list(islice(files_below(root, respect_gitignore=respect_gitignore), MOST_FILES + 1))
    if len(paths) > MOST_FILES:
        return []
    return [(path, raw) for path in paths if may_start(os.path.realpath(path), raw := first_bytes(path) or b"")]


def _candidates(
    programs: list[tuple[str, bytes]], file: str, names: list[bytes]
) -> Iterator[tuple[bool, bool, int, int, str]]:
    imports = [re.compile(rb"(?m)^[ \t]*(?:from|import)\b[^\n#]*\b%s\b" % re.escape(name)) for name in names]
    for path, raw in programs:
        mentioned = next((index for index, name in enumerate(names) if name in raw), None)
        if mentioned is None or path == file:
            continue
        imported, trains = any(each.search(raw) for each in imports), concerns_training(raw)
        # That a script of something else has this word in it means nothing.
        if imported or trains:
            yield not imported, not trains, mentioned, _distance(path, file), path


def _distance(one: str, other: str) -> int:
    return len(os.path.relpath(one, os.path.dirname(other)).split(os.sep))
