"""Figures and names as the page of a probe shows them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gpudoctor.html.figures import NONE, grouped, number, percent, size
from gpudoctor.probe.results import Direction, Fact, Interval, ProbeReport, StepResult, Verdict

MARKS = {
    Verdict.PASS: "\N{CHECK MARK}",
    Verdict.WARN: "!",
    Verdict.FAIL: "\N{MULTIPLICATION SIGN}",
    Verdict.SKIPPED: "\N{EN DASH}",
    Verdict.INCONCLUSIVE: "?",
}
"""Beside the word: a verdict must be seen without colours, too."""
DIRECTIONS = {
    Direction.WORSE: "worse",
    Direction.BETTER: "better",
    Direction.OTHER: "different",
    Direction.NEW: "new",
    Direction.GONE: "gone",
}
WORKLOADS = {
    "linear": "linear net",
    "cifar10": "CIFAR-10 CNN",
    "cifar10-files": "CIFAR-10 CNN, an epoch of the real files",
    "transformer": "transformer",
}
STRATEGIES = {"single": "one device", "data_parallel": "DataParallel", "ddp": "DDP", "fsdp2": "FSDP2"}


def interval(figure: Interval | None) -> str:
    """A mean and half its interval, or the ends of one that is wider than the figure."""
    if figure is None:
        return NONE
    # Of the upper half: the lower one ends at zero.
    half = figure.high - figure.mean
    if not half < figure.mean:
        return f"{number(figure.mean)}, {number(figure.low)} to {number(figure.high)}"
    # As many places as the noise has: the mean is known no better.
    places = max(0, 1 - math.floor(math.log10(half))) if half > 0 else 0
    return f"{grouped(figure.mean, places)} ± {grouped(half, places)}"


def measured(value: float | str | None, unit: str) -> str:
    """A figure with its unit; shares of the step and of linear read best in percent."""
    if value is None or isinstance(value, str):
        return NONE if value is None else value
    if unit in ("of the step", "of linear"):
        return f"{percent(value)} {unit}"
    if unit == "bytes":
        return size(value)
    return f"{number(value)} {unit}".rstrip()


def value(fact: Fact | None) -> str:
    """A field of the inventory, or nothing where there is none."""
    if fact is None or fact.value is None:
        return ""
    if isinstance(fact.value, bool):
        return "yes" if fact.value else "no"
    if isinstance(fact.value, float):
        return number(fact.value)
    if isinstance(fact.value, list):
        return ranges(fact.value) or ", ".join(fact.value)
    return str(fact.value)


def ranges(found: Sequence[str]) -> str:
    """Numbers, or lists of numbers, with a dash for those that follow each other; empty where they are something else.

    A server has two hundred CPUs, and their numbers would fill the page.
    """
    if any(text.startswith("[") for text in found):
        parts = [ranges(text.strip("[]").split(", ")) for text in found]
        return "; ".join(parts) if all(parts) else ""
    if len(found) < 3 or not all(text.isdecimal() for text in found):
        return ""
    runs: list[list[int]] = []
    for each in sorted(map(int, found)):
        if runs and each == runs[-1][1] + 1:
            runs[-1][1] = each
        else:
            runs.append([each, each])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def workload(name: str) -> str:
    """A workload in words."""
    return WORKLOADS.get(name, name)


def strategy(name: str) -> str:
    """A strategy in words."""
    return STRATEGIES.get(name, name)


def setup(row: StepResult) -> str:
    """Who trains: the first column of the articles' table."""
    what = "CPU rank" if row.device == "cpu" else "GPU"
    if row.strategy == "single":
        return f"1 {what}"
    if not row.meaningful and row.device != "cpu":
        return f"{strategy(row.strategy)}, {row.world_size} ranks on one GPU"
    kept = ", same total batch" if row.scaling == "strong" else ""
    return f"{strategy(row.strategy)} on {row.world_size} {what}{'s' if row.world_size != 1 else ''}{kept}"


def why_no_speed(report: ProbeReport) -> str:
    """Why nothing can be said of speed; empty where something can."""
    if not report.steps:
        return "nothing was trained" + (f": {report.notes[0]}" if report.notes else "")
    if any(row.meaningful for row in report.steps):
        return ""
    return f"speed was not judged: {_why_meaningless(report)}"


def why_no_scaling(report: ProbeReport) -> str:
    """Why there is no curve of speed over devices."""
    several = [row for row in report.steps if row.strategy != "single" and row.world_size > 1]
    if not several:
        return why_no_speed(report) or "nothing was trained on more than one device"
    if not any(row.meaningful for row in several):
        return f"scaling was not judged: {_why_meaningless(report)}"
    return "scaling was not measured: there is no figure of one device without any wrapper to hold against"


def _why_meaningless(report: ProbeReport) -> str:
    return "there is no GPU" if report.device == "cpu" else "the ranks share one GPU"
