"""Ranks whose parameters drift apart although training goes through the wrapper."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpudoctor.diagnostic import Location
    from gpudoctor.run.recording import Recording


def drifts(recording: Recording, code: str) -> tuple[Location, str] | None:
    """Where the ranks train, and what was seen of their drifting apart, where lint suspects this very reason for it.

    That parameters differ does not say why: flags, parts, types and weights that were changed look alike afterwards.
    """
    drift = recording.drift
    if drift is None or code not in recording.suspected or not any(rank.wraps for rank in recording.ranks):
        return None
    at = drift.optimizer.backward or drift.optimizer.place
    if at is None:
        return None
    return at, f"After step {drift.step} the ranks held different values in parameter {drift.name}"
