"""What each step costs: waits of the host, barriers, reductions, groups, wrappers, debug switches."""

from itertools import pairwise

from ..record import Run
from .registry import Judgement, claim


@claim
def syncs_every_step(run: Run, count: str = "1") -> Judgement:
    """The program asks for the value of a tensor at least `count` times in nearly every step."""
    steps, busy, total = _syncs(run, int(count))
    return steps > 2 and busy >= 0.8 * steps, f"{total} waits in {steps} steps, {busy} steps with {count} or more"


@claim
def syncs_rarely(run: Run) -> Judgement:
    """The program asks for the value of a tensor in less than every second step."""
    steps, busy, total = _syncs(run, 1)
    return steps > 2 and busy < 0.5 * steps, f"{total} waits in {steps} steps, {busy} steps with one"


@claim
def barriers_every_step(run: Run) -> Judgement:
    """There is a barrier for nearly every optimizer step."""
    steps, barriers = _started(run, "barrier")
    return steps > 2 and barriers >= 0.8 * steps, f"{barriers} barriers in {steps} steps"


@claim
def barriers_rarely(run: Run) -> Judgement:
    """There are far fewer barriers than optimizer steps."""
    steps, barriers = _started(run, "barrier")
    return steps > 2 and barriers < 0.5 * steps, f"{barriers} barriers in {steps} steps"


@claim
def reduces_every_backward(run: Run) -> Judgement:
    """Gradients are reduced in every backward, though several of them make one step."""
    backwards, steps, reducing = _reducing(run)
    return backwards > steps > 0 and reducing == backwards, f"{reducing} of {backwards} backwards reduce, {steps} steps"


@claim
def reduces_once_per_step(run: Run) -> Judgement:
    """Of the backwards of one step, only one reduces gradients."""
    backwards, steps, reducing = _reducing(run)
    return backwards > steps > 0 and reducing == steps, f"{reducing} of {backwards} backwards reduce, {steps} steps"


@claim
def reduces_per_backward(run: Run, count: str) -> Judgement:
    """Every backward of a rank reduces gradients this many times (DDP: once for each bucket)."""
    reduces = {line["reduces"] for rank in run.ranks for line in rank.of("backward")}
    return reduces == {int(count)}, f"reductions per backward: {sorted(reduces)}"


@claim
def broadcasts_per_step(run: Run, count: str) -> Judgement:
    """From one optimizer step to the next, a rank makes this many broadcasts, but for the first (DDP: its buffers)."""
    totals = [[line["collectives"].get("broadcast", 0) for line in rank.of("step")] for rank in run.ranks]
    # After its first step DDP tells the other ranks how it has rearranged its buckets.
    between = {after - before for rank in totals for before, after in pairwise(rank[1:])}
    return between == {int(count)}, f"broadcasts between steps: {sorted(between)}"


def _syncs(run: Run, count: int) -> tuple[int, int, int]:
    """Steps, steps with at least `count` waits since the step before, and all those waits, on the busiest rank."""
    best = (0, 0, 0)
    for rank in run.ranks:
        intervals = [0]
        for line in rank.of("sync", "step"):
            if line["kind"] == "step":
                intervals.append(0)
            else:
                intervals[-1] += 1
        # What is asked after a step belongs to it; what comes before the first one is preparation.
        after = intervals[1:]
        best = max(best, (len(after), sum(n >= count for n in after), sum(after)))
    return best


def _started(run: Run, name: str) -> tuple[int, int]:
    rank = max(run.ranks, key=lambda rank: len([*rank.of("step")]))
    steps = [*rank.of("step")]
    return len(steps), steps[-1]["collectives"].get(name, 0) if steps else 0


def _reducing(run: Run) -> tuple[int, int, int]:
    rank = run.ranks[0]
    backwards = [*rank.of("backward")]
    reducing = sum(line["reduces"] > 0 for line in backwards)
    return len(backwards), len([*rank.of("step")]), reducing


@claim
def groups_grow(run: Run) -> Judgement:
    """Process groups are made again and again while the program trains."""
    made, steps = _groups_after_first_step(run)
    return steps > 2 and made > 1, f"{made} groups made after the first of {steps} steps"


@claim
def groups_stay(run: Run) -> Judgement:
    """No process group is made once training has begun."""
    made, steps = _groups_after_first_step(run)
    return steps > 2 and made == 0, f"{made} groups made after the first of {steps} steps"


@claim
def wrapped_again(run: Run) -> Judgement:
    """A model that has been wrapped is wrapped once more."""
    most = _wraps(run)
    return most > 1, f"a model is wrapped {most} times"


@claim
def wrapped_once(run: Run) -> Judgement:
    """No model is wrapped twice."""
    most = _wraps(run)
    return most == 1, f"a model is wrapped {most} times"


@claim
def debug_on(run: Run) -> Judgement:
    """Steps are made with a switch on that is meant for finding bugs."""
    switches = [set(line["debug"]) for rank in run.ranks for line in rank.of("step")]
    return any(switches), f"on: {sorted(set().union(*switches))}"


@claim
def debug_off(run: Run) -> Judgement:
    """No step is made with a switch on that is meant for finding bugs."""
    switches = [set(line["debug"]) for rank in run.ranks for line in rank.of("step")]
    return bool(switches) and not any(switches), f"on: {sorted(set().union(*switches))} in {len(switches)} steps"


@claim
def evaluates_on_some(run: Run) -> Judgement:
    """Some ranks evaluate, and others do not."""
    evaluating = _evaluating(run)
    return 0 < len(evaluating) < len(run.ranks), f"ranks that evaluate: {evaluating}"


@claim
def evaluates_on_all(run: Run) -> Judgement:
    """Every rank evaluates."""
    evaluating = _evaluating(run)
    return len(run.ranks) > 1 and len(evaluating) == len(run.ranks), f"ranks that evaluate: {evaluating}"


def _groups_after_first_step(run: Run) -> tuple[int, int]:
    made = steps = 0
    for line in run.ranks[0].of("group", "step") if run.ranks else ():
        steps += line["kind"] == "step"
        made += line["kind"] == "group" and steps > 0
    return made, steps


def _wraps(run: Run) -> int:
    return max((line["times"] for rank in run.ranks for line in rank.of("wrap")), default=0)


def _evaluating(run: Run) -> list[int]:
    return [rank.rank for rank in run.ranks if any(not line["training"] for line in rank.of("forward"))]
