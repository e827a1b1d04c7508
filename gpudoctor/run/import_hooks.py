"""To be told when a module has been imported, without importing it for anybody."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType


def when_imported(name: str, then: Callable[[], None]) -> None:
    """Call `then` as soon as `import name` has come to its end; at once where it has already."""
    if name in sys.modules:
        then()
    else:
        sys.meta_path.insert(0, _ImportWait(name, then))


class _ImportWait(importlib.abc.MetaPathFinder):
    """Lets the others find a module, and is told when it has been executed."""

    def __init__(self, name: str, then: Callable[[], None]) -> None:
        self._name = name
        self._then = then
        self._searching = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        # The search below comes here again.
        if fullname != self._name or self._searching:
            return None
        self._searching = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._searching = False
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_tell(module: ModuleType) -> None:
                execute(module)
                # Not before: some only look whether there is such a module.
                if self in sys.meta_path:
                    sys.meta_path.remove(self)
                    self._then()

            spec.loader.exec_module = execute_and_tell  # type: ignore[method-assign]
        return spec
