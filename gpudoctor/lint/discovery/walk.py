"""Which files a command is about: those named, and the Python files, notebooks and launch files in the folders named;
and which of them are worth reading, by their bytes."""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from gpudoctor.config import is_excluded
from gpudoctor.diagnostic import Problem
from gpudoctor.errors import nearest
from gpudoctor.lint.discovery.top_level import STARTING
from gpudoctor.lint.request import STDIN
from gpudoctor.lint.size_limits import most_bytes
from gpudoctor.lint.source.encoding import plain_bytes
from gpudoctor.lint.source.file import shown_path
from gpudoctor.lint.source.file_queries import digest_of, real_path
from gpudoctor.lint.source.launch_names import found_by_name, in_editor_folder, launch_kind, may_start_training
from gpudoctor.lint.source.layout import is_command, is_file, is_inside, project_root
from gpudoctor.manifest.compiled import mentions
from gpudoctor.record import dataclass, field

if TYPE_CHECKING:
    from gpudoctor.lint.request import Request

_SUFFIXES = (".py", ".ipynb")
_NEVER = frozenset({"node_modules", "__pycache__", "site-packages", "venv"})
# Names of build output that a real package may have as well; that one has an `__init__.py`.
_UNLESS_PACKAGE = frozenset({"build", "dist"})

_FRAMEWORKS = tuple([word.encode() for word in mentions()])


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
    there = dict.fromkeys(path for path in named if os.path.lexists(path) or real_path(path) in request.edited)
    problems = [_missing(path) for path in named if path not in there]
    found, messages = collect(
        [*there], request.exclude, respect_gitignore=request.respect_gitignore, edited=request.edited
    )
    problems += [Problem("", message) for message in messages]
    wanted = {path: name for path, name in found.items() if not is_excluded(name, request.exclude)}
    telling: dict[str, str] = {}
    others: dict[str, bool] = {}
    speaking: set[str] = set()
    launch_files: dict[str, bool] = {}
    passed_over = 0
    # What is found must not hang on the order in which somebody names files: which of two programs comes first decides
    # through which one a helper is read.
    for path in sorted(wanted, key=_as_walked):
        is_named = wanted[path] in there
        raw = request.edited.get(path)
        raw = _raw(path) if raw is None else raw
        kind = "" if path.endswith(_SUFFIXES) or raw is None else launch_kind(path, raw)
        if kind:
            if may_start_training(kind, raw or b"") or b"gpudoctor:" in (raw or b""):
                launch_files[path] = is_named
            elif not is_named:
                passed_over += 1
            continue
        # What cannot be opened is read all the same: reading says why it cannot. Our own directives are judged wherever
        # they stand.
        if raw is None or concerns_training(plain_bytes(raw)) or b"gpudoctor:" in raw:
            telling[path] = digest_of(raw) if raw is not None and len(raw) <= most_bytes(path) else ""
        elif is_named or may_start(path, raw):
            others[path] = is_named
            speaking |= {path} if speaks_of_training(raw) else set()
    if not telling:
        # In a folder of files that have nothing to do with training, none is looked at but those that were named, and
        # those that may have a library run it.
        others = {path: is_named for path, is_named in others.items() if is_named or path in speaking}
    if STDIN in request.paths and launch_kind(request.stdin_path, request.stdin):
        launch_files[request.stdin_path] = True
    elif STDIN in request.paths:
        telling[request.stdin_path] = ""
    count = len(wanted) - passed_over + (STDIN in request.paths)
    return FilesFound(telling, others, count, tuple(problems), launch_files)


