"""What gets a wrapper that averages gradients in its forward, whoever makes it."""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.lint.domain.module import Module, Wrapper, WrapperKind
from gpudoctor.lint.domain.value import Value
from gpudoctor.lint.events.event_context import Event
from gpudoctor.lint.events.knowledge import Prepare
from gpudoctor.lint.events.model import Wrap
from gpudoctor.lint.program import Program
from gpudoctor.record import dataclass


@dataclass(frozen=True)
class Wrapping:
    """A module gets a wrapper, made by the program itself or by the framework that it hands the module to."""

    wrapper: Module | Wrapper
    inner: Value
    kind: WrapperKind
    at: Event


def wrappings(program: Program) -> Iterator[Wrapping]:
    """What the program wraps, and what a framework wraps as the program could have done itself."""
    prepared = {event.made for event in program.events(Prepare)}
    for event in program.events(Wrap, Prepare):
        if isinstance(event, Wrap) and event.wrapper not in prepared:
            yield Wrapping(event.wrapper, event.inner, event.kind, event)
        # A wrapper of the framework's own may average in another way than by its forward.
        elif isinstance(event, Prepare) and isinstance(event.made, Wrapper) and _is_ddp(program, event, event.made):
            yield Wrapping(event.made, event.given, WrapperKind.DDP, event)


def _is_ddp(program: Program, event: Prepare, made: Wrapper) -> bool:
    return made.wrapped_by(WrapperKind.DDP) or program.wraps_as_launched(event.managed.framework)
