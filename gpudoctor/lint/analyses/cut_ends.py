"""What is cut off behind as many items as something has: samples that were repeated to make shares equal."""

from __future__ import annotations

from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.provenance import provenance_of
from gpudoctor.lint.domain.symbols import Length
from gpudoctor.lint.domain.value import Values
from gpudoctor.lint.events.data_loading import CutOff
from gpudoctor.lint.interface.hooks import HOOKS, told
from gpudoctor.lint.interface.library_call import LibraryContext


@told(HOOKS.cut_off)
def _cut(do: LibraryContext, owner: Values, end: Values, place: Location) -> None:
    if any(isinstance(part, Length) for value in end for part in provenance_of(value)):
        do.emit(CutOff, at=place)