def collect(
    paths: Sequence[str],
    exclude: Sequence[str] = (),
    *,
    respect_gitignore: bool = True,
    edited: Container[str] = (),
) -> tuple[dict[str, str], list[str]]:
    """The files to read, by their paths without links, each as it was named or found first; and a message for each path
    that leads nowhere.

    A file that is named is taken whatever it is called, and one of which a text was given need not be there yet: those
    are `edited`. Folders are searched for programs and notebooks, in sorted
    order, without following links to folders or out of the project, and without hidden, installed, generated and
    excluded ones, and those that git ignores.
    Globs in `exclude` are relative to the working directory; one without a slash matches a file or folder of that
    name anywhere.
    """
    found: dict[str, str] = {}
    problems: list[str] = []
    excluded = _Exclusion(exclude)
    for path in paths:
        if os.path.isdir(path):
            for file in _walk(path, excluded, problems, respect_gitignore=respect_gitignore, launch_files=True):
                found.setdefault(real_path(file), file)
        elif os.path.lexists(path) or real_path(path) in edited:
            # A link that leads nowhere is known by its own name.
            found.setdefault(real_path(path) if os.path.exists(path) or real_path(path) in edited else path, path)
        else:
            problems.append(f"`{shown_path(path)}` does not exist")
    return found, problems


def _missing(path: str) -> Problem:
    folder, name = os.path.split(path)
    try:
        hint = nearest(name, os.listdir(folder or "."))
    except OSError:
        hint = ""
    return Problem(path, f"there is no such file or folder{hint}")


def _as_walked(path: str) -> tuple[list[str], str]:
    """Where a walk over all folders comes by a file: a folder's own files come first."""
    folder, name = os.path.split(path)
    return folder.split(os.sep), name


def files_below(folder: str, *, respect_gitignore: bool = True) -> Iterator[str]:
    """The files to read in a folder, as they are found."""
    return _walk(folder, _Exclusion(()), [], respect_gitignore=respect_gitignore)


def concerns_training(data: bytes) -> bool:
    """The file names a training framework somewhere. A search of bytes, so that the rest costs no parse.

    A file that does not may still start the training through helpers of its own; it is for the caller to decide
    whether those files are read as well.
    """
    return any(name in data for name in _FRAMEWORKS)


def speaks_of_training(data: bytes) -> bool:
    """The file may have a library train of which nothing is known: it names no framework, and something that trains."""
    return b"train" in data.lower()


_ACTS = rb"(?m)^(?:[A-Za-z_][\w.]*(?:\[.*\])?\(|(?:if|for|while|with)\b|raise SystemExit)"


def may_start(path: str, raw: bytes) -> bool:
    """The file may be a program, by a look at its bytes: what cannot be one costs no parse. The path has no links."""
    name = os.path.basename(path)
    known = b"__main__" in raw or any(each.encode() in raw for each in STARTING)
    return name == "__main__.py" or known or bool(re.search(_ACTS, raw)) or is_command(path)


def _raw(path: str) -> bytes | None:
    if not os.path.isfile(path):
        return None
    try:
        with open(path, "rb") as file:
            return file.read(most_bytes(path) + 1)
    except OSError:
        return None


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
    folder: str,
    excluded: _Exclusion,
    problems: list[str],
    *,
    respect_gitignore: bool,
    launch_files: bool = False,
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
            problems.append(f"the folder `{shown_path(error.filename)}` cannot be read: {error.strerror}")
            continue
        if respect_gitignore:
            ignored = ignored.inside(folder, frozenset(entry.name for entry in entries))
        folders = []
        for entry in entries:
            # Links to folders lead to what is searched anyway, or in circles, or out of the project.
            if _is_folder(entry):
                if not (_is_skipped(entry) or excluded(entry.path) or ignored(entry.path, is_folder=True)):
                    folders.append((entry.path, ignored))
                elif launch_files and (started := in_editor_folder(entry.path)) and not excluded(started):
                    yield started
            elif (
                (entry.name.endswith(_SUFFIXES) or (launch_files and found_by_name(entry.name)))
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


def _is_skipped(folder: os.DirEntry[str]) -> bool:
    name = folder.name
    # What stands below is a template, whose placeholders somebody fills in.
    if "{{" in name:
        return True
    if name.startswith(".") or name in _NEVER or os.path.isfile(os.path.join(folder.path, "pyvenv.cfg")):
        return True
    return name in _UNLESS_PACKAGE and not os.path.isfile(os.path.join(folder.path, "__init__.py"))
