"""What only shows while a GPU works: links that stay narrow, clocks that fall. At rest both look like sleep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median

from gpudoctor.probe.inventory.facts import Gpu, Moment, PcieLink
from gpudoctor.probe.inventory.field import NOT_ASKED, Field, known
from gpudoctor.probe.inventory.findings.connections import link_under_load
from gpudoctor.probe.inventory.findings.point import UNDER_LOAD, WeakPoint, merged, slowed_down
from gpudoctor.probe.inventory.slowdown import BY_NAME

_FEWEST = 4
"""Moments under load: fewer tell nothing of the driver's averages."""
_OFTEN = 0.25
"""Share of those moments in which clocks were held down."""


def weak_under_load(gpus: Sequence[Gpu], moments: Sequence[Moment]) -> tuple[WeakPoint, ...]:
    """The weak points that `moments`, taken while the GPUs worked, show; pure."""
    return tuple(merged(point for gpu in gpus for point in _of(gpu, moments)))


def _of(gpu: Gpu, moments: Sequence[Moment]) -> Iterator[WeakPoint]:
    loaded = [each for each in moments if each.uuid == gpu.uuid.value and each.utilization.or_else(0) >= UNDER_LOAD]
    if len(loaded) >= _FEWEST:
        yield from link_under_load(gpu.index, _best_link(gpu, loaded))
        yield from _slowed(gpu, loaded)


def _best_link(gpu: Gpu, loaded: Sequence[Moment]) -> PcieLink:
    """The link at its best under load: a moment too early or too late does not count."""
    return PcieLink(
        generation=_most(each.pcie_generation for each in loaded),
        width=_most(each.pcie_width for each in loaded),
        max_generation=gpu.pcie.max_generation,
        max_width=gpu.pcie.max_width,
    )


def _most(answers: Iterator[Field[int]]) -> Field[int]:
    values = [each.value for each in answers if each.value is not None]
    return known(max(values)) if values else NOT_ASKED


def _slowed(gpu: Gpu, loaded: Sequence[Moment]) -> Iterator[WeakPoint]:
    counts = Counter(reason for each in loaded for reason in each.slowed_by.or_else(()))
    often = [
        name
        for name, count in counts.items()
        if name in BY_NAME and BY_NAME[name].harm == "warn" and count >= _OFTEN * len(loaded)
    ]
    clocks = [each.clock_sm.value for each in loaded if each.clock_sm.value is not None]
    if not often:
        return
    clock, best = (round(median(clocks)) if clocks else None), gpu.clock_sm_max.value
    hottest = max((each.temperature.or_else(0) for each in loaded), default=0)
    means = ", ".join(BY_NAME[name].means for name in often)
    yield slowed_down(gpu, clock, best, f" while training, at {hottest} °C ({means})")
