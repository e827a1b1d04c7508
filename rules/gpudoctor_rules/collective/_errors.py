"""Errors of one rank that its program passes over, while the other ranks go on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpudoctor.lint.events.collective import Collective
from gpudoctor.lint.events.model import Forward
from gpudoctor.lint.events.process import Caught
from gpudoctor.lint.events.training_step import Backward
from gpudoctor.rule import Program
from gpudoctor_rules.collective._together import JointStep

OF_ONE_RANK = "torch.OutOfMemoryError"
"""What PyTorch raises where memory is short: an error that other ranks need not have. Who takes any `RuntimeError`, as
where a batch has the wrong shape, takes it, too."""


def passed_over(program: Program, together: Iterable[JointStep]) -> Iterator[tuple[Caught, JointStep]]:
    """Handlers in a training loop, after which a rank goes on with the next round, and the step that it leaves out."""
    backwards = [step for step in together if isinstance(step.event, Backward)]
    for caught in program.events(Caught):
        # Outside of loops nothing goes on that other ranks might meet.
        if not caught.loops or not caught.takes(OF_ONE_RANK) or "join" in caught.context.contexts:
            continue
        if not any(caught.tries(call) and _is_training(call) for call in program.events(Forward)):
            continue
        # It takes the step with something else, or tells the others.
        if any(caught.does(event) for event in program.events(Backward, Collective)):
            continue
        step = next((step for step in backwards if _is_left_out(caught, step)), None)
        if step is not None:
            yield caught, step


def _is_training(call: Forward) -> bool:
    wrapped = call.module.synchronises
    return bool(call.graph) and wrapped


def _is_left_out(caught: Caught, step: JointStep) -> bool:
    loops = {loop.identity for loop in caught.loops}
    if not any(loop.identity in loops for loop in step.event.loops):
        return False
    # What stands behind the block is left out only by who goes on with another round.
    return caught.tries(step.event) or (caught.leaves and step.event.order > caught.order)
