"""What a step of each rank is made of: a bar for each, one piece beside the other."""

from __future__ import annotations

from collections.abc import Sequence

from gpudoctor.html import figures
from gpudoctor.html.drawing import FAINT, PAPER, SERIES, Chart, as_svg, canvas
from gpudoctor.run.page.lanes import MOST_RANKS
from gpudoctor.run.timing import PARTS, RankTime

_ROW, _FRAME = 26, 130
# Where copies are seen, on a GPU, communication is not told apart.
_COLOURS = (SERIES[0], SERIES[3], *SERIES[1:], FAINT)


def parts_chart(times: Sequence[RankTime]) -> Chart | None:
    """The bars of the first ranks; None where no step was timed."""
    shown = times[:MOST_RANKS]
    if not shown:
        return None
    factor, unit = (1.0, "s") if max(each.step for each in shown) >= 1 else (1e3, "ms")
    told = f"What a step is made of. {' '.join(_told(each) for each in shown)}"
    with canvas(_FRAME + _ROW * len(shown)) as figure:
        axes = figure.add_subplot()
        ends = [0.0] * len(shown)
        for name, colour in zip(PARTS, _COLOURS, strict=True):
            if not any(name in each.parts for each in shown):
                continue
            lengths = [factor * each.parts.get(name, 0.0) for each in shown]
            axes.barh(range(len(shown)), lengths, 0.72, ends, color=colour, edgecolor=PAPER, linewidth=0.75, label=name)
            ends = [end + length for end, length in zip(ends, lengths, strict=True)]
        axes.set_yticks(range(len(shown)), [f"rank {each.rank}" for each in shown])
        axes.invert_yaxis()
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="y", alpha=0.0)
        axes.set_xlabel(f"{unit} of a step")
        figure.legend(loc="outside lower center", ncols=2, handlelength=1.2, columnspacing=1.2)
        return Chart("What a step is made of", as_svg(figure, "parts", told), told)


def _told(each: RankTime) -> str:
    parts = ", ".join(f"{name} {figures.duration(seconds)}" for name, seconds in each.parts.items())
    return f"rank {each.rank}: {parts}."
