"""Processes that stood in unlike places when their stacks were taken."""

from __future__ import annotations

from collections.abc import Sequence

from gpudoctor.logs.endings import STOOD_ALONE, STOOD_APART
from gpudoctor.logs.error_texts.error_text import FailureRole
from gpudoctor.logs.log_facts import LogFact, LoggedFrame, StackDump
from gpudoctor.logs.logged_failure import LoggedFailure
from gpudoctor.logs.missing_ranks import MissingRanks
from gpudoctor.logs.speakers import Speaker


def standing_apart(facts: Sequence[LogFact]) -> tuple[list[LoggedFailure], MissingRanks | None] | None:
    """The processes whose stacks are known, first those that stood where the fewest did, and who was waited for."""
    stacks: dict[Speaker, StackDump] = {}
    for fact in facts:
        if isinstance(fact, StackDump) and (fact.by not in stacks or _of_program(fact)):
            stacks[fact.by] = fact
    stood = [(fact, next((frame for frame in fact.frames if frame.own), None)) for fact in stacks.values()]
    groups: dict[tuple[str, int] | None, list[tuple[StackDump, LoggedFrame | None]]] = {}
    for fact, frame in stood:
        groups.setdefault((frame.path, frame.line) if frame else None, []).append((fact, frame))
    if not stacks:
        return None
    if len(stacks) == 1:
        ((fact, frame),) = stood
        text = f"stood in `{fact.frames[0].function}`"
        return [LoggedFailure(fact.by, fact.at, text, FailureRole.WAIT, STOOD_ALONE, frame)], None
    few, *_, many = sorted(groups.values(), key=len) if len(groups) > 1 else (stood, stood)
    if len(groups) == 2 and len(few) == len(many) and _in_a_collective(few) and not _in_a_collective(many):
        few, many = many, few
    failures = [
        LoggedFailure(fact.by, fact.at, f"stood in `{fact.frames[0].function}`", FailureRole.WAIT, STOOD_APART, frame)
        for fact, frame in (*few, *(each for group in groups.values() if group is not few for each in group))
    ]
    others_wait = _in_a_collective(many) and not _in_a_collective(few)
    if len(few) == len(many) and not (others_wait and len(groups) == 2):
        return failures, None
    ranks = tuple(sorted(fact.by.rank for fact, _ in few if fact.by.rank is not None))
    who = f"{len(few)} of {len(stood)} processes stood"
    at = many[0][1]
    others = f"{at.path}:{at.line}" if at else "no line of the program"
    within = f" in `{many[0][0].called}`" if others_wait else ""
    return failures, MissingRanks(ranks, "", f"{who} here, the others{within} at {others}", False)


def _in_a_collective(group: Sequence[tuple[StackDump, LoggedFrame | None]]) -> bool:
    return all(fact.called for fact, _ in group)


def _of_program(stack: StackDump) -> bool:
    return stack.thread == "MainThread" or stack.frames[-1].function in ("<module>", "_run_code")
