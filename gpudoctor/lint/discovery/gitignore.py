"""What git is told to ignore, asked where folders are walked: by `.gitignore` files and `.git/info/exclude`.

As in ruff it counts inside of repositories only, and what a user has for all of them does not count: the same files
are linted on every machine. pathspec knows what a line means, and loading it takes longer than linting a script. So
each line is held against names before in a way that says yes at least where git does, and pathspec is asked about the
lines that pass.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from fnmatch import translate
from typing import TYPE_CHECKING

from gpudoctor.lint.source.layout import parents
from gpudoctor.lint.source.size_limits import MAX_IGNORE_BYTES, MAX_IGNORE_LINES, MAX_STARS
from gpudoctor.record import dataclass

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

GIT, FILE = ".git", ".gitignore"


@dataclass(frozen=True, eq=False)
class Ignoring:
    """What is ignored in a folder that is walked. `patterns` are those of the files on the way, the nearest first."""

    in_repository: bool
    patterns: tuple[_Patterns, ...]

    def inside(self, folder: str, has: frozenset[str]) -> Ignoring:
        """What is ignored in a folder that `has` these names in it."""
        # A repository inside of another one has rules of its own.
        starts = GIT in has
        if not (starts or (self.in_repository and FILE in has)):
            return self
        return Ignoring(True, (*_files(folder, "", folder, starts), *(() if starts else self.patterns)))

    def __call__(self, path: str, *, is_folder: bool) -> bool:
        """The path is ignored. What lies in a folder that is ignored need not be asked about."""
        for each in self.patterns:
            verdict = each.verdict(path, is_folder)
            if verdict is not None:
                return verdict
        return False


NOTHING = Ignoring(False, ())


def ignoring_around(folder: str) -> Ignoring:
    """What the repository around a folder ignores, without the files of the folder itself."""
    real = os.path.realpath(folder)
    above = list(_up_to_repository(os.path.dirname(real)))
    if os.path.lexists(os.path.join(real, GIT)) or not above:
        return NOTHING
    ways = ((outer, os.path.relpath(real, outer), outer == above[-1]) for outer in above)
    return Ignoring(True, tuple(each for outer, way, is_root in ways for each in _files(outer, way, folder, is_root)))


def _up_to_repository(folder: str) -> Iterator[str]:
    """The folder and those above it, up to the repository's root; none where there is no repository."""
    found = []
    for each in parents(folder):
        found.append(each)
        if os.path.lexists(os.path.join(each, GIT)):
            yield from found
            return


def _files(folder: str, way: str, walked: str, is_root: bool) -> Iterator[_Patterns]:
    """The files of a folder from which `way` leads to the one that is `walked`."""
    names = (FILE, os.path.join(GIT, "info", "exclude")) if is_root else (FILE,)
    for name in names:
        lines = _lines(os.path.join(folder, name))
        if lines:
            yield _Patterns(lines, os.path.join(walked, ""), f"{way.replace(os.sep, '/')}/" if way else "")


def _lines(path: str) -> list[str]:
    """The patterns of a file; none where it is not one, or is too large for one."""
    try:
        # A link is not followed, as git does not, and opening a pipe would wait for ever.
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return []
        with open(path, "rb") as file:
            data = file.read(MAX_IGNORE_BYTES + 1)
    except OSError:
        return []
    if len(data) > MAX_IGNORE_BYTES:
        return []
    text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    lines = [line.rstrip("\r") for line in text.split("\n")]
    kept = [line for line in lines if line.strip() and not line.startswith("#") and _is_harmless(line)]
    return kept[:MAX_IGNORE_LINES]


def _is_harmless(line: str) -> bool:
    """To try all that some stars can stand for takes as long as a name is, to the power of their number."""
    inner = re.sub(r"/\*+/?$", "", line.removeprefix("!").removeprefix("**/"))
    return len(re.findall(r"\*\*?", inner.replace("**", "***"))) <= MAX_STARS and "\0" not in line


class _Patterns:
    """The lines of one file. Paths begin with `walked`, in place of which stands `way` as the file sees them."""

    def __init__(self, lines: list[str], walked: str, way: str) -> None:
        self._lines = lines
        self._walked, self._way = walked, way
        self._named: dict[str, list[int]] = {}
        self._below: list[tuple[str, int]] = []
        self._like: list[tuple[str, int]] = []
        for index, line in enumerate(lines):
            self._sort_in(line, index)
        self._any = re.compile("|".join(pattern for pattern, _ in self._like))

    def _sort_in(self, line: str, index: int) -> None:
        path = line.removeprefix("!").rstrip("/ ").lstrip("/")
        name = path.rpartition("/")[2]
        # Classes that begin with `^`, and signs with a backslash, mean another thing to `translate`.
        if "\\" in path or "[^" in path or "[[" in path:
            self._below.append(("", index))
        elif not name.strip("*"):
            # `data/*`: it counts below there, whatever the name.
            self._below.append((re.split(r"[*?\[]", path)[0], index))
        elif re.search(r"[*?\[]", name):
            self._like.append((translate(name), index))
        else:
            self._named.setdefault(name, []).append(index)

    def verdict(self, path: str, is_folder: bool) -> bool | None:
        """The path is ignored, or is not although an outer file says so; None where this file says nothing of it."""
        seen = self._way + path.removeprefix(self._walked).replace(os.sep, "/")
        name = seen.rpartition("/")[2]
        found = list(self._named.get(name, ()))
        found += [index for head, index in self._below if seen.startswith(head)]
        if self._like and self._any.match(name):
            found += [index for pattern, index in self._like if re.match(pattern, name)]
        # The last line that means it decides.
        for index in sorted(found, reverse=True):
            line = self._lines[index]
            if _means(line.removeprefix("!"), seen, is_folder):
                return not line.startswith("!")
        return None


_specs: dict[str, GitIgnoreSpec] = {}
_MOST_SPECS = 4_096


def _means(pattern: str, path: str, is_folder: bool) -> bool:
    """The pattern means the path itself, not a folder around it: who comes here was let into that."""
    pattern = pattern if pattern.endswith("\\ ") else pattern.rstrip(" ")
    if pattern.endswith("/") and not is_folder:
        return False
    return _spec(pattern.rstrip("/")).match_file(path)


def _spec(pattern: str) -> GitIgnoreSpec:
    # Imported late: in most walks no line comes near a name.
    from pathspec import GitIgnoreSpec

    found = _specs.get(pattern)
    if found is None:
        # Another thread may clear it between any two steps.
        if len(_specs) >= _MOST_SPECS:
            _specs.clear()
        try:
            found = GitIgnoreSpec.from_lines([pattern])
        # Some lines mean nothing to git either.
        except ValueError:
            found = GitIgnoreSpec.from_lines([])
        _specs[pattern] = found
    return found
