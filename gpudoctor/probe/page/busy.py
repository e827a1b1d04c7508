"""Utilisation over time: a lane for each GPU, so that one that idles is seen beside the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpudoctor.html.drawing import FAINT, SERIES, Chart, as_svg, canvas, label
from gpudoctor.probe.page import words
from gpudoctor.probe.verdict import BUSY

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gpudoctor.probe.results import ProbeReport, StepResult, Utilisation

_LANE, _FRAME = 40, 50
_PITCH = 130
"""From the floor of a lane to that of the next one, in percent."""
_MOST = 64


def busy_charts(report: ProbeReport) -> Iterator[Chart]:
    """A drawing for each workload: its step on the most devices, with DDP if there was one."""
    names = _names(report)
    for number, workload in enumerate(dict.fromkeys(row.workload for row in report.steps)):
        rows = [row for row in report.steps if row.workload == workload and _sampled(row)]
        row = max(rows, key=lambda row: (row.world_size, row.strategy == "ddp", row.scaling == "weak"), default=None)
        if row is not None:
            yield _chart(f"busy-{number}", row, names)


def _sampled(row: StepResult) -> bool:
    return row.device != "cpu" and any(each.samples for each in row.utilisation)


def _names(report: ProbeReport) -> dict[str, str]:
    """What people call a GPU, by UUID: its number, and its host where there are several."""
    many = len(report.machine) > 1
    return {
        gpu.uuid: f"{machine.host} GPU {gpu.index}" if many else f"GPU {gpu.index}"
        for machine in report.machine
        for gpu in machine.gpus
    }


def _chart(key: str, row: StepResult, names: dict[str, str]) -> Chart:
    title = f"{words.workload(row.workload)}: {words.setup(row)}"
    lanes = [(names.get(each.uuid, each.uuid), each) for each in row.utilisation][:_MOST]
    told = f"Utilisation during {title}. {', '.join(f'{name} {_mean(each)}' for name, each in lanes)}."
    last = max((at for _, each in lanes for at, _ in each.samples), default=1.0)
    with canvas(_FRAME + _LANE * len(lanes)) as figure:
        axes = figure.add_subplot()
        for number, (_, each) in enumerate(lanes):
            _lane(axes, -_PITCH * number, each, last)
        axes.set_yticks(
            [-_PITCH * number + 50 for number in range(len(lanes))], [label(name[:20]) for name, _ in lanes]
        )
        axes.set_xlim(0, last if last > 0 else 1)
        axes.set_ylim(-_PITCH * (len(lanes) - 1) - 4, 104)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="y", alpha=0.0)
        axes.spines["left"].set_visible(False)
        axes.set_xlabel("seconds of the step")
        return Chart(title, as_svg(figure, key, told), told)


def _lane(axes: Axes, floor: float, each: Utilisation, last: float) -> None:
    low = each.mean is not None and each.mean < BUSY
    colour = SERIES[1 if low else 0]
    x, y = [at for at, _ in each.samples], [floor + percent for _, percent in each.samples]
    axes.plot([0, last], [floor, floor], color=FAINT, linewidth=1)
    # A sample holds until the next one.
    axes.fill_between(x, y, floor, step="post", color=colour, alpha=0.35, linewidth=0)
    axes.plot(x, y, color=colour, drawstyle="steps-post", linewidth=1.5)
    axes.annotate(
        f"{_mean(each)}{' !' if low else ''}",
        (last, floor + 50),
        (6, 0),
        textcoords="offset points",
        va="center",
        annotation_clip=False,
    )


def _mean(each: Utilisation) -> str:
    return "not sampled" if each.mean is None else f"{each.mean:.0f} %"
