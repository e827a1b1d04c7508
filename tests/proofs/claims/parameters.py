"""What becomes of the parameters and buffers of the model."""

from ..record import Run
from .registry import Judgement, claim


@claim
def parameters_differ(run: Run) -> Judgement:
    """The parameters of the ranks are not the same after the last optimizer step."""
    return _differ(run, "parameters", True)


@claim
def parameters_agree(run: Run) -> Judgement:
    """The parameters of all ranks are the same, bit by bit, after the last optimizer step."""
    return _differ(run, "parameters", False)


@claim
def whole_parameters_differ(run: Run) -> Judgement:
    """Parameters that each rank holds whole, beside shards or without any, are not the same after the last step."""
    return _differ(run, "whole", True)


@claim
def whole_parameters_agree(run: Run) -> Judgement:
    """Parameters that each rank holds whole are the same on all ranks after the last step, and there are some."""
    return _differ(run, "whole", False)


@claim
def buffers_differ(run: Run) -> Judgement:
    """The buffers of the ranks (running statistics) are not the same after the last optimizer step."""
    return _differ(run, "buffers", True)


@claim
def buffers_agree(run: Run) -> Judgement:
    """The buffers of all ranks are the same after the last optimizer step."""
    return _differ(run, "buffers", False)


@claim
def parameters_unchanged(run: Run) -> Judgement:
    """No parameter of the model moves from the first training forward to the last, nor at a step."""
    return _moves(run, False)


@claim
def parameters_change(run: Run) -> Judgement:
    """The parameters of the model move on every rank."""
    return _moves(run, True)


def _differ(run: Run, part: str, wanted: bool) -> Judgement:
    if len(run.ranks) < 2:
        return False, f"{len(run.ranks)} rank"
    last = [[*rank.of("step")][-1:] for rank in run.ranks]
    if not all(last):
        return False, f"steps per rank: {[len([*rank.of('step')]) for rank in run.ranks]}"
    names = [line[part] for (line,) in last]
    return None not in names and (
        len(set(names)) > 1
    ) == wanted, f"after {len([*run.ranks[0].of('step')])} steps: {names}"


def _moves(run: Run, wanted: bool) -> Judgement:
    moved = []
    for rank in run.ranks:
        seen = [line["parameters"] for line in rank.of("forward", "step") if line["kind"] == "step" or line["training"]]
        if len(seen) < 2:
            return False, f"rank {rank.rank}: fewer than two looks at the parameters"
        moved.append(len(set(seen)) > 1)
    return all(each == wanted for each in moved) and bool(moved), f"moved: {moved}"
