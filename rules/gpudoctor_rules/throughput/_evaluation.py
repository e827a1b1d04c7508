"""Evaluations: passes over a loader in which a model that the program trains is only called."""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.lint.domain.data import Loader
from gpudoctor.lint.domain.value import Value
from gpudoctor.lint.events.collective import LeaveLoop
from gpudoctor.lint.events.data_loading import Iterate
from gpudoctor.lint.events.event_context import Loop
from gpudoctor.lint.events.model import Forward
from gpudoctor.lint.events.training_step import Backward, OptimizerStep
from gpudoctor.lint.questions.loop_rounds import trains
from gpudoctor.record import dataclass
from gpudoctor.rule import Program


@dataclass(frozen=True)
class Evaluation:
    """A pass over all batches of a loader, with the first call of the model in it."""

    loader: Loader
    start: Iterate
    loop: Loop
    call: Forward


def evaluations(program: Program) -> Iterator[Evaluation]:
    """The passes that only evaluate, from the first batch to the last."""
    trained = _trained(program)
    for start in program.events(Iterate) if trained else ():
        loop = start.loop or _drawing_loop(program, start)
        if loop is None or not loop.repeats or trains(program, loop):
            continue
        call = next((e for e in program.during(loop, Forward) if e.module.core in trained), None)
        # Who leaves early looks at a few batches, which costs little.
        if call is not None and not any(e.how != "continue" for e in _leaves(program, loop)):
            yield Evaluation(start.loader, start, loop, call)


def _drawing_loop(program: Program, start: Iterate) -> Loop | None:
    """The loop that draws the batches one by one: `while images is not None:` around a prefetcher."""
    for call in program.events(Forward):
        new = [loop for loop in call.loops if loop.entered > start.order]
        if new and any(each.batch_of == start.loader for each in call.inputs):
            return new[0]
    return None


def _trained(program: Program) -> set[Value]:
    forwards = program.forwards
    calls = (forwards.get(identity) for event in program.events(Backward) for identity in event.forwards)
    cores: set[Value] = {call.module.core for call in calls if call is not None}
    optimizers = {event.optimizer for event in program.events(OptimizerStep)}
    known = [each for each in optimizers if each.complete]
    # A backbone that only computes features for a trained head is in the graph, too.
    if not optimizers or len(known) < len(optimizers):
        return cores
    held = frozenset[Value]().union(*(program.within(module) for each in known for module in each.modules))
    return {core for core in cores if program.within(core) & held}


def _leaves(program: Program, loop: Loop) -> Iterator[LeaveLoop]:
    return (e for e in program.events(LeaveLoop) if e.loop is not None and e.loop.identity == loop.identity)
