"""The scaling curve: what share of linear speed is left on more and more devices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpudoctor.html import figures
from gpudoctor.html.drawing import DASHES, FAINT, INK, MARKERS, PAPER, SERIES, Chart, as_svg, canvas, label
from gpudoctor.probe.page import words
from gpudoctor.probe.step_figures import efficiency_range

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gpudoctor.probe.results import ProbeReport, StepResult

_HEIGHT = 320
_GAP = 9.0
"""Percent of linear that a line of text takes."""
Point = tuple[int, float, float, float]
"""Devices, efficiency, and between which values it lies."""


def scaling_charts(report: ProbeReport) -> Iterator[Chart]:
    """A drawing for each workload that was measured on more than one device, the longest curve first."""
    names = dict.fromkeys(row.workload for row in report.steps if row.world_size > 1 and row.meaningful)
    found = {name: curves for name in names if (curves := _curves(report, name))}
    longest = sorted(found, key=lambda name: -max(map(len, found[name].values())))
    for number, name in enumerate(longest):
        yield _chart(f"scaling-{number}", words.workload(name), found[name])


def _curves(report: ProbeReport, workload: str) -> dict[str, list[Point]]:
    """The points of each strategy, weak and strong scaling apart."""
    alone = next((row for row in report.steps if (row.workload, row.strategy) == (workload, "single")), None)
    found: dict[str, list[Point]] = {}
    for row in report.steps:
        if alone is None or not row.meaningful or row.workload != workload or row.strategy == "single":
            continue
        point = _point(row, alone)
        if point is not None:
            kept = ", strong" if row.scaling == "strong" else ""
            found.setdefault(f"{words.strategy(row.strategy)}{kept}", []).append(point)
    return {name: sorted(points) for name, points in found.items()}


def _point(row: StepResult, alone: StepResult) -> Point | None:
    if row.efficiency is None:
        return None
    low, high = efficiency_range(row, alone)
    # One measurement alone has an interval without end, and nothing to draw.
    known = 0 <= low <= row.efficiency <= high < 10
    return row.world_size, row.efficiency, low if known else row.efficiency, high if known else row.efficiency


def _chart(key: str, title: str, curves: dict[str, list[Point]]) -> Chart:
    told = f"Efficiency of the {title}. {' '.join(_told(name, points) for name, points in curves.items())}"
    with canvas(_HEIGHT) as figure:
        axes = figure.add_subplot()
        sizes = sorted({1, *(point[0] for points in curves.values() for point in points)})
        axes.plot([1, sizes[-1]], [100, 100], color=INK, linewidth=1)
        axes.annotate("linear", (1, 100), (0, 4), textcoords="offset points")
        for number, (name, points) in enumerate(curves.items()):
            _curve(axes, number, name, points)
        _ends(axes, curves)
        _limits(axes, sizes, curves)
        figure.legend(loc="outside lower center", ncols=2, handlelength=2.4, columnspacing=1.2)
        return Chart(title, as_svg(figure, key, told), told)


def _curve(axes: Axes, number: int, name: str, points: list[Point]) -> None:
    x = [point[0] for point in points]
    y = [100 * point[1] for point in points]
    errors = [[100 * (point[1] - point[2]) for point in points], [100 * (point[3] - point[1]) for point in points]]
    axes.errorbar(
        x,
        y,
        yerr=errors,
        label=label(name),
        color=SERIES[number % len(SERIES)],
        marker=MARKERS[number % len(MARKERS)],
        linestyle=DASHES[number % len(DASHES)],
        markeredgecolor=PAPER,
        capsize=5,
        elinewidth=1.5,
    )


def _ends(axes: Axes, curves: dict[str, list[Point]]) -> None:
    """What each curve ends at, beside the drawing: pushed apart where two would stand in one place."""
    floor = -_GAP
    for size, mean, _, _ in sorted((points[-1] for points in curves.values()), key=lambda point: point[1]):
        floor = max(floor + _GAP, 100 * mean)
        axes.annotate(
            figures.percent(mean),
            (size, floor),
            (12, 0),
            textcoords="offset points",
            va="center",
            annotation_clip=False,
        )


def _limits(axes: Axes, sizes: list[int], curves: dict[str, list[Point]]) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.minorticks_off()
    axes.set_xlabel("devices")
    axes.set_ylabel("% of linear")
    axes.set_ylim(0, max(115.0, *(105 * point[3] for points in curves.values() for point in points)))
    axes.grid(axis="x", color=FAINT, alpha=0.0)


def _told(name: str, points: list[Point]) -> str:
    parts = [
        f"{figures.percent(mean)} on {size} (95 % interval {figures.percent(low)} to {figures.percent(high)})"
        for size, mean, low, high in points
    ]
    return f"{name}: {', '.join(parts)}."
