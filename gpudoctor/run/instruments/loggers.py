"""Experiment loggers that the program opens: which, where, and with what."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from typing import Any

from gpudoctor.run.import_hooks import when_imported
from gpudoctor.run.instruments.state import State
from gpudoctor.run.stand_ins import standing_for

_OPENED_BY = {
    "wandb": "init",
    "mlflow": "start_run",
    "torch.utils.tensorboard": "SummaryWriter",
    "tensorboardX": "SummaryWriter",
}
"""What opens a logger, by the module from which programs take it."""
_MOST = 20
_MEANT = ("group", "settings", "nested", "parent_run_id", "run_id")
"""What is given to runs that are meant to be several, or to be one that several processes share."""


def watch(state: State) -> None:
    """Write a line for each, once its library has been imported."""
    opened = _OpenedLoggers(state)
    for module, name in _OPENED_BY.items():
        when_imported(module, functools.partial(state.recorder.guarded(opened.watch), module, name))


class _OpenedLoggers:
    def __init__(self, state: State) -> None:
        self._state = state
        self._often = 0
        self._watching: list[Any] = []
        """One class may be had from two modules."""

    def watch(self, module: str, name: str) -> None:
        """Put ourselves before what opens it: a function, or how an object of a class is made."""
        opens = getattr(sys.modules[module], name)
        called = f"{module}.{name}" if name != "SummaryWriter" else name
        if opens in self._watching:
            return
        if inspect.isclass(opens):
            self._watching.append(opens)
            type.__setattr__(opens, "__init__", self._watched(vars(opens)["__init__"], called, 1))
        else:
            setattr(sys.modules[module], name, self._watched(opens, called, 0))

    def _watched(self, opens: Any, called: str, own: int) -> Any:
        note = self._state.recorder.guarded(self._note)

        @standing_for(opens)
        def watched(*args: Any, **keywords: Any) -> Any:
            note(called, args[own:], keywords)
            return opens(*args, **keywords)

        return watched

    def _note(self, called: str, args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        self._often += 1
        if self._often > _MOST:
            return
        mode = keywords.get("mode") or os.environ.get("WANDB_MODE", "")
        self._state.write(
            "logger",
            call=called,
            given=[*map(_shown, args), *(f"{name}={_shown(value)}" for name, value in sorted(keywords.items()))],
            mute=called.startswith("wandb") and mode == "disabled",
            meant=any(keywords.get(name) for name in _MEANT),
            place=self._state.recorder.place(),
        )


def _shown(value: Any) -> str:
    """What two ranks can be compared by."""
    plain = value is None or isinstance(value, (str, int, float, bool, os.PathLike))
    return str(value)[:200] if plain else type(value).__name__
