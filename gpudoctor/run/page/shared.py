"""What the ranks have in common: their data, as a matrix, and their parameters, over the steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpudoctor.html import figures
from gpudoctor.html.drawing import DASHES, FAINT, MARKERS, PAPER, SERIES, Chart, as_svg, canvas, label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gpudoctor.run.agreement import Agreement
    from gpudoctor.run.overlap import Overlap

_WIDEST = 8
"""Ranks whose shares are written into the matrix; of more they have no room."""
_DARKEST = 0.55
"""So that text can be read on it."""
_HEIGHT = 250


def overlap_chart(overlap: Overlap) -> Chart:
    """A cell for each pair of ranks, the darker the more they share."""
    from matplotlib.patches import Rectangle

    told = f"Overlap of the {overlap.unit} of two ranks in epoch {overlap.epoch}. {_worst(overlap)}"
    size = len(overlap.ranks)
    with canvas(330 if size > 2 else 240) as figure:
        axes = figure.add_subplot()
        for row, shares in enumerate(overlap.shares):
            for column, share in enumerate(shares):
                own = row == column
                axes.add_patch(
                    Rectangle(
                        (column - 0.5, row - 0.5),
                        1,
                        1,
                        facecolor=FAINT if own else SERIES[1],
                        alpha=0.25 if own else _DARKEST * share,
                        linewidth=0,
                    )
                )
                if size <= _WIDEST:
                    shown = "\N{MIDDLE DOT}" if own else _percent(share)
                    axes.annotate(shown, (column, row), ha="center", va="center")
        _matrix(axes, overlap)
        return Chart(f"Shared {overlap.unit}, in percent", as_svg(figure, "overlap", told), told)


def _matrix(axes: Axes, overlap: Overlap) -> None:
    size = len(overlap.ranks)
    axes.set_xlim(-0.5, size - 0.5)
    axes.set_ylim(size - 0.5, -0.5)
    axes.set_aspect("equal")
    every = range(0, size, 1 if size <= _WIDEST else 4)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_ticks(list(every), [str(overlap.ranks[number]) for number in every])
    axes.tick_params(length=0)
    axes.grid(alpha=0.0)
    axes.set_xlabel("rank")
    axes.set_ylabel("rank")
    for side in ("top", "right"):
        axes.spines[side].set_visible(True)


def _percent(share: float) -> str:
    # What two ranks share must not look like nothing.
    return "<1" if 0 < share < 0.01 else f"{100 * share:.0f}"


def _worst(overlap: Overlap) -> str:
    if overlap.worst is None:
        return ""
    one, other, share = overlap.worst
    return f"Ranks {one} and {other} share most: {figures.percent(share)}."


def agreement_chart(found: Sequence[Agreement], names: dict[int, str]) -> Chart:
    """A curve for each optimizer: the share of its tensors that are the same on all ranks."""
    curves: dict[int, list[Agreement]] = {}
    for each in found:
        curves.setdefault(each.optimizer, []).append(each)
    told = f"Parameters that are the same on all ranks. {' '.join(_told(each, names) for each in curves.values())}"
    with canvas(_HEIGHT + (24 if len(curves) > 1 else 0)) as figure:
        axes = figure.add_subplot()
        for number, (optimizer, points) in enumerate(list(curves.items())[: len(SERIES)]):
            axes.plot(
                [each.step for each in points],
                [100 * each.share for each in points],
                label=label(names.get(optimizer, f"optimizer {optimizer}")),
                color=SERIES[(number + 2) % len(SERIES)],
                marker=MARKERS[number],
                linestyle=DASHES[number],
                markeredgecolor=PAPER,
                drawstyle="steps-post",
                clip_on=False,
                zorder=3,
            )
        _steps(axes, max(each.step for each in found))
        axes.set_ylim(0, 105)
        axes.set_ylabel("% of the tensors")
        if len(curves) > 1:
            figure.legend(loc="outside lower center", ncols=2, handlelength=2.4, columnspacing=1.2)
        return Chart("Parameters that are the same on all ranks", as_svg(figure, "agreement", told), told)


def _steps(axes: Axes, last: int) -> None:
    """The first steps are looked at most, so that they get most of the room."""
    axes.set_xscale("log", base=2)
    axes.minorticks_off()
    powers = [2**power for power in range(last.bit_length())]
    shown = powers[:: max(1, -(-len(powers) // 6))]
    axes.set_xticks(shown, [str(step) for step in shown])
    axes.set_xlim(0.9, 1.1 * last)
    axes.set_xlabel("step")


def _told(points: Sequence[Agreement], names: dict[int, str]) -> str:
    name = names.get(points[0].optimizer, f"optimizer {points[0].optimizer}")
    first = next((each for each in points if each.agreeing < each.tensors), None)
    if first is None:
        return f"{name}: all {points[0].tensors} tensors, at each of {len(points)} looks."
    return f"{name}: {first.agreeing} of {first.tensors} tensors after step {first.step}, and all before."
