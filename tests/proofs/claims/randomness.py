"""Seeds and the states of torch's generator."""

from ..record import Run
from .registry import Judgement, claim


@claim
def same_noise(run: Run) -> Judgement:
    """The generators of the ranks are in the same state after the first step: they draw the same numbers."""
    states = _states(run)
    return len(states) > 1 and len(set(states)) == 1, f"after the first step: {states}"


@claim
def distinct_noise(run: Run) -> Judgement:
    """The generators of the ranks are in different states after the first step."""
    states = _states(run)
    return len(states) > 1 and len(set(states)) == len(states), f"after the first step: {states}"


@claim
def seeded(run: Run) -> Judgement:
    """Every rank has chosen a seed by the time of its first step."""
    chosen = _chosen(run)
    return bool(chosen) and all(chosen), f"seed chosen: {chosen}"


@claim
def unseeded(run: Run) -> Judgement:
    """Some rank makes its first step without ever having chosen a seed."""
    chosen = _chosen(run)
    return not all(chosen), f"seed chosen: {chosen}"


def _states(run: Run) -> list[str]:
    return [line["generator"] for rank in run.ranks for line in [*rank.of("step")][:1]]


def _chosen(run: Run) -> list[bool]:
    return [line["seeded"] for rank in run.ranks for line in [*rank.of("step")][:1]]
