"""In the user's process: wait until torch is imported, and put the instruments in place then, before anyone uses it.

Waiting costs nothing to a process that never imports torch, and imports it for nobody.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

FOLDER = "GPUDOCTOR_RUN_FOLDER"
"""The environment variable that names the folder of the recording."""


def wait_for_torch() -> None:
    """Have the instruments installed as soon as `import torch` has come to its end."""
    if "torch" in sys.modules:
        _install()
    else:
        sys.meta_path.insert(0, _Waiting())


class _Waiting(importlib.abc.MetaPathFinder):
    """Lets the others find torch, and is told when it has been executed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != "torch":
            return None
        # Removed first: the search below would come here again.
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_install(module: ModuleType) -> None:
                execute(module)
                _install()

            spec.loader.exec_module = execute_and_install  # type: ignore[method-assign]
        return spec


def _install() -> None:
    from gpudoctor.run.instruments import install

    install(os.environ[FOLDER])
