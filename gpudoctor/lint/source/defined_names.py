"""Which files of a project define a name at the top of them."""

from __future__ import annotations

import os
import re

from gpudoctor.lint.source.file_queries import beginning_of, question
from gpudoctor.lint.source.setting_files import files_ending_with

_DEFINED = re.compile(
    r"^(?:(?:class|(?:async[ \t]+)?def)[ \t]+|(?=[A-Za-z]\w*[ \t]*(?::[^=\n]+)?=(?!=)))([A-Za-z]\w*)", re.MULTILINE
)


def files_defining(root: str, name: str) -> list[list[str]]:
    """The paths of the files, by their folders, that first which has most of them: those are made after one pattern."""
    folders: dict[str, list[str]] = {}
    for path, *names in _defined(root):
        if name in names:
            folders.setdefault(os.path.dirname(path), []).append(os.path.join(root, path))
    return sorted(folders.values(), key=len, reverse=True)


@question
def _defined(root: str) -> list[list[str]]:
    """Each file, by its path below the root, with the classes, functions and variables that it defines."""
    files = files_ending_with(root, (".py",))
    return [[os.path.relpath(each, root), *dict.fromkeys(_DEFINED.findall(beginning_of(each)))] for each in files]
