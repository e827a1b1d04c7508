"""Losses that nobody has divided, as a run has seen them."""

from __future__ import annotations

from gpudoctor.diagnostic import Location
from gpudoctor.rule import Recording


def sums_whole_losses(recording: Recording) -> Location | None:
    """Where a loss stands that was not divided, though most steps sum the gradients of several."""
    for rank in recording.ranks[:1]:
        counts = [step.counts.get("backwards", 0) for step in rank.steps]
        if sum(count > 1 for count in counts) * 2 > len(counts):
            return next((each.place for each in rank.losses if each.scales == (1.0,)), None)
    return None
