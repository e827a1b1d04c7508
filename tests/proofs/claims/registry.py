"""The names under which claims are known, and their evaluation."""

import shlex
from collections.abc import Callable

from ..record import Run

Judgement = tuple[bool, str]
Predicate = Callable[..., Judgement]

CLAIMS: dict[str, Predicate] = {}
_HOLD_WITHOUT_END: set[str] = set()


def claim(predicate: Predicate) -> Predicate:
    """Make `predicate` a claim. It only holds for runs whose processes all end well: half a run proves nothing."""
    CLAIMS[predicate.__name__.replace("_", "-")] = predicate
    return predicate


def claim_of_any_end(predicate: Predicate) -> Predicate:
    """Make `predicate` a claim that may hold for a run that fails or stands still."""
    _HOLD_WITHOUT_END.add(predicate.__name__.replace("_", "-"))
    return claim(predicate)


def judge(text: str, run: Run) -> Judgement:
    """Does the claim `text`, a name with arguments, hold for `run`, and by what?"""
    name, *arguments = shlex.split(text)
    if name not in CLAIMS:
        return False, f"no such claim; there are {', '.join(sorted(CLAIMS))}"
    if name not in _HOLD_WITHOUT_END and not run.ended_well:
        return False, f"not all processes end well: {endings(run)}"
    return CLAIMS[name](run, *arguments)


def endings(run: Run) -> str:
    """How each process ended."""
    return "; ".join(f"{run.name(each)} {each.ending} with status {each.status}" for each in run.processes)
