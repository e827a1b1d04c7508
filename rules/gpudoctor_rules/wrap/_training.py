"""What the rules about wrapping ask of a training step: whose gradients are used, and who averages them."""

from __future__ import annotations

from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.module import Wrapper, WrapperKind
from gpudoctor.lint.domain.value import Value
from gpudoctor.lint.events.event_context import Event
from gpudoctor.lint.events.model import Wrap
from gpudoctor.lint.questions.wrappings import Wrapping


def same_round(one: Event, other: Event) -> bool:
    """Both happen in one round of the innermost loop over batches, or of the innermost loop where there is none."""
    return _round_of(one) == _round_of(other)


def _round_of(event: Event) -> tuple[object, ...]:
    # A forward in an inner loop, as over views of one batch, still belongs to the step of that batch.
    loops = event.loops
    batches = [index for index, loop in enumerate(loops) if loop.over is not None]
    kept = loops[: batches[-1] + 1] if batches else loops
    return tuple((loop.identity, loop.pass_) for loop in kept)


def inside_round(one: Event, other: Event) -> bool:
    """One happens in the round of the other, be it in a loop of its own: `for scale in scales: encode(x, scale)`."""
    around = _round_of(other)
    return bool(around) and _round_of(one)[: len(around)] == around


def begin_alike(one: Location, other: Location) -> bool:
    """Two places begin at the same character, as `model.loss` and `model.loss(x)` do."""
    return (one.path, one.line, one.column) == (other.path, other.line, other.column)


def is_wrapper_of(value: Value, wrap: Wrap | Wrapping) -> bool:
    """The value wraps the module of this wrap, be it by another wrapper around it."""
    # A later wrapper around the same module, as by a framework, arms the averaging just as well.
    return value == wrap.wrapper or (_is_parallel(value) and value.core == wrap.inner.core)


def _is_parallel(value: Value) -> bool:
    # `torch.compile` wraps too, but exchanges nothing between ranks.
    return isinstance(value, Wrapper) and value.core_under(WrapperKind.COMPILED) is None
