"""PyYAML, imported without compiling its patterns.

One of them is of its reader in Python, which is not used where there is the one in C. To compile it takes as long as to
execute three scripts, and what a project has of YAML is mostly a few lines for GitHub.
"""

from __future__ import annotations

import re
from _thread import allocate_lock  # `threading` takes ten times as long to load
from functools import cache
from typing import Any

_IMPORTING = allocate_lock()


class _LatePattern:
    """A pattern that is compiled when it is first used."""

    def __init__(self, *given: Any) -> None:
        self._given = given

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(*self._given), name)
        setattr(self, name, found)
        return found


@cache
def yaml_library() -> Any:
    """The module `yaml`."""
    with _IMPORTING:
        compiled, re.compile = re.compile, _LatePattern  # type: ignore[assignment]
        try:
            import yaml
        finally:
            re.compile = compiled
    return yaml
