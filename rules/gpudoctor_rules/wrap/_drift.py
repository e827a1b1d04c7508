"""Ranks whose parameters drift apart although training goes through the wrapper."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpudoctor.diagnostic import Finding
    from gpudoctor.rule import Rule
    from gpudoctor.run.recording import Recording


def drifting(rule: Rule, recording: Recording, because: str, remedy: str) -> Iterator[Finding]:
    """Where the ranks train that were seen to drift apart, if lint suspects this very rule's mistake there.

    That parameters differ does not say why: flags, parts, types and weights that were changed look alike afterwards.
    """
    drift = recording.drift
    if drift is None or rule.code not in recording.suspected or not any(rank.wraps for rank in recording.ranks):
        return
    at = drift.optimizer.backward or drift.optimizer.place
    if at is not None:
        seen = f"After step {drift.step} the ranks held different values in parameter {drift.name}"
        yield rule.found(at, f"{seen}: {because}.", remedy=remedy)
