"""How often a program calls `backward` and `step` of DeepSpeed's engine, which counts batches itself."""

from __future__ import annotations

import sys
import weakref
from typing import Any

from gpudoctor.run.import_hooks import when_imported
from gpudoctor.run.instruments.losses import divided_by
from gpudoctor.run.instruments.state import State
from gpudoctor.run.places import called_by_own

_MODULE = "deepspeed.runtime.engine"
_MOST_LOSSES = 256


def watch(state: State) -> None:
    """Watch its engine, once the library has been imported."""
    when_imported(_MODULE, state.recorder.guarded(_Engines(state).install))


class _Engines:
    def __init__(self, state: State) -> None:
        self._state = state
        self._known: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()
        self._losses = 0
        self._divided: set[tuple[Any, ...]] = set()
        state.at_end.append(state.recorder.guarded(self._write))

    def install(self) -> None:
        """Put ourselves before both."""
        owner = sys.modules[_MODULE].DeepSpeedEngine
        for name, note in (("backward", self._note_backward), ("step", self._note_step)):
            setattr(owner, name, self._state.recorder.before(getattr(owner, name), note))

    def _note_backward(self, engine: Any, loss: Any = None, *args: Any, **keywords: Any) -> None:
        # Accelerate and Transformers call it as it should be called.
        if not called_by_own():
            return
        known = self._of(engine)
        known["backwards"] += 1
        if known["steps"] > 1 and known["counts"] and self._losses < _MOST_LOSSES:
            self._losses += 1
            place = self._state.recorder.place()
            if divided_by(loss, known["steps"]) and place is not None and tuple(place) not in self._divided:
                self._divided.add(tuple(place))
                self._state.write("divided again", owner="engine", steps=known["steps"], place=place)

    def _note_step(self, engine: Any, *args: Any, **keywords: Any) -> None:
        if not called_by_own():
            return
        known = self._of(engine)
        known["calls"] += 1
        known["place"] = known["place"] or self._state.recorder.place()
        if known["calls"] & (known["calls"] - 1) == 0:
            self._state.write("engine", **known)

    def _of(self, engine: Any) -> dict[str, Any]:
        if engine not in self._known:
            managed = getattr(getattr(engine, "_config", None), "managed_gradient_accumulation", True)
            self._known[engine] = {
                "number": len(self._known),
                "steps": int(engine.gradient_accumulation_steps()),
                "counts": bool(managed),
                "backwards": 0,
                "calls": 0,
                "place": None,
            }
        return self._known[engine]

    def _write(self) -> None:
        for known in self._known.values():
            self._state.write("engine", **known)
