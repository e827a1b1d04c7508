"""The bandwidth sweep: how fast collectives are from small messages to large ones, against what links can do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.html import figures
from gpudoctor.html.drawing import DASHES, INK, MARKERS, PAPER, SERIES, Chart, as_svg, canvas, label
from gpudoctor.probe.verdict import expected_bandwidth

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gpudoctor.probe.results import Bandwidth, ProbeReport

_HEIGHT = 340
_NAMES = 5


def sweep_chart(report: ProbeReport) -> Chart | None:
    """All collectives in one drawing; None where nothing was measured that says something."""
    curves = _curves(report)
    if not curves:
        return None
    expected, source = expected_bandwidth(report.machine)
    told = " ".join(_told(name, rows) for name, rows in curves.items())
    if expected is not None:
        told += f" Expected of large messages: {figures.number(expected)} GB/s, from {source}."
    with canvas(_HEIGHT) as figure:
        axes = figure.add_subplot()
        for number, (name, rows) in enumerate(curves.items()):
            axes.plot(
                [row.bytes for row in rows],
                [row.busbw for row in rows],
                label=label(name),
                color=SERIES[number % len(SERIES)],
                marker=MARKERS[number % len(MARKERS)],
                linestyle=DASHES[number % len(DASHES)],
                markeredgecolor=PAPER,
            )
        _limits(axes, [row for rows in curves.values() for row in rows], expected)
        figure.legend(loc="outside lower center", ncols=2, handlelength=2.4, columnspacing=1.2)
        return Chart("bus bandwidth by size of the message", as_svg(figure, "sweep", told), told)


def _curves(report: ProbeReport) -> dict[str, list[Bandwidth]]:
    found: dict[str, list[Bandwidth]] = {}
    for row in sorted(report.bandwidth, key=lambda row: row.bytes):
        if row.meaningful and row.bytes > 0:
            found.setdefault(row.collective, []).append(row)
    return found


def _limits(axes: Axes, rows: list[Bandwidth], expected: float | None) -> None:
    sizes = sorted({row.bytes for row in rows})
    axes.set_xscale("log", base=2)
    axes.minorticks_off()
    shown = _spread(sizes)
    axes.set_xticks(shown, [figures.size(size).replace("\N{NO-BREAK SPACE}", "\n") for size in shown])
    axes.set_ylabel("GB/s on the bus")
    top = max([row.busbw for row in rows] + ([expected] if expected is not None else []))
    axes.set_ylim(0, 1.12 * top if top > 0 else 1)
    if expected is not None:
        axes.axhline(expected, color=INK, linewidth=1.5, linestyle=(0, (2, 2)))
        axes.annotate(f"expected: {figures.number(expected)}", (sizes[0], expected), (0, 4), textcoords="offset points")


def _spread(sizes: list[int]) -> list[int]:
    """Some of the sizes, the largest among them, so far apart that their names have room."""
    shown = sizes[-1:]
    for size in reversed(sizes):
        if shown[0] / size >= (sizes[-1] / sizes[0]) ** (1 / _NAMES):
            shown.insert(0, size)
    return shown


def _told(name: str, rows: list[Bandwidth]) -> str:
    best = max(rows, key=lambda row: row.busbw)
    return f"{name} reaches {figures.number(best.busbw)} GB/s at {figures.size(best.bytes)}."
