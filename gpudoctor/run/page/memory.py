"""Memory over the steps, a line for each rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpudoctor.html import figures
from gpudoctor.html.drawing import DASHES, SERIES, Chart, as_svg, canvas
from gpudoctor.run.page.lanes import MOST_RANKS, name_of
from gpudoctor.run.report_schema import memory_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gpudoctor.run.recording import Process

_HEIGHT = 260
_POINTS = 200
Points = Sequence[tuple[int, int]]


def memory_chart(ranks: Sequence[Process]) -> Chart | None:
    """The lines of the first ranks; None where nobody was asked."""
    asked = {name_of(each): memory_of(each) for each in ranks[:MOST_RANKS]}
    lines = {name: _thinned(points) for name, points in asked.items() if points}
    if not lines:
        return None
    most = max(held for points in lines.values() for _, held in points)
    unit, name = (2**30, "GiB") if most >= 2**30 else (2**20, "MiB")
    told = f"Memory after the steps. {' '.join(_told(name, points) for name, points in lines.items())}"
    few = len(lines) <= len(SERIES)
    with canvas(_HEIGHT + (24 * -(-len(lines) // 3) if few else 0)) as figure:
        axes = figure.add_subplot()
        for number, (rank, points) in enumerate(lines.items()):
            axes.plot(
                [step for step, _ in points],
                [held / unit for _, held in points],
                label=rank,
                color=SERIES[number % len(SERIES)],
                linestyle=DASHES[number % len(DASHES)],
                linewidth=1.5,
            )
        axes.set_ylim(0, 1.15 * most / unit)
        axes.set_xlabel("step")
        axes.set_ylabel(name)
        if few:
            figure.legend(loc="outside lower center", ncols=3, handlelength=2, columnspacing=1)
        else:
            _name_most(axes, lines, unit)
        return Chart("Memory after the steps", as_svg(figure, "memory", told), told)


def _name_most(axes: Axes, lines: dict[str, Points], unit: int) -> None:
    """Of many lines the one that ends highest has its name on it."""
    rank, points = max(lines.items(), key=lambda each: each[1][-1][1])
    step, held = points[-1]
    axes.annotate(rank, (step, held / unit), (0, 5), textcoords="offset points", ha="right")


def _thinned(points: Points) -> Points:
    every = -(-len(points) // _POINTS)
    kept = [*points[::every]]
    return kept if kept[-1] == points[-1] else [*kept, points[-1]]


def _told(rank: str, points: Points) -> str:
    return f"{rank}: {figures.size(points[0][1])} after step {points[0][0]}, {figures.size(points[-1][1])} at the end."
