"""What samplers draw before Lightning, or Fabric, takes the share of this rank from it."""

from __future__ import annotations

import functools
import hashlib
import sys
import weakref
from typing import TYPE_CHECKING, Any

from torch.utils.data import sampler as samplers

from gpudoctor.run.import_hooks import when_imported

if TYPE_CHECKING:
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
                self._watch_making(getattr(samplers, name))
        owner = sys.modules[module]._DatasetSamplerWrapper
        draw, note = owner.reset, self._state.recorder.guarded(self._note)

        @functools.wraps(draw)
        def watched(wrapper: Any) -> None:
            draw(wrapper)
            note(wrapper)

        owner.reset = watched

    def _watch_making(self, kind: Any) -> None:
        make, note = kind.__init__, self._state.recorder.guarded(self._note_made)

        @functools.wraps(make)
        def watched(sampler: Any, *args: Any, **keywords: Any) -> None:
            note(sampler)
            make(sampler, *args, **keywords)

        kind.__init__ = watched

    def _note_made(self, sampler: Any) -> None:
        self._made[sampler] = self._state.recorder.place()

    def _note(self, wrapper: Any) -> None:
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
