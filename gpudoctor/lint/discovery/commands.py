"""Which functions a project starts under a name of their own: `train = "package.cli:main"`."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from gpudoctor.lint.size_limits import MAX_SETUP_BYTES
from gpudoctor.lint.source.file_queries import question
from gpudoctor.lint.source.layout import project_root

if TYPE_CHECKING:
    from gpudoctor.lint.source.project import ModuleFile, Project

_TARGET = r"""["']?[\w.-]+["']?\s*=\s*["']?([\w.]+):(\w+)"""
_SECTION = (
    r"(?ms)^\[(?:project\.scripts|project\.entry-points\.[\"']?console_scripts[\"']?|tool\.poetry\.scripts)\]\s*$"
    r"(.*?)(?=^\[|\Z)"
)
_CONSOLE = r"""(?ms)console_scripts(?:['"]?\s*[=:]|\s*\])(.*?)(?=^\s*\[|\]|\'{3}|"{3}|\Z)"""
"""As a list, or as a section of its own in a text."""
_FILES = (("pyproject.toml", _SECTION), ("setup.cfg", _CONSOLE), ("setup.py", _CONSOLE))


def commands_in(module: ModuleFile, project: Project) -> tuple[str, ...]:
    """The functions of a module that commands of its project start."""
    return started_in(os.path.realpath(module.source.path), project.root) if project.is_marked else ()


def is_command(path: str) -> bool:
    """Commands of its project start functions of this file."""
    root, is_marked = project_root(os.path.dirname(path))
    return is_marked and bool(started_in(path, root))


def started_in(path: str, root: str) -> tuple[str, ...]:
    """The functions of a file that commands of the project start."""
    inside = os.path.relpath(path, root).removesuffix(".py").removesuffix(f"{os.sep}__init__")
    dotted = inside.replace(os.sep, ".")
    # Of `src/package/cli.py`, the names count from some folder above.
    pairs = (target.split(":") for target in scripts(root))
    return tuple(dict.fromkeys(name for module, name in pairs if f".{dotted}".endswith(f".{module}")))


@question
def scripts(root: str) -> list[str]:
    """The commands of a project, as `module:function`."""
    texts = ((section, _text(os.path.join(root, name))) for name, section in _FILES)
    parts = [part for section, text in texts if text for part in re.findall(section, text)]
    return [f"{module}:{name}" for part in parts for module, name in re.findall(_TARGET, part)]


def _text(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(MAX_SETUP_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
