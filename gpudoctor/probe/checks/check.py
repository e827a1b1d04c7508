"""What a check is: `work` on every rank, then `judge` in the parent, on the facts of all ranks and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gpudoctor.probe.context import Context, Facts
from gpudoctor.probe.measure import worst
from gpudoctor.probe.measurement_plan import World
from gpudoctor.probe.results import Check, Verdict
from gpudoctor.record import dataclass


@dataclass(frozen=True)
class Seen:
    """The facts that all ranks handed over for one stage. Complete: broken stages are judged before this."""

    world: World
    ranks: Mapping[int, Facts]

    def each(self, name: str) -> list[object]:
        """One fact of every rank, by rank."""
        return [self.ranks[rank][name] for rank in sorted(self.ranks)]


@dataclass(frozen=True)
class Examination:
    """One check, as its module hands it over."""

    name: str
    asks: str
    """What it wants to know, in a few words for the live view."""
    work: Callable[[Context], Facts]
    judge: Callable[[Seen], Check]
    seconds: float = 30.0
    """After that the ranks are taken to hang."""
    thorough: bool = False
    """It takes minutes, so that it must be asked for."""


def passed(name: str, reason: str, **rest: object) -> Check:
    """A check that holds."""
    return Check(name, Verdict.PASS, reason=reason, **rest)  # type: ignore[arg-type]


def failed(name: str, reason: str, remedy: str, **rest: object) -> Check:
    """A check that does not hold, and what to do."""
    return Check(name, Verdict.FAIL, reason=reason, remedy=remedy, **rest)  # type: ignore[arg-type]


def skipped(name: str, reason: str) -> Check:
    """A check that does not apply here, and why."""
    return Check(name, Verdict.SKIPPED, reason=reason)


def errors_of(ranks: Mapping[int, Facts], source: str) -> tuple[list[int], dict[str, object]]:
    """The ranks whose `error` is not within what is `allowed`, NaN among them, and the figures for the check."""
    bad = [rank for rank, facts in sorted(ranks.items()) if not facts["error"] <= facts["allowed"]]
    return bad, {
        "figure": float(worst(facts["error"] for facts in ranks.values())),
        "unit": "relative error",
        "expectation": f"<= {min(facts['allowed'] for facts in ranks.values()):.1e}",
        "source": source,
    }


def ranks_in_words(ranks: list[int]) -> str:
    """`rank 1`, `ranks 1 and 3`, `ranks 0, 1 and 3`."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    return f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"
