"""Steps that all ranks make together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.module import Module
from gpudoctor.lint.domain.tensor import TensorOrigin
from gpudoctor.lint.domain.value import Value
from gpudoctor.lint.events.collective import Collective
from gpudoctor.lint.events.event_context import Event
from gpudoctor.lint.events.model import Wrap
from gpudoctor.lint.events.training_step import Backward
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.record import dataclass
from gpudoctor.rule import Program


@dataclass(frozen=True)
class JointStep:
    """Something that all ranks do together, and how a message calls it."""

    name: str
    event: Event


def steps_together(program: Program) -> Iterator[JointStep]:
    """The collectives of all ranks, and the backwards that exchange gradients."""
    sharded = sharded_in_place(program)
    for event in program.events(Backward, Collective):
        # What only some ranks do is GPU501 or GPU502; here all must be meant to take part.
        if not (program.on_both_sides(event) or _only_loops_may_differ(event)):
            continue
        # A group of its own may hold just the ranks that stay.
        if isinstance(event, Collective) and event.of_all_ranks:
            yield JointStep(f"`{event.call}`", event)
        elif isinstance(event, Backward) and _exchanges_gradients(program, event, sharded):
            yield JointStep("the gradient exchange of `backward`", event)


def sharded_in_place(program: Program) -> dict[Value, Wrap]:
    """What `fully_shard` has cut up: the model itself gathers its parameters when it is called."""
    return {each.wrapper: each for each in program.events(Wrap) if each.in_place and isinstance(each.wrapper, Module)}


def _only_loops_may_differ(event: Event) -> bool:
    """What may be about the rank are only the conditions of the loops around it: who is in a loop has passed its own,
    and how many rounds the others make is another question."""
    heads = [each.location for each in event.loops]
    return all(
        guard.atom.divergence & Divergence.UNREAD and any(_stands_in(guard.atom.place, head) for head in heads)
        for guard in event.condition.depending_on(Divergence.RANK)
    )


def _stands_in(place: Location | None, head: Location) -> bool:
    return place is not None and place.path == head.path and head.line <= place.line <= (head.end_line or head.line)


def _exchanges_gradients(program: Program, event: Backward, sharded: Mapping[Value, Wrap]) -> bool:
    modules = [call.module for call in program.calls_in_graph(event)]
    # A framework's backward synchronises by what it wrapped, out of our sight; Horovod hangs on to the parameters.
    averaged = any(each.averages and not each.condition.excludes(event.condition) for each in program.in_charge)
    if averaged or bool(event.managed) or any(module.synchronises for module in modules):
        return True
    if event.loss.origin is TensorOrigin.PARAMETER and event.loss.batch_of is not None:
        # `sum(p.sum() for p in model.parameters()) * 0`, in the place of a loss that is no good.
        wraps = (wrap for wrap in program.events(Wrap) if wrap.inner.core == event.loss.batch_of.core)
        return any(wrap.wrapper.synchronises for wrap in wraps)
    cut_up = [sharded[module.core] for module in modules if module.core in sharded]
    return any(wrap.order < event.order for wrap in cut_up)
