"""Whether ranks agree about what a call was given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.record import dataclass

if TYPE_CHECKING:
    from gpudoctor.lint.domain.value import Values


@dataclass(frozen=True)
class RankAgreement:
    """How far ranks may disagree about what was given, which may be one value or the other: `surely` so whichever it
    is, and `maybe` so for one of them."""

    surely: Divergence
    maybe: Divergence

    @property
    def is_own(self) -> bool:
        """Each process has drawn it for itself, or asked its clock."""
        return bool(self.surely & Divergence.LOCAL) and not self.maybe & Divergence.UNREAD


def agreement_on(given: Values | None) -> RankAgreement | None:
    """How far ranks agree about it; None where nothing was given."""
    if given is None:
        return None
    surely, maybe = None, Divergence.NONE
    for value in given:
        found = value.divergence
        surely = found if surely is None else surely & found
        maybe = maybe | found
    return RankAgreement(surely or Divergence.NONE, maybe)
