"""Named stand-ins for modules of kernels that only a GPU runs, where `--skip-kernels MODULE` asks for them.

What such a module offers is called as a function, made as a layer, launched on a grid or taken for a base class. Nobody
knows what it would compute: whatever is called gives back the first tensor that it was given, so that shapes and
gradients go on, and the report names the module.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Iterable, Sequence
from typing import Any


def stand_in_for(modules: Sequence[str]) -> None:
    """Have `import` find a stand-in for each of these modules, and for all below them."""
    sys.meta_path.insert(0, _Finder(tuple(modules)))


class _Finder(importlib.abc.Loader):
    def __init__(self, modules: tuple[str, ...]) -> None:
        self._modules = modules

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if not any(f"{name}.".startswith(f"{each}.") for each in self._modules):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _StandInModule(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing is in it until somebody asks."""


class _StandInModule(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = _stand_in(name)
        setattr(self, name, made)
        return made


def _stand_in(name: str) -> type[Any]:
    # Loaded late: who imports the module may not have imported torch yet.
    import torch

    def first(values: Iterable[Any]) -> Any:
        return next((each for each in values if isinstance(each, torch.Tensor)), None)

    class StandIn(torch.nn.Module):  # type: ignore[misc]
        """A function, a layer, a kernel or a base class, whichever the program takes it for."""

        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            given = first((*args, *kwargs.values()))
            return super().__new__(cls) if given is None else given

        def __init__(self, *_: Any, **__: Any) -> None:
            super().__init__()

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return first((*args, *kwargs.values()))

        def __getitem__(self, grid: Any) -> Any:
            return self.forward

        @classmethod
        def apply(cls, *args: Any, **kwargs: Any) -> Any:
            """As of a function of autograd."""
            return first((*args, *kwargs.values()))

    StandIn.__name__ = StandIn.__qualname__ = name
    return StandIn
