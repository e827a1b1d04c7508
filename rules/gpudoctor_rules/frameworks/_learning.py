"""What learns from which batches, and what steps it, for rules about objects in a framework's care."""

from __future__ import annotations

from gpudoctor.lint.domain.value import Value
from gpudoctor.lint.events.data_loading import BatchCut, Iterate
from gpudoctor.lint.events.training_step import Backward, OptimizerStep
from gpudoctor.lint.questions.gradient_use import holds
from gpudoctor.lint.questions.loop_rounds import in_every_round, same_round, training_loop
from gpudoctor.lint.questions.whole_data import goes_over_all
from gpudoctor.rule import Program
from gpudoctor_rules.frameworks._charge import ACCELERATE


def backward_in(program: Program, start: Iterate) -> Backward | None:
    """The backward that learns from the batches of this loop: it is the innermost one over batches around it."""
    for backward in program.events(Backward):
        if backward.condition.excludes(start.condition):
            continue
        around = [each for each in backward.loops if each.over is not None]
        if start.loop is not None and around and around[-1].identity == start.loop.identity:
            return backward
    return None


def reads_everything(program: Program, start: Iterate) -> bool:
    """All of the data set lies before each rank in this loop."""
    if start.loop is None or start.loader in program.escaped:
        return False
    # All ranks read the same batch, and each goes on with rows of its own.
    if any(program.during(start.loop, BatchCut)):
        return False
    return goes_over_all(start.loader, start.condition)


def step_of(program: Program, backward: Backward, model: Value) -> OptimizerStep | None:
    """The step of an optimizer that holds parameters of the model, after this backward and in its loop."""
    for step in program.events(OptimizerStep):
        if step.order > backward.order and not step.condition.excludes(backward.condition):
            loops = {loop.identity for loop in step.loops if loop.repeats}
            repeated = any(loop.identity in loops for loop in backward.loops)
            if repeated and holds(program, step.optimizer, model):
                return step
    return None


def step_of_each_batch(program: Program) -> tuple[Backward, OptimizerStep] | None:
    """A backward of Accelerate's, and a step that follows on it in each iteration of the loop."""
    for step in program.events(OptimizerStep):
        # Batches may also be drawn in a loop that counts steps.
        loop = training_loop(program, step)
        if loop is None or not in_every_round(program, step, loop):
            continue
        for backward in program.events(Backward):
            if backward.managed == ACCELERATE and backward.order < step.order and same_round(backward, step):
                return backward, step
    return None
