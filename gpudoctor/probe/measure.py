"""Figures from measurements: means with confidence intervals, shares, medians. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from gpudoctor.probe.results import Interval

# Two-sided 95 % quantiles of Student's t, by degrees of freedom.
_STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)
_NORMAL = 1.96


def interval(values: Sequence[float]) -> Interval | None:
    """The mean of independent measurements, none of them negative, with its 95 % confidence interval; None where there
    are none.

    One measurement alone has an interval without end, as nothing is known about its noise.
    """
    if not values:
        return None
    mean, n = statistics.fmean(values), len(values)
    if n == 1:
        return Interval(mean, 0.0, 2 * mean + 1e300, 1)
    half = _quantile(n - 1) * statistics.stdev(values) / n**0.5
    # What is measured here is never negative, however much it varies.
    return Interval(mean, max(0.0, mean - half), mean + half, n)


def _quantile(freedom: int) -> float:
    return _STUDENT[freedom - 1] if freedom <= len(_STUDENT) else _NORMAL + 2.5 / freedom


def worst(values: Iterable[float]) -> float:
    """The largest one; what is no number counts as worse than all numbers."""
    return max(values, key=lambda value: (value != value, value))
