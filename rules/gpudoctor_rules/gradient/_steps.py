"""What the rules about steps ask: which optimizer holds which model, and where its gradients are made and cleared."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from gpudoctor.lint.domain.module import Wrapper, WrapperKind
from gpudoctor.lint.domain.optim import Optimizer, Parameters
from gpudoctor.lint.domain.tensor import TensorOrigin
from gpudoctor.lint.events.training_step import Backward, OptimizerStep
from gpudoctor.lint.flow.condition import Condition
from gpudoctor.lint.questions.gradient_use import feeds, holds
from gpudoctor.rule import Program

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Set as AbstractSet

    from gpudoctor.api.pack import ClearGradients, Event, Loop, Value
    from gpudoctor.run.recording import Process
    from gpudoctor.run.recording.call_counts import BetweenSteps


def between_steps(rank: Process) -> tuple[BetweenSteps, ...]:
    """What was seen of the gradients between steps of the only optimizer; empty where that tells nothing."""
    # With several, each is cleared before its own backward.
    return rank.between_steps if len(rank.optimizers) == 1 and len(rank.between_steps) > 1 else ()


def is_followed(program: Program, optimizer: Value, *, knows: AbstractSet[str] = frozenset()) -> bool:
    """All that happens to this optimizer is seen: it holds known models, and nobody else holds it or them."""
    # An optimizer of unknown parameters may be stepped for others than the models we see.
    if not isinstance(optimizer, Optimizer) or not optimizer.complete or optimizer.managed or not optimizer.modules:
        return False
    if not program.absence(of=optimizer, knows=knows):
        return False
    # Whoever holds a model can clear its gradients, or use them.
    return not any(program.within(each) & program.escaped for each in optimizer.modules)


def repeating_loop(event: Event, of: Value | None = None) -> Loop | None:
    """The innermost loop around an event that runs more than once, for the same object `of` where that is given."""
    # `for optimizer in optimizers: optimizer.step()`: each of them has a round of its own.
    return next((loop for loop in reversed(event.loops) if loop.repeats and of not in loop.items), None)


def may_feed(program: Program, backward: Backward, optimizer: Value) -> bool:
    """A backward may leave gradients there: what it flows through is not all known."""
    # A loss that came from unread code may be of any model.
    return not backward.complete or not backward.forwards or feeds(program, backward, optimizer)


def may_clear(program: Program, event: ClearGradients, optimizer: Optimizer) -> bool:
    """Clearing may reach some gradient of the optimizer."""
    target = event.target
    # `if "last_layer" in name: p.grad = None` before the step: these are not to be trained now, the others are.
    if event.named and _before_step(program, event):
        return False
    if isinstance(target, Optimizer):
        # Optimizers around optimizers (lookahead, SAM) clear what they were given.
        unclear = not target.complete or not target.modules
        return unclear or target == optimizer or any(holds(program, optimizer, each) for each in target.modules)
    if isinstance(target, Parameters):
        return any(holds(program, optimizer, each) for each in target.modules)
    # `p.grad = None` in a loop over the parameters clears them one by one.
    if target.origin is TensorOrigin.PARAMETER and target.batch_of is not None:
        return holds(program, optimizer, target.batch_of)
    # What is not known may be the model: clearing is assumed, so that rules of absence stay silent.
    return not target.is_model or holds(program, optimizer, target)


def _before_step(program: Program, event: ClearGradients) -> bool:
    """It stands after a backward and before the step that uses its gradients."""
    others = list(program.events(Backward, OptimizerStep))
    before = [each for each in others if each.order < event.order]
    after = [each for each in others if each.order > event.order]
    return bool(before and after) and isinstance(before[-1], Backward) and isinstance(after[0], OptimizerStep)


def clears_all(program: Program, event: ClearGradients, optimizer: Optimizer) -> bool:
    """Clearing surely reaches all gradients of the optimizer."""
    target = event.target
    if target.is_model:
        # Clearing a part leaves the gradients of the rest.
        return all(program.within(each) <= program.within(target) for each in optimizer.modules)
    return target == optimizer


def reaches(program: Program, modules: Iterable[Value], optimizer: Value) -> bool:
    """Some of these modules are among those that the optimizer holds."""
    return any(holds(program, optimizer, each) for each in modules)


def averaging_wrapper(program: Program, backward: Backward) -> Wrapper | None:
    """The wrapper in the graph of the loss that averages gradients."""
    wrappers = (call.module for call in program.calls_in_graph(backward) if isinstance(call.module, Wrapper))
    # A sharded model keeps whole gradients under `no_sync`, which many cannot afford.
    ddp = (each for each in wrappers if each.wrapped_by(WrapperKind.DDP))
    return next((each for each in ddp if not each.wrapped_by(WrapperKind.FSDP)), None)


def comes_before(program: Program, backward: Backward, step: OptimizerStep) -> bool:
    """Whoever makes the step has made the backward, of whichever loss was computed, where options choose it: each has
    an event of its own."""
    here = backward.location, backward.context.frames, backward.loops
    alike = (e for e in program.events(Backward) if (e.location, e.context.frames, e.loops) == here)
    when = reduce(Condition.intersection, [e.condition for e in alike]).difference(step.condition)
    return all(each.atom.switch for each in when) and not when.excludes(step.condition)
