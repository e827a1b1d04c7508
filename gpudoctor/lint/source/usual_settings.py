"""Which settings file of a project a program is usually started with, where the user has to name one.

That is the first which the project's own scripts and READMEs give the program under this option. Where none of them
names one, it is the file that has most of what the program reads at the top of it, if that is half of it at least.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable, Iterator

from gpudoctor.lint.source.file_queries import beginning_of, question
from gpudoctor.lint.source.launch_lines import files_given
from gpudoctor.lint.source.setting_files import PYTHON, document_in, files_ending_with
from gpudoctor.lint.source.syntax_walk import walk
from gpudoctor.record import dataclass

_ENDINGS = (".yaml", ".yml", ".json", ".toml")
_LEAST = 2
"""So many entries that the program reads tell a file from one of something else."""
_AT_TOP = re.compile(r"^[\"']?([A-Za-z_][\w.-]*)[\"']?[ \t]*:(?:[ \t]|$)", re.MULTILINE)


@dataclass(frozen=True)
class WantedFile:
    """What is known of the path: the option by which the user gives it, empty where it has none, what the program puts
    in front of it and behind it, and how the names of files end that it can read."""

    option: str
    before: str
    behind: str
    endings: tuple[str, ...]

    def fits(self, path: str) -> bool:
        inside = self.before.lstrip("./") in f"/{path}"
        return path.endswith(self.endings) and path.endswith(self.behind) and inside

    def may_be(self, word: str) -> bool:
        """A file of Python holds settings for those that import one, and nobody else."""
        return word.endswith(self.endings) if PYTHON in self.endings else not word.endswith(PYTHON)

    def is_given_by(self, flag: str) -> bool:
        """A word behind this flag may be it: `-c` is short for `config_file`, and without any it has a place of its
        own."""
        name = flag.lstrip("-").replace("-", "_")
        is_short = not flag.startswith("--") and any(each.startswith(name) for each in self.option.split("_"))
        return is_short or name == self.option or not self.option


def candidates(root: str, program: str, wanted: WantedFile, trees: Iterable[Iterable[ast.AST]]) -> Iterator[str]:
    """Paths, counted from somewhere above the program, those first that it is given most surely. What the program
    reads is looked for in the first of the trees, and in the others where that leads to no file."""
    for name, flag, word in _files_given(root):
        # Whoever gives a name has the program add what stands around it.
        if name == os.path.basename(program) and wanted.is_given_by(flag) and wanted.may_be(f"{word}{wanted.behind}"):
            yield f"{wanted.before}{word.removesuffix(wanted.behind)}{wanted.behind}"
            yield word
    known = [(path, keys) for path, *keys in _keys_at_top(root) if wanted.fits(path)]
    read: set[str] = set()
    for more in trees if known else ():
        read |= _names_in(more)
        found = [(sum(key in read for key in keys), path, keys) for path, keys in known]
        fitting = [(-count, path) for count, path, keys in found if count >= _LEAST and 2 * count >= len(keys)]
        if fitting:
            yield os.path.join(root, min(fitting)[1])
            return


def _names_in(trees: Iterable[ast.AST]) -> set[str]:
    """Attributes and texts: under which an entry is asked for."""
    found: set[str] = set()
    for node in (each for tree in trees for each in walk(tree)):
        if isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return found


@question
def _files_given(root: str) -> list[list[str]]:
    return [list(each) for each in files_given(root)]


@question
def _keys_at_top(root: str) -> list[list[str]]:
    """Each settings file of the project, by its path below the root, with what stands at the top of it."""
    found = []
    for file in files_ending_with(root, _ENDINGS):
        text = beginning_of(file)
        if file.endswith((".yaml", ".yml")):
            keys = _AT_TOP.findall(text)
        else:
            document = document_in(text, file)
            keys = list(document) if isinstance(document, dict) else []
        if keys:
            found.append([os.path.relpath(file, root), *keys])
    return found
