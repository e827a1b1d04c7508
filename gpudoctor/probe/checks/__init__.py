"""One question a module: `work(ctx)` on every rank, then a pure `judge(seen)` in the parent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.probe.checks import (
    bandwidth,
    checkpoint,
    collectives,
    data_parallel_gradients,
    device_arithmetic,
    device_speed,
    gradients_match,
    identical_parameters,
    messages,
    numeric_repeat,
    peer_copies,
    shards,
    soak,
    split_model,
    sync_batchnorm,
)

if TYPE_CHECKING:
    from gpudoctor.probe.checks.check import Examination

EXAMINATIONS: tuple[Examination, ...] = (
    device_arithmetic.EXAMINATION,
    device_speed.EXAMINATION,
    numeric_repeat.EXAMINATION,
    soak.EXAMINATION,
    collectives.EXAMINATION,
    messages.EXAMINATION,
    peer_copies.EXAMINATION,
    identical_parameters.EXAMINATION,
    gradients_match.EXAMINATION,
    *data_parallel_gradients.EXAMINATIONS,
    split_model.EXAMINATION,
    sync_batchnorm.EXAMINATION,
    shards.EXAMINATION,
    checkpoint.EXAMINATION,
)
"""In the order in which they run: what the later ones build on comes first."""

SWEEP = bandwidth.EXAMINATION
"""Measured, and run after the training steps."""
