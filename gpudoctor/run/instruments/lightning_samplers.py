"""What samplers draw before Lightning, or Fabric, takes the share of this rank from it."""

from __future__ import annotations

import functools
import hashlib
import sys
import weakref
from typing import Any

from torch.utils.data import sampler as samplers

from gpudoctor.run.import_hooks import when_imported
from gpudoctor.run.instruments.state import State

_MODULES = ("lightning.fabric.utilities.distributed", "lightning_fabric.utilities.distributed")
"""It comes by two names, and has both only where a program takes both."""
_AT_RANDOM = ("RandomSampler", "SubsetRandomSampler", "WeightedRandomSampler")
_MOST = 8
"""Lists that are told of."""


def watch(state: State) -> None:
    """Watch what it makes of samplers, once the library has been imported."""
    drawn = _DrawnLists(state)
    for module in _MODULES:
        when_imported(module, functools.partial(state.recorder.guarded(drawn.install), module))


class _DrawnLists:
    def __init__(self, state: State) -> None:
        self._state = state
        self._made: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        self._often = 0
        self._watching = False

    def install(self, module: str) -> None:
        """Put ourselves behind what draws the whole list."""
        if not self._watching:
            self._watching = True
            for name in _AT_RANDOM:
                kind = getattr(samplers, name)
                kind.__init__ = self._state.recorder.before(kind.__init__, self._note_made)
        owner = sys.modules[module]._DatasetSamplerWrapper
        owner.reset = self._state.recorder.after(owner.reset, self._note)

    def _note_made(self, sampler: Any, *args: Any, **keywords: Any) -> None:
        self._made[sampler] = self._state.recorder.place()

    def _note(self, drawn: None, wrapper: Any) -> None:
        self._often += 1
        if self._often > _MOST:
            return
        sampler, every = wrapper._sampler, wrapper._sampler_list
        self._state.write(
            "drawn",
            sampler=type(sampler).__name__,
            digest=hashlib.blake2b(repr(every).encode(), digest_size=8).hexdigest(),
            length=len(every),
            place=self._made.get(sampler) or self._state.recorder.place(),
        )
