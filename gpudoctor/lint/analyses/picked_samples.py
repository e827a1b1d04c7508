"""Samples that each rank picks by random numbers of its own: `data[ix]` of `ix = torch.randint(len(data), (n,))`."""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.abstract_state import NO, TensorState
from gpudoctor.lint.domain.container import Slice
from gpudoctor.lint.domain.provenance import provenance_of
from gpudoctor.lint.domain.symbols import OwnReading
from gpudoctor.lint.domain.tensor import Tensor, TensorOrigin
from gpudoctor.lint.domain.value import Value, Values
from gpudoctor.lint.events.data_loading import PickedAtRandom
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.interface.hooks import HOOKS, told
from gpudoctor.lint.interface.library_call import LibraryContext


@told(HOOKS.picked)
def _picked(do: LibraryContext, owner: Value, index: Values, place: Location) -> None:
    # What has a graph or stands for a share is computed of samples, and is none itself.
    if owner.divergence & Divergence.LOCAL or (isinstance(owner, Tensor) and (owner.shards or owner.forwards)):
        return
    drawn = frozenset(_generators(do, index))
    if drawn:
        do.emit(PickedAtRandom, at=place, drawn_from=drawn)


def _generators(do: LibraryContext, index: Values) -> Iterator[str]:
    bounds = [each for value in index if isinstance(value, Slice) for each in (value.start, value.stop) if each]
    for part in (part for each in (index, *bounds) for value in each for part in provenance_of(value)):
        if isinstance(part, OwnReading) and part.generator:
            yield part.generator
        elif isinstance(part, Tensor) and _is_drawn(do, part):
            yield "torch"


def _is_drawn(do: LibraryContext, value: Tensor) -> bool:
    """By torch's own generator."""
    made = value.origin is TensorOrigin.FACTORY and bool(value.divergence & Divergence.LOCAL)
    return made and do.flag(value, TensorState.drawn_elsewhere) is NO
