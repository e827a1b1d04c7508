"""How a project says that its programs are started: command lines in its scripts and in what it says of itself."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import islice

from gpudoctor.lint.source.file_queries import beginning_of
from gpudoctor.lint.source.size_limits import MAX_FOLDER_SCAN

_ENDINGS = (".sh", ".bash", ".slurm", ".sbatch", ".md", ".rst", ".job", ".pbs")
_NAMES = frozenset({"makefile", "readme", "readme.txt"})
_DEPTH = 3
"""So many folders below the root are looked into."""
_MOST_FILES = 60
_MOST_FOLDERS = 60
_IS_LAUNCH = r"-m\s+torch\.distributed\.launch\b"
_IS_TORCHRUN = r"\btorchrun\s+(?:-|.*\.py\b)|-m\s+torch\.distributed\.run\b"
_IS_MPI = r"\b(?:mpiexec|mpirun)\b\s+-"
_IS_DEEPSPEED = r"(?<![\w./-])deepspeed\s.*\.py\b"
_BY_VARIABLE = r"\s--use[_-]env\b"
"""What makes the old launcher tell the local rank as torchrun does."""
_IS_ALONE = r"(?:^|[`$>]|&&|;)\s*(?:\w+=\S*\s+)*(?:nohup\s+|time\s+)?python[\d.]*\s+(?:-[uOBW]\s+)*([\w./-]+\.py)\b"
_IS_ACCELERATE = r"\baccelerate\s+launch\s"
_LAUNCHERS = {
    "launch": _IS_LAUNCH,
    "torchrun": _IS_TORCHRUN,
    "mpi": _IS_MPI,
    "deepspeed": _IS_DEEPSPEED,
    "accelerate": _IS_ACCELERATE,
}
_PROGRAM = r"[\w./-]+\.py\b"
_STARTED = re.compile(rf"-m\s+([\w.]+)|({_PROGRAM})")
_GIVEN = re.compile(r"(?:(?<!\S)(-[\w-]+)[\s=]+|(?<=\s))[\"']?([\w./-]+)[\"']?(?=\s|$)")


def lines_in(root: str) -> list[list[str]]:
    """Each command line that starts a program: the launcher, empty where there is none, then the names of the Python
    files in it."""
    found = {line for path in islice(_walk(root), _MOST_FILES) for line in _lines(path)}
    return [list(each) for each in sorted(found)]


def _walk(root: str) -> Iterator[str]:
    todo = [(root, 0)]
    for _ in range(_MOST_FOLDERS):
        if not todo:
            return
        folder, depth = todo.pop(0)
        try:
            with os.scandir(folder) as entries:
                here = sorted(islice(entries, MAX_FOLDER_SCAN), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in here:
            name = entry.name.lower()
            if name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                if depth < _DEPTH:
                    todo.append((entry.path, depth + 1))
            elif (name.endswith(_ENDINGS) or name in _NAMES) and entry.is_file():
                yield entry.path


def files_given(root: str) -> Iterator[tuple[str, str, str]]:
    """What command lines give to programs: the name of the program's file, the flag in front, empty where there is
    none, and the word."""
    for path in islice(_walk(root), _MOST_FILES):
        for line in _joined(path).splitlines():
            for each in () if line.lstrip().startswith("#") else _STARTED.finditer(line):
                name = f"{each[1].rpartition('.')[2]}.py" if each[1] else os.path.basename(each[2])
                yield from ((name, flag, word) for flag, word in _GIVEN.findall(line, each.end()))


def _joined(path: str) -> str:
    """The text of a file with each command on one line."""
    return re.sub(r"\\[ \t]*\r?\n", " ", beginning_of(path))


def _lines(path: str) -> Iterator[tuple[str, ...]]:
    text = _joined(path)
    # Most texts speak of no launcher in any line.
    launchers = {launcher: written for launcher, written in _LAUNCHERS.items() if re.search(written, text)}
    for line in text.splitlines():
        # What is commented out, or a heading.
        if line.lstrip().startswith("#"):
            continue
        started = [launcher for launcher, written in launchers.items() if re.search(written, line)]
        for launcher in started:
            by_variable = launcher == "launch" and re.search(_BY_VARIABLE, line)
            name = "launch --use_env" if by_variable else launcher
            yield (name, *dict.fromkeys(os.path.basename(each) for each in re.findall(_PROGRAM, line)))
        if not started:
            yield from (("", os.path.basename(each)) for each in re.findall(_IS_ALONE, line))
