"""Whose gradients a step uses, and who averages them: what rules of several families ask of a program."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from gpudoctor.lint.domain.container import TupleOf
from gpudoctor.lint.domain.function import Method
from gpudoctor.lint.domain.module import Module, StateDict, Wrapper
from gpudoctor.lint.domain.optim import Optimizer, Parameters
from gpudoctor.lint.domain.symbols import MethodResult
from gpudoctor.lint.domain.tensor import Tensor, TensorOrigin
from gpudoctor.lint.domain.value import Term, Unknown, Value
from gpudoctor.lint.events.collective import Collective
from gpudoctor.lint.events.event_context import Event, Loop
from gpudoctor.lint.events.model import Forward, UnusedPart
from gpudoctor.lint.events.training_step import Backward, ClearGradients, ClipGradients, OptimizerStep
from gpudoctor.lint.flow.valueset import ValueSet
from gpudoctor.lint.program import Program
from gpudoctor.lint.questions.asked_in_tests import rounds_between


def averaged_by_hand(program: Program, seldom: bool = False) -> bool:
    """The program sends gradients, parameters or something unknown between ranks by itself.

    Something unknown in each step, or with `seldom` at any time.
    """
    sent = (e for e in program.events(Collective) if (e.adds_up or e.gathers or e.hands_on) and not e.objects)
    return any(_may_average(program, each, seldom) for each in sent if not _begins_alike(program, each))


_ADD_UP = ("all_reduce", "all_reduce_coalesced", "reduce_scatter", "reduce_scatter_tensor", "allreduce")


def _begins_alike(program: Program, sent: Collective) -> bool:
    """Handed on before the first step, and never again: the ranks begin with one state and go apart from there, unless
    something that was not followed brings them together."""
    if not sent.hands_on:
        return False
    steps = list(program.events(OptimizerStep))
    around = {loop.identity for step in steps for loop in step.loops if loop.repeats}
    again = any(loop.identity in around for loop in sent.loops)
    once = bool(steps) and not again and sent.order < min(each.order for each in steps)
    return once and not program.may_name(*_ADD_UP)


def _may_average(program: Program, sent: Collective, seldom: bool) -> bool:
    given = [values for values in (sent.subject, sent.sent) if values is not None]
    # Losses and counts are sent around in every program; only these would replace a wrapper.
    if any(values.any(_is_trained) for values in given):
        return True
    # A collective whose tensor is not known may be the averaging: then the program has the benefit of the doubt.
    unknown = not given or any(values.has(Unknown) for values in given)
    return unknown and (seldom or not (_after_an_epoch(program, sent) or _in_some_rounds(program, sent)))


def _is_trained(value: Value) -> bool:
    if isinstance(value, Tensor):
        return value.origin in (TensorOrigin.PARAMETER, TensorOrigin.GRADIENT)
    return _made_of_weights(value)


MADE_OF = 6
"""So many steps are looked back at what an unknown value was made of."""


def _made_of_weights(made: Hashable, depth: int = MADE_OF) -> bool:
    """It is parameters of a model, or was made of some: `parameters_to_vector(model.parameters())`."""
    parts: Iterable[Hashable] = ()
    match made:
        case Module() | Wrapper() | Parameters() | StateDict():
            return True
        # Running statistics are no weights.
        case MethodResult(method="buffers" | "named_buffers"):
            return False
        case Unknown(Term() as term):
            return _made_of_weights(term, depth)
        case Term(parts=inside) | TupleOf(inside):
            parts = inside
        case tuple() | ValueSet():
            parts = made
        case Method(receiver):
            parts = (receiver,)
    return depth > 0 and any(_made_of_weights(each, depth - 1) for each in parts)


def _after_an_epoch(program: Program, sent: Collective) -> bool:
    """It is sent once for many steps, as what was counted in an epoch is: gradients are averaged for each step."""
    steps = [loop for step in program.events(OptimizerStep) if (loop := _innermost(step.loops)) is not None]
    around = {loop.identity for step in program.events(OptimizerStep) for loop in step.loops if loop.repeats}
    inside = {loop.identity for loop in sent.loops}
    return bool(inside & around) and not any(loop.identity in inside for loop in steps)


def _in_some_rounds(program: Program, sent: Collective) -> bool:
    """It is sent in every so many steps, as what is logged or evaluated then: `if step % 100 == 0:`."""
    steps = [*program.events(OptimizerStep)]
    more = [sent.condition.difference(step.condition) for step in steps]
    return bool(more) and all(any(map(rounds_between, tests)) for tests in more)


def _innermost(loops: Sequence[Loop]) -> Loop | None:
    return next((loop for loop in reversed(loops) if loop.repeats), None)


def holds(program: Program, optimizer: Value | ClipGradients, module: Value) -> bool:
    """The optimizer, or what clips gradients, has parameters of this module: by parts, for many are given
    `model.head.parameters()` alone."""
    return _has_some(program, optimizer, program.within(module))


def _has_some(program: Program, optimizer: Value | ClipGradients, parts: frozenset[Value]) -> bool:
    return any(parts & program.within(each) for each in optimizer.modules)


def feeds(program: Program, backward: Backward, optimizer: Value | ClipGradients) -> bool:
    """A backward surely leaves gradients in a module that the optimizer holds."""
    return any(_has_some(program, optimizer, _used(program, call)) for call in program.calls_in_graph(backward))


def _used(program: Program, call: Forward) -> frozenset[Value]:
    """The parts without those that no forward calls, as a critic that the loss of the generator holds."""
    parts = program.within(call.module)
    return parts.difference(*(program.within(each.part) for each in program.events(UnusedPart) if each.module in parts))


def stepped_after(program: Program, backward: Backward, core: Value) -> OptimizerStep | None:
    """The optimizer step that uses the gradients which a backward leaves in a module; None where none surely does."""
    for event in program.events(OptimizerStep, ClearGradients):
        # Gradients live until they are cleared: what counts is the first thing that happens to them from here on.
        if event.order < backward.order or event.condition.excludes(backward.condition):
            continue
        if isinstance(event, ClearGradients) and _holds(program, event.target, core):
            return None
        if isinstance(event, OptimizerStep) and _holds(program, event.optimizer, core):
            return event
    return None


def _holds(program: Program, owner: Value, core: Value) -> bool:
    """An optimizer or a module has parameters of this module."""
    # Gradients may be cleared by way of the optimizer or of the model itself.
    modules = owner.modules if isinstance(owner, (Optimizer, Parameters)) else frozenset([owner])
    # Both ways round: an optimizer may hold one layer of the model, or a whole of which the model is a part.
    return any(core in program.within(each) or each.core in program.within(core) for each in modules)


def is_repeated(event: Event) -> bool:
    """The event happens in a loop, as a training step does."""
    # One step alone, as in a self-test or a warm-up, is no training that could drift.
    return any(loop.repeats for loop in event.loops)
