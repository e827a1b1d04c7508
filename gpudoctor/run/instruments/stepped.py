"""The line of a step, as it is written down in each of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Stepped(NamedTuple):
    """A step that is to be told, as the last `of` so many: `took` is a sum over all of them, and so is what `spans` has
    of waiting; the others, and `counts`, are those of this step."""

    at: float
    step: int
    of: int
    optimizer: int
    took: float
    memory: int | None
    peak: int | None
    cost: float
    spans: Mapping[str, float]
    counts: Mapping[str, int]
    starts: Sequence[tuple[str, float, float]]

    def line(self) -> str:
        """As JSON. By hand: an encoder would take as long as all the rest."""
        means = {**self.spans, "wait": self.spans["wait"] / self.of} if "wait" in self.spans else self.spans
        spans = ",".join(f'"{name}":{seconds:.6f}' for name, seconds in means.items())
        counts = ",".join(f'"{name}":{number}' for name, number in self.counts.items())
        memory, peak = ("null" if held is None else held for held in (self.memory, self.peak))
        starts = f',"starts":{json.dumps(self.starts)}' if self.starts else ""
        return (
            f'{{"kind":"step","at":{self.at!r},"number":{self.step},"of":{self.of},"optimizer":{self.optimizer},'
            f'"took":{self.took / self.of:.6f},"memory":{memory},"peak":{peak},"cost":{self.cost:.6f},'
            f'"spans":{{{spans}}},"counts":{{{counts}}}{starts}}}'
        )
