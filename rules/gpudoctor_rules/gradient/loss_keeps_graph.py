"""A sum or a list keeps the graph of every step alive.

## What goes wrong

A loss is a tensor that remembers how it was computed, so that `backward()` can follow the way back: its graph. A sum
over the steps, as in `total += loss`, or a list of losses keeps the graphs of all steps. In training `backward()` has
freed the large tensors by then and the rest leaks step by step; in validation everything is kept, until the program
ends with `torch.OutOfMemoryError: CUDA out of memory`.

## Fix

Add `.detach()` to what is kept: same value, no graph. Safe. It stays on the GPU, so nothing waits for it; take
`.item()` of the sum once, after the loop.

## Silent when

A `backward()` follows on the sum, as in a loss over several batches or time steps; the sum starts over in each step,
or in each iteration of a training in which the loop that adds reads no batches, as it may go over several models; the
list is emptied wherever the optimizer steps; under `no_grad`; the value is detached, or a number already.

## Sources

https://docs.pytorch.org/docs/stable/notes/faq.html#my-model-reports-cuda-runtime-error-2-out-of-memory.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from itertools import pairwise

from gpudoctor.diagnostic import Location, Safety, Severity
from gpudoctor.lint.events.acting_place import parting
from gpudoctor.lint.events.data_loading import Iterate
from gpudoctor.lint.events.event_context import Loop
from gpudoctor.lint.events.training_step import Accumulated, Backward, OptimizerStep, TakeGradient
from gpudoctor.lint.questions.loop_bounds import usual_rounds
from gpudoctor.lint.questions.loop_rounds import begins_otherwise
from gpudoctor.lint.repair.repair import Repair, Replace, Source
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules._error_texts import OUT_OF_MEMORY


class LossKeepsGraph(Rule):
    code = "GPU710"
    severity = Severity.WARNING
    errors = OUT_OF_MEMORY
    fix_safety = Safety.SAFE
    # So many have looks enough.
    shows_when = ("ranks.steps > 15",)
    needs = (Accumulated,)

    def in_code(self, program: Program) -> Findings:
        told: set[tuple[str, Location]] = set()
        begun: set[Hashable] = set()
        for event in program.events(Accumulated):
            kept = _from_earlier_round(program, event)
            # Graphs that a later backward walks are kept on purpose, as in truncated backpropagation.
            # A sum that starts over with each step has let go of those of earlier ones.
            if kept is None or _differentiated_later(program, *kept):
                continue
            # `if i == 0: total = loss else: total += loss` holds nothing of earlier steps, nor does what is made of it.
            if begins_otherwise(event, kept[0]):
                begun.update(event.held)
            if kept[1] in begun:
                continue
            if _within_step(program, event, kept[0]) or _emptied_with_step(program, event, kept[0]):
                continue
            made = program.forwards[kept[1]]
            # A sum that is divided in the end was named where it grows.
            if (event.into, made.location) in told:
                continue
            told.add((event.into, made.location))
            # A meter that adds up whatever it is given is right for those who give it numbers.
            place = parting(event, made)
            yield self.found(
                place,
                f"`{event.into}` keeps the graph of every step: memory grows with each of them.",
                remedy="Add `.detach()` to what is kept: the same value, without the graph.",
                because=[("the graph is made here, in each step", made.location), ("and kept here", event.location)],
                repair=_detach(place) if place == event.location else None,
            )

    def in_run(self, recording: Recording) -> Findings:
        for rank in recording.ranks[:1]:
            for before, after in pairwise(rank.checks):
                made, kept = after.losses - before.losses, after.graphs - before.graphs
                at = rank.backward or rank.optimizers[0].backward
                # Not one of them was let go.
                if kept >= max(_ENOUGH, made) and at is not None:
                    yield self.found(
                        at,
                        f"After step {after.step}, the graphs of {after.graphs} losses that had been backpropagated "
                        "were still kept by something: memory grows with each step.",
                        remedy="Find where the loss is added up or put into a list, and add `.detach()` there.",
                    )
                    return


_ENOUGH = 8
"""Graphs that came and stayed between two looks."""


def _detach(at: Location) -> Repair:
    return Repair("Keep it without the graph", (Replace(at, (Source(at, "added"), ".detach()"), part="added"),))


def _from_earlier_round(program: Program, event: Accumulated) -> tuple[Loop, Hashable] | None:
    """A loop over batches, or that trains, and a module call of an earlier round of it whose graph is still kept."""
    # A sum that begins anew in each iteration holds no call of an earlier one, so no name needs to be followed.
    over_batches = [loop for loop in event.loops if loop.over is not None]
    # Within a step, several optimizers may take their turns.
    training = over_batches or [loop for loop in event.loops if _trains(program, loop) and not loop.over_models]
    now = {loop.identity: loop for loop in training}
    calls = [(identity, program.forwards[identity]) for identity in event.held if identity in program.forwards]
    for identity, call in sorted(calls, key=lambda each: each[1].order):
        for then in call.loops:
            loop = now.get(then.identity)
            # Held since an earlier round of the very same loop: it will go on growing.
            if loop is not None and then.pass_ < loop.pass_:
                return then, identity
    return None


def _within_step(program: Program, event: Accumulated, loop: Loop) -> bool:
    """It starts over in each round of a training around the loop, which reads no batches: it may go over the parts of
    one step, as over several networks, of which there are few."""
    before = event.loops[: event.loops.index(loop)]
    around = next((each for each in reversed(before) if _trains(program, each)), None)
    if around is None or loop.over is not None or any(program.during(loop, Iterate)):
        return False
    # Steps of which nobody knows how many there are go over batches, each of which is asked for by `next(iterator)`.
    if usual_rounds(program, loop) is None and loop.identity in program.step_loops:
        return False
    later = [each for each in program.events(Accumulated) if each.location == event.location]
    rounds = [(each.held, now) for each in later for now in each.loops if now == around and now.pass_ > around.pass_]
    return bool(rounds) and all(
        then.pass_ == now.pass_
        for held, now in rounds
        for identity in held & program.forwards.keys()
        for then in program.forwards[identity].loops
        if then == around
    )


def _emptied_with_step(program: Program, event: Accumulated, loop: Loop) -> bool:
    """It holds the losses of the batches of one step: where that is made, the list is emptied."""
    steps = [
        each.condition.excludes(event.where)
        for each in program.during(loop, OptimizerStep)
        if any(now == loop and now.pass_ == loop.pass_ for now in each.loops)
    ]
    return bool(steps) and all(steps)


def _trains(program: Program, loop: Loop) -> bool:
    return next(program.during(loop, OptimizerStep), None) is not None


def _differentiated_later(program: Program, loop: Loop, identity: Hashable) -> bool:
    """Something follows the way back through that call in a later round, or after the loop: the graph is needed."""
    asked: Iterator[Backward | TakeGradient] = program.events(Backward, TakeGradient)
    return any(
        # A backward of the same round frees what it needs, but the sum goes on holding the rest.
        identity in event.forwards and not any(_same_round(each, loop) for each in event.loops)
        for event in asked
        # A loss of unknown origin may be the sum itself.
    ) or any(not event.complete and not event.forwards for event in program.events(Backward))


def _same_round(one: Loop, other: Loop) -> bool:
    return one.identity == other.identity and one.pass_ == other.pass_
