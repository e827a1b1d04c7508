"""Stand-ins for experiment loggers, which note that they were opened and swallow the rest."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .journal import Journal


class _Silent:
    """Accepts every call and attribute."""

    def __getattr__(self, name: str) -> _Silent:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *args: object, **kwargs: object) -> _Silent:
        return self

    def __enter__(self) -> _Silent:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def __setitem__(self, key: object, value: object) -> None:
        return None


def provide(journal: Journal) -> None:
    """Put the stand-ins where the program will import the loggers from, installed or not."""

    class SummaryWriter(_Silent):
        def __init__(self, log_dir: str | None = None, *args: object, **kwargs: object) -> None:
            journal.write("logger", name="SummaryWriter", folder=str(log_dir or kwargs.get("logdir", "")))

    class Run(_Silent):
        def __init__(self, *args: object, mode: str | None = None, **kwargs: object) -> None:
            if mode != "disabled":
                journal.write("logger", name="wandb", folder="")

    tensorboard = _module("torch.utils.tensorboard", SummaryWriter=SummaryWriter)
    sys.modules["torch.utils"].tensorboard = tensorboard
    _module("tensorboardX", SummaryWriter=SummaryWriter)
    silent = _Silent()
    _module("wandb", init=Run, **dict.fromkeys(("log", "watch", "save", "finish", "config", "run", "Image"), silent))
    if importlib.util.find_spec("tqdm") is None:
        bar = _module("tqdm", tqdm=_Bar, trange=lambda *args, **kwargs: _Bar(range(*args)))
        bar.auto = _module("tqdm.auto", tqdm=_Bar, trange=bar.trange)


class _Bar(_Silent):
    """A progress bar that shows nothing."""

    def __init__(self, iterable: Iterable[object] = (), *args: object, **kwargs: object) -> None:
        self._iterable = iterable

    def __iter__(self) -> Iterator[object]:
        return iter(self._iterable)

    def __len__(self) -> int:
        return len(self._iterable)

    @staticmethod
    def write(text: str, *args: object, **kwargs: object) -> None:
        print(text)


def _module(name: str, **members: object) -> types.ModuleType:
    module = types.ModuleType(name)
    # Parts of torch look for the spec of what may be installed.
    module.__spec__ = importlib.machinery.ModuleSpec(name, loader=None)
    vars(module).update(members)
    sys.modules[name] = module
    return module
