"""Which versions of a library a project can be installed with, as far as its files say: requirements, conda
environments, set-up."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import islice

from gpudoctor.lint.source.file_queries import beginning_of
from gpudoctor.lint.source.size_limits import MAX_FOLDER_SCAN

_SETUP = frozenset({"setup.py", "setup.cfg", "pyproject.toml", "Pipfile"})
_FOLDERS = frozenset({"requirements", "environment", "environments", "env", "envs", "conda"})
"""Where projects keep what else would lie at their root."""
_MOST_FILES = 20

TORCH = "torch"
LIBRARIES = {
    TORCH: r"(?:py)?torch",
    "lightning": r"(?:pytorch[-_])?lightning",
    "transformers": "transformers",
    "accelerate": "accelerate",
}
"""Those that are asked for, and under which names they are installed."""
# Compiled where a file asks for one: most programs have none of these files beside them.
_REQUIREMENT = r"(?m)^[ \t]*{name}(?![\w-])(?:\[[^\]]*\])?(.*)$"
_IN_LIST = r"(?m)^[ \t]*-[ \t]*[\"']?(?:[\w-]+::)?{name}(?![\w-])([^\"'\n]*)"
_QUOTED = r"[\"'][ \t]*{name}(?![\w-])(?:\[[^\]]*\])?([^\"'\n]*)[\"']"
_HOLE = "{name}"
_ASSIGNED = r"(?m)^[ \t]*{name}(?![\w-])[ \t]*=[ \t]*[\"']([^\"'\n]*)[\"']"
_PART = r"(===|==|<=|~=|\^|<|=)?\s*v?(\d+(?:\.\d+)*)"


def first_too_new(root: str, library: str = TORCH) -> list[int]:
    """The first version of a library that is too new for a project, as `[2, 0]`; empty where none is."""
    name = LIBRARIES[library]
    bounds = [bound for path in _files(root) for bound in _bounds(path, name)]
    # Whoever installs by the other file may have any.
    return list(max(bounds)) if bounds and all(bounds) else []


def _files(root: str) -> Iterator[str]:
    found = []
    for name in _names_in(root):
        path = os.path.join(root, name)
        found.append(path)
        if name in _FOLDERS:
            found += [os.path.join(path, inner) for inner in _names_in(path)]
    told = (path for path in found if _says_what_is_needed(path) and os.path.isfile(path))
    return islice(told, _MOST_FILES)


def _names_in(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in islice(entries, MAX_FOLDER_SCAN))
    except OSError:
        return []


def _says_what_is_needed(path: str) -> bool:
    name = os.path.basename(path)
    below = os.path.basename(os.path.dirname(path)) in _FOLDERS
    if name.endswith(".txt"):
        return name.startswith("requirement") or below
    return name in _SETUP or name.endswith((".yml", ".yaml"))


def _bounds(path: str, name: str) -> Iterator[tuple[int, ...]]:
    """For each time that the library is asked for, the first version that is too new; empty where none is."""
    for said in _asked_for(path, beginning_of(path), name):
        yield _bound(said)


def _asked_for(path: str, text: str, name: str) -> Iterator[str]:
    """What is said of the version, each time that the library is asked for."""
    if path.endswith(".txt"):
        yield from re.findall(_REQUIREMENT.replace(_HOLE, name), text)
    elif path.endswith((".yml", ".yaml")):
        # Other files of this kind are settings; channels stand before.
        yield from re.findall(_IN_LIST.replace(_HOLE, name), text.partition("dependencies:")[2])
    elif path.endswith(".cfg"):
        yield from re.findall(_REQUIREMENT.replace(_HOLE, name), text)
    else:
        yield from re.findall(_QUOTED.replace(_HOLE, name), text)
        yield from re.findall(_ASSIGNED.replace(_HOLE, name), text)


def _bound(said: str) -> tuple[int, ...]:
    said = said.partition("#")[0].partition(";")[0].strip()
    # A file on the web, or what is excluded, says nothing of the newest.
    if "://" in said or said.startswith("@"):
        return ()
    parts = (re.fullmatch(_PART, part.strip().removesuffix(".*").partition("+")[0]) for part in said.split(",")[:8])
    # A build of conda follows its version: `=1.7.1=py3.7_cuda10`.
    ends = [_end(match[1] or "==", tuple(map(int, match[2].split(".")))) for match in parts if match is not None]
    ends += [_end("==", tuple(map(int, each.split(".")))) for each in re.findall(r"^==?\s*(\d+(?:\.\d+)*)=", said)]
    return min((end for end in ends if end), default=())


def _end(operator: str, version: tuple[int, ...]) -> tuple[int, ...]:
    """The first version that it leaves out from above."""
    if operator == "<":
        return version
    if operator == "^":
        return (version[0] + 1,) if version[0] else (0, *version[1:2], 1)
    if operator == "~=":
        return (*version[:-2], version[-2] + 1) if len(version) > 1 else ()
    return (*version[:-1], version[-1] + 1)
