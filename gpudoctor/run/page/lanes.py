"""How long each step took, by rank: a lane for each, so that all of them are seen beside each other."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpudoctor.html import figures
from gpudoctor.html.drawing import FAINT, SERIES, Chart, as_svg, canvas
from gpudoctor.record import dataclass
from gpudoctor.run.timing import middle_step, usual_steps

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gpudoctor.run.recording import Process

MOST_RANKS = 32
"""That are drawn: the first ones."""
_LANE, _FRAME = 44, 50
_PITCH = 1.3
"""From the floor of a lane to that of the next one, in heights of a lane."""
_BINS = 160
_USUAL = 0.98
"""The share of steps that fit into a lane, the first ones left out: they may take a thousand times as long."""


@dataclass(frozen=True)
class Lanes:
    """The drawing, and the seconds at which its lanes end where some steps took longer."""

    chart: Chart
    cut_at: float | None
    steps_of_a_bin: int


def lanes_of(ranks: Sequence[Process]) -> Lanes | None:
    """The lanes of the first ranks; None where none of them made a step."""
    shown = [each for each in ranks[:MOST_RANKS] if each.steps]
    if not shown:
        return None
    took = sorted(step.took for each in shown for step in usual_steps(each.steps))
    longest = max(step.took for each in shown for step in each.steps)
    usual = took[int(_USUAL * (len(took) - 1))]
    top = 1.15 * max(usual, 1e-9)
    last = max(each.steps[-1].number for each in shown)
    width = -(-last // _BINS)
    told = f"Time of each step. {' '.join(_told(each) for each in shown)}"
    with canvas(_FRAME + _LANE * len(shown)) as figure:
        axes = figure.add_subplot()
        for number, each in enumerate(shown):
            _lane(axes, -_PITCH * top * number, each, top, width)
        _limits(axes, shown, top, last)
        chart = Chart("Time of each step", as_svg(figure, "steps", told), told)
    return Lanes(chart, top if longest > top else None, width)


def _lane(axes: Axes, floor: float, process: Process, top: float, width: int) -> None:
    bins: dict[int, list[float]] = {}
    for step in process.steps:
        bins.setdefault((step.number - 1) // width, []).append(step.took)
    # The last one ends where the next would begin.
    starts = [1 + width * number for number in bins]
    x = [*starts, starts[-1] + width]
    middle, most = ([floor + min(of(each), top) for each in bins.values()] for of in (statistics.median, max))
    axes.fill_between(x, [*middle, middle[-1]], floor, step="post", color=SERIES[0], alpha=0.35, linewidth=0)
    axes.plot(x, [*most, most[-1]], color=SERIES[0], drawstyle="steps-post", linewidth=1)
    axes.plot([1, x[-1]], [floor, floor], color=FAINT, linewidth=1)
    axes.annotate(
        figures.duration(middle_step(process.steps)),
        (x[-1], floor + top / 2),
        (6, 0),
        textcoords="offset points",
        va="center",
        annotation_clip=False,
    )


def _limits(axes: Axes, shown: Sequence[Process], top: float, last: int) -> None:
    middles = [-_PITCH * top * number + top / 2 for number in range(len(shown))]
    axes.set_yticks(middles, [name_of(each) for each in shown])
    axes.set_xlim(1, last + 1)
    axes.set_ylim(-_PITCH * top * (len(shown) - 1) - 0.04 * top, 1.04 * top)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", alpha=0.0)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("step")


def name_of(process: Process) -> str:
    """What a process is called in drawings."""
    return "process" if process.rank is None else f"rank {process.rank}"


def _told(process: Process) -> str:
    middle, longest = middle_step(process.steps), max(step.took for step in process.steps)
    return f"{name_of(process)}: median {figures.duration(middle)}, longest {figures.duration(longest)}."
