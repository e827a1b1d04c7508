"""Where a project begins, from which folders its imports count, and which of its functions it starts under a name of
their own (`train = "package.cli:main"`): questions to the file system alone."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from gpudoctor.lint.source.file_queries import beginning_of, is_folder, question, real_path
from gpudoctor.lint.source.size_limits import MAX_FOLDER_SCAN, MAX_FOLDERS_BELOW

_MARKERS = ("pyproject.toml", "setup.py", "setup.cfg", ".git")
# A project that was downloaded rather than cloned often has no more than these.
_WEAK_MARKERS = ("requirements.txt", "environment.yml", "environment.yaml", "LICENSE", "LICENSE.txt", "LICENSE.md")
_WEAK_LEVELS = 4
_UNMARKED_LEVELS = 2

_TARGET = r"""["']?[\w.-]+["']?\s*=\s*["']?([\w.]+):(\w+)"""
_SECTION = (
    r"(?ms)^\[(?:project\.scripts|project\.entry-points\.[\"']?console_scripts[\"']?|tool\.poetry\.scripts)\]\s*$"
    r"(.*?)(?=^\[|\Z)"
)
_CONSOLE = r"""(?ms)console_scripts(?:['"]?\s*[=:]|\s*\])(.*?)(?=^\s*\[|\]|\'{3}|"{3}|\Z)"""
"""As a list, or as a section of its own in a text."""
_OFFERING = (("pyproject.toml", _SECTION), ("setup.cfg", _CONSOLE), ("setup.py", _CONSOLE))


def project_root(folder: str) -> tuple[str, bool]:
    """The root of the project that `folder` belongs to, and whether something marks it as one."""
    marked = _marked_root(folder)
    return (marked, True) if marked else (_unmarked_root(package_root(folder) or folder), False)


@question
def _marked_root(folder: str) -> str:
    above = list(parents(folder))
    for candidates, markers in ((above, _MARKERS), (above[:_WEAK_LEVELS], _WEAK_MARKERS)):
        for candidate in candidates:
            if any(_is_marker(os.path.join(candidate, marker)) for marker in markers):
                return candidate
    return ""


@question
def _unmarked_root(folder: str) -> str:
    """The folder, or the one above as long as that one holds Python, `tools/train.py` below `utils.py`, or is what a
    README speaks of: its folders may be packages without `__init__.py`."""
    for candidate, _ in zip(parents(os.path.dirname(folder)), range(_UNMARKED_LEVELS), strict=False):
        if _is_shared(candidate) or not (_is_python_home(candidate) or _is_told_of(candidate)):
            break
        folder = candidate
    return folder


@question
def _is_marker(path: str) -> bool:
    if os.path.basename(path) != "setup.py":
        return os.path.exists(path)
    # Opening a pipe would wait for ever.
    if not os.path.isfile(path):
        return False
    # Training programs like to keep their own set-up in a file of this name.
    text = beginning_of(path)
    return "setuptools" in text or "distutils" in text


def package_root(folder: str) -> str:
    """The folder above the top-most package that `folder` is a part of, or nothing where it is not in a package."""
    found = ""
    while is_package(folder):
        found = folder = os.path.dirname(folder)
    return found


@question
def is_package(folder: str) -> bool:
    """The folder has an `__init__.py`."""
    return os.path.isfile(os.path.join(folder, "__init__.py"))


def in_package(path: str) -> bool:
    """The file lies in a package, so that others import it where it does not say that it is a program."""
    return is_package(os.path.dirname(path))


def is_inside(path: str, folder: str) -> bool:
    """`path` is `folder` or below it."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def is_near(path: str, folder: str) -> bool:
    """A folder no more than a few levels above holds both, and is neither the home folder nor shared by all."""
    above = zip(parents(folder), range(_UNMARKED_LEVELS + 1), strict=False)
    return any(is_inside(path, each) and path != each for each, _ in above if not _is_shared(each))


def _is_shared(folder: str) -> bool:
    """What lies directly below the root of the disk: /tmp, /home, /mnt."""
    return os.path.dirname(os.path.dirname(folder)) == os.path.dirname(folder)


def search_roots(entry_folder: str, root: str) -> tuple[str, ...]:
    """The folders that an entry's absolute imports may count from, in the order in which Python would ask them.

    The entry's own folder is `sys.path[0]`. The rest stands for what projects do to find their own code: installing
    themselves in place, PYTHONPATH, running from the root, `sys.path.insert(0, "..")`, an `_init_paths` module.
    """
    folders = [entry_folder, package_root(entry_folder)]
    for folder in folders_up_to(entry_folder, root):
        if is_package(folder) and folder != root:
            # Of a package, only what is above it is searched; otherwise `a/wandb/` would stand in for `wandb`.
            continue
        folders += [folder, *(os.path.join(folder, name) for name in ("src", "lib"))]
    return tuple(dict.fromkeys(folder for folder in folders if folder and is_folder(folder)))


def started_in(path: str) -> tuple[str, ...]:
    """The functions of a file that commands of its project start."""
    root, is_marked = project_root(os.path.dirname(path))
    if not is_marked:
        return ()
    inside = os.path.relpath(path, root).removesuffix(".py").removesuffix(f"{os.sep}__init__")
    dotted = inside.replace(os.sep, ".")
    # Of `src/package/cli.py`, the names count from some folder above.
    pairs = (target.split(":") for target in scripts(root))
    return tuple(dict.fromkeys(name for module, name in pairs if f".{dotted}".endswith(f".{module}")))


@question
def scripts(root: str) -> list[str]:
    """The commands of a project, as `module:function`."""
    texts = ((section, beginning_of(os.path.join(root, name))) for name, section in _OFFERING)
    parts = [part for section, text in texts if text for part in re.findall(section, text)]
    return [f"{module}:{name}" for part in parts for module, name in re.findall(_TARGET, part)]


def packages_around(entry_folder: str, root: str) -> list[str]:
    """The packages that an entry is in, the innermost first: as roots they are no more than a last resort."""
    return [folder for folder in folders_up_to(entry_folder, root) if is_package(folder) and folder != root]


@question
def too_new(root: str) -> dict[str, list[int]]:
    """The first version of each library that is too new for a project, as `[2, 0]`; empty where none is."""
    # Imported late: few programs ask, and what reads requirements takes a while to begin with.
    from gpudoctor.lint.source.needed_versions import LIBRARIES, first_too_new

    return {library: first_too_new(root, library) for library in LIBRARIES}


@question
def home(folder: str) -> str:
    """The folder above, where what is to be read first lies there: `src` of a project that nothing else marks."""
    above = os.path.dirname(folder)
    return above if _is_told_of(above) and not _is_shared(above) else folder


def _is_told_of(folder: str) -> bool:
    """What is to be read first of a project lies in the folder."""
    return any(entry.name.lower().startswith("readme") for entry in _scan(folder))


@question
def plain_folders(folder: str) -> list[str]:
    """The folders directly below that are no packages, sorted, as far as the scan limit allows."""
    found = [entry.path for entry in _scan(folder) if not entry.name.startswith(".") and _is_folder(entry)]
    return sorted(path for path in found if not is_package(path))


@question
def distributions_beside(root: str) -> list[str]:
    """The other folders of a larger project that are installed each for itself, as the root is."""
    above = os.path.dirname(root)
    if _is_shared(above) or not _is_marked(above):
        return []
    return [folder for folder in plain_folders(above) if folder != root and _is_marked(folder)]


def _is_marked(folder: str) -> bool:
    return any(_is_marker(os.path.join(folder, marker)) for marker in _MARKERS)


@question
def holds_python(folder: str) -> bool:
    """The folder, or one directly below it, holds Python files; otherwise it is data and no package."""
    entries = list(_scan(folder))
    folders = [entry.path for entry in entries if entry.name.isidentifier() and _is_folder(entry)]
    return any(map(_is_python, entries)) or any(
        _is_python(inner) for below in folders[:MAX_FOLDERS_BELOW] for inner in _scan(below)
    )


@question
def modules_in(folder: str) -> list[str]:
    """The names under which the files and packages of a folder are imported."""
    entries = list(_scan(folder))
    files = [entry.name.removesuffix(".py") for entry in entries if _is_python(entry) and entry.name[0] != "_"]
    packages = [entry.name for entry in entries if entry.name[0] != "_" and is_package(entry.path)]
    # Files and folders are parts of different kinds: those of which there are more are what is chosen among.
    return [name for name in (files if len(files) >= len(packages) else packages) if name.isidentifier()]


def folders_in(folder: str) -> list[str]:
    """The names under which folders inside of a folder are imported, packages or not."""
    return [entry.name for entry in _scan(folder) if _is_folder(entry) and entry.name.isidentifier()]


@question
def _is_python_home(folder: str) -> bool:
    return any(
        _is_python(entry) or (entry.name.isidentifier() and _is_folder(entry) and is_package(entry.path))
        for entry in _scan(folder)
    )


def _is_python(entry: os.DirEntry[str]) -> bool:
    return entry.name.endswith(".py") and is_file(entry)


def is_file(entry: os.DirEntry[str]) -> bool:
    """What was listed is a file, or leads to one."""
    try:
        return entry.is_file()
    # A link that leads to itself, or through a folder that may not be entered.
    except OSError:
        return False


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _scan(folder: str) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            for entry, _ in zip(entries, range(MAX_FOLDER_SCAN), strict=False):
                yield entry
    except OSError:
        # What cannot be listed holds nothing for us.
        return


def parents(folder: str) -> Iterator[str]:
    """The folder and those above it, without the home folder and the root of the disk: a `.git` or a `setup.cfg`
    there makes no project of everything below."""
    home = real_path(os.path.expanduser("~"))
    while folder != os.path.dirname(folder) and folder != home:
        yield folder
        folder = os.path.dirname(folder)


def folders_up_to(folder: str, root: str) -> Iterator[str]:
    while is_inside(folder, root):
        yield folder
        if folder == root:
            return
        folder = os.path.dirname(folder)
