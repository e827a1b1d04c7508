"""Which files a command names, and which programs, notebooks and launch files stand in the folders that it names."""

from __future__ import annotations

import os
import stat
from collections.abc import Container, Iterator, Sequence

from gpudoctor.diagnostic import Problem
from gpudoctor.errors import nearest_file
from gpudoctor.lint.source.file import shown_path
from gpudoctor.lint.source.file_queries import real_path
from gpudoctor.lint.source.launch_names import found_by_name, in_hidden_folder, launch_kind
from gpudoctor.lint.source.layout import is_file, is_inside, project_root

_FIRST_LINE = 64
"""Bytes that are enough for `#!/usr/bin/env bash`."""
PROGRAMS = (".py", ".ipynb")
"""How the names of programs and notebooks end."""
_NEVER = frozenset({"node_modules", "__pycache__", "site-packages", "venv"})
# Names of build output that a real package may have as well; that one has an `__init__.py`.
_UNLESS_PACKAGE = frozenset({"build", "dist"})


def collect(
    paths: Sequence[str], exclude: Sequence[str] = (), *, respect_gitignore: bool = True, edited: Container[str] = ()
) -> tuple[dict[str, str], list[Problem]]:
    """The files to read, by their paths without links, each as it was named or found first; and a problem for each path
    that leads nowhere.

    A file that is named is taken whatever it is called, and one of which a text was given need not be there yet: those
    are `edited`. Folders are searched for programs, notebooks and launch files, in sorted order, without following
    links to folders or out of the project, and without hidden, installed, generated and excluded ones, and those that
    git ignores.
    Globs in `exclude` are relative to the working directory; one without a slash matches a file or folder of that
    name anywhere.
    """
    files: list[str] = []
    problems: list[Problem] = []
    excluded = _Exclusion(exclude)
    for path in paths:
        if os.path.isdir(path):
            files += _walk(path, excluded, problems, respect_gitignore=respect_gitignore, launch_files=True)
        elif os.path.lexists(path) or os.path.realpath(path) in edited:
            files.append(path)
        else:
            problems.append(Problem(path, f"there is no such file or folder{nearest_file(path)}"))
    found: dict[str, str] = {}
    for file in files:
        # A link that leads nowhere is known by its own name.
        leads_nowhere = os.path.islink(file) and not os.path.exists(file)
        found.setdefault(file if leads_nowhere else real_path(file), file)
    return found, problems


def files_below(folder: str, *, respect_gitignore: bool = True) -> Iterator[str]:
    """The files to read in a folder, as they are found."""
    return _walk(folder, _Exclusion(()), [], respect_gitignore=respect_gitignore)


_FEW = 8
"""A folder with more JSON than this holds data."""


class _Exclusion:
    """Globs that leave files and folders out."""

    def __init__(self, globs: Sequence[str]) -> None:
        self._globs = tuple(glob.replace(os.sep, "/").removeprefix("./").rstrip("/") for glob in globs)

    def __call__(self, path: str) -> bool:
        if not self._globs:
            return False
        # Deferred: most projects exclude nothing.
        from fnmatch import fnmatchcase

        shown, name = shown_path(path), os.path.basename(path)
        return any(fnmatchcase(shown, glob) or ("/" not in glob and fnmatchcase(name, glob)) for glob in self._globs)


def _walk(
    folder: str, excluded: _Exclusion, problems: list[Problem], *, respect_gitignore: bool, launch_files: bool = False
) -> Iterator[str]:
    # Imported late: nothing is searched for where programs are named.
    from gpudoctor.lint.discovery.gitignore import NOTHING, ignoring_around

    pending = [(folder, ignoring_around(folder) if respect_gitignore else NOTHING)]
    project, _ = project_root(os.path.realpath(folder))
    while pending:
        folder, ignored = pending.pop()
        try:
            with os.scandir(folder) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError as error:
            told = f"the folder `{shown_path(error.filename)}` cannot be read: {error.strerror}"
            problems.append(Problem("", told))
            continue
        if respect_gitignore:
            ignored = ignored.inside(folder, frozenset(entry.name for entry in entries))
        folders = []
        many = sum(entry.name.endswith(".json") for entry in entries) > _FEW
        for entry in entries:
            # Links to folders lead to what is searched anyway, or in circles, or out of the project.
            if _is_folder(entry):
                if not (_is_skipped(entry) or excluded(entry.path) or ignored(entry.path, is_folder=True)):
                    folders.append((entry.path, ignored))
                elif launch_files:
                    yield from (each for each in in_hidden_folder(entry.path) if not excluded(each))
            elif (
                (entry.name.endswith(PROGRAMS) or (launch_files and _may_start(entry, many)))
                and "{{" not in entry.name
                and _is_ours(entry, project)
                and not excluded(entry.path)
                and not ignored(entry.path, is_folder=False)
            ):
                yield entry.path
        # Taken from the end, so that a folder's own folders come before its neighbours.
        pending += reversed(folders)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    # It has gone meanwhile, and this file system tells its kind only when asked.
    except OSError:
        return False


def _is_ours(entry: os.DirEntry[str], project: str) -> bool:
    """A file. A link may lead to any file of the machine, lines of which a finding would show: not so here."""
    return is_file(entry) and (not entry.is_symlink() or is_inside(os.path.realpath(entry.path), project))


def _may_start(entry: os.DirEntry[str], many: bool) -> bool:
    return found_by_name(entry.name, among_many=many) or _is_command(entry)


def _is_command(entry: os.DirEntry[str]) -> bool:
    """A shell script that is called by a plain name: `bin/train`."""
    if "." in entry.name:
        return False
    try:
        mode = entry.stat(follow_symlinks=False).st_mode
        if not (stat.S_ISREG(mode) and mode & stat.S_IXUSR):
            return False
        with open(entry.path, "rb") as file:
            return bool(launch_kind(entry.path, file.read(_FIRST_LINE)))
    except OSError:
        return False


def _is_skipped(folder: os.DirEntry[str]) -> bool:
    name = folder.name
    # What stands below is a template, whose placeholders somebody fills in.
    if "{{" in name:
        return True
    if name.startswith(".") or name in _NEVER or os.path.isfile(os.path.join(folder.path, "pyvenv.cfg")):
        return True
    return name in _UNLESS_PACKAGE and not os.path.isfile(os.path.join(folder.path, "__init__.py"))
