"""The losses of several batches are summed into one step and never divided by their number.

## What goes wrong

`backward()` adds to the gradients that are there. A loop that steps only every eight batches, each with a loss that is
a mean, steps with eight times the gradient of one large batch. SGD goes eight times as far as the learning rate says;
with Adam, which makes up for a constant factor, the clipping and the weight decay still see the large gradients. No
error is raised, and when somebody changes the number of batches, the learning rate changes with it.

## Fix

Divide the loss by the number of batches in a step before `backward()`. Unsafe: a learning rate that was found with the
large gradients has to be multiplied by that number (with SGD).

## Silent when

It is not certain that the loss is a mean over the batch, as where the model computes it; it is multiplied or divided by
anything; the gradients are scaled by hand before the step; the gradients of a batch may be cleared or used before the
next; the backwards are those of one batch, of which each computes another loss; a framework scales the loss.

## Sources

https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation,
https://huggingface.co/docs/accelerate/usage_guides/gradient_accumulation.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.diagnostic import Location, Safety, Severity
from gpudoctor.lint.domain.optim import Optimizer, Parameters
from gpudoctor.lint.domain.tensor import TensorOrigin
from gpudoctor.lint.events.knowledge import Escape
from gpudoctor.lint.events.model import Forward
from gpudoctor.lint.events.training_step import Backward, OptimizerStep, ScaleGradients
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.questions.asked_in_tests import asks_about, every_nth, rounds_between
from gpudoctor.lint.questions.gradient_use import feeds
from gpudoctor.lint.questions.names import name_of
from gpudoctor.lint.repair.repair import Code, Holds, Repair, Replace, Source
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules.gradient._rounds import adds_up, beside_forward, left_out_by, steps_less_often
from gpudoctor_rules.gradient._steps import averaging_wrapper


class AccumulatedLossNotScaled(Rule):
    code = "GPU713"
    severity = Severity.WARNING
    fix_safety = Safety.UNSAFE
    shows_when = ("ranks.losses",)
    needs = (Backward,)

    def in_code(self, program: Program) -> Findings:
        # Who scales gradients by hand may divide there.
        if program.has(ScaleGradients):
            return
        told: set[Location] = set()
        for backward in program.events(Backward):
            loss = backward.loss
            # Of the frameworks that go backward themselves, Lightning and its Fabric leave the loss as it is.
            scaled = backward.managed not in ("", "lightning")
            if backward.location in told or scaled or not loss.mean:
                continue
            step = next((each for each in program.events(OptimizerStep) if _sums_for(program, backward, each)), None)
            if step is None or _is_for_one(backward, step):
                continue
            told.add(backward.location)
            yield self.found(
                beside_forward(program, backward),
                f"{name_of(step.optimizer, 'the optimizer')} steps after several of these backwards, and each adds a "
                "whole mean: the gradient is too large by the number of batches.",
                remedy="Divide the loss by the number of batches that make one step, before `backward()`.",
                because=[
                    ("the loss is a mean over its batch", loss.place),
                    ("the backward", backward.location),
                    ("the step", step.location),
                ],
                needs=left_out_by(backward, step),
                repair=_divide(backward, step),
            )

    def in_run(self, recording: Recording) -> Findings:
        # Who divides the gradients, or the learning rate, does the same at another place.
        if self.code not in recording.suspected:
            return
        for rank in recording.ranks[:1]:
            counts = [step.counts.get("backwards", 0) for step in rank.steps]
            several = [count for count in counts if count > 1]
            for loss in rank.losses:
                if loss.scales == (1.0,) and len(several) * 2 > len(counts) and loss.place is not None:
                    yield self.found(
                        loss.place,
                        f"A step sums {several[0]} backwards, and of {loss.count} losses that were looked at, none was "
                        "divided: the gradient is too large by the number of batches.",
                        remedy="Divide the loss by the number of batches that make one step, before `backward()`.",
                    )
                    return


def _is_for_one(backward: Backward, step: OptimizerStep) -> bool:
    """A way that asks for the number: without `if every > 1: loss = loss / every`, each batch makes a step. Which round
    it is, `if i // every >= steps:`, says nothing of that."""
    numbers = [each for literal in step.condition.difference(backward.condition) for each in rounds_between(literal)]
    alone = (each for each in backward.condition if not each.atom.divergence & Divergence.BATCH_INDEX)
    asked = [each for each in alone if each.negated() not in step.condition]
    return any(asks_about(literal, number) for literal in asked for number in numbers)


def _divide(backward: Backward, step: OptimizerStep) -> Repair | None:
    """By the number that the test of the step asks about: `if (i + 1) % every == 0:`."""
    # The backward beside the step has a loss of its own.
    if backward.condition.excludes(step.condition):
        return None
    for literal in step.condition.difference(backward.condition):
        divisor = every_nth(literal)
        if divisor is not None:
            number = Holds(divisor, within=literal.atom.text)
            mean: Code = ("(", Source(backward.location, "receiver"), " / ", number, ")")
            return Repair("Divide the loss", (Replace(backward.location, mean, part="receiver"),))
    return None


def _sums_for(program: Program, backward: Backward, step: OptimizerStep) -> bool:
    optimizer = step.optimizer
    return (
        isinstance(optimizer, Optimizer)
        and not optimizer.managed
        and feeds(program, backward, optimizer)
        and steps_less_often(program, backward, step)
        and adds_up(program, backward, step, averaging_wrapper(program, backward))
        and not any(_looks_again(program, each) for each in _executions_of(program, backward))
        and not any(_gets_at(program, event, optimizer) for event in program.during(backward.loops[-1], Escape))
    )


def _executions_of(program: Program, backward: Backward) -> Iterator[Backward]:
    # A loop that is entered again, in a later round of the one around it, has but one round on paper.
    return (each for each in program.events(Backward) if each.location == backward.location)


def _looks_again(program: Program, backward: Backward) -> bool:
    """Each round computes another loss of one batch, as of parts of the model that train together: a sum is meant."""
    rounds = list(program.during(backward.loops[-1], Forward))
    return any(
        each.location == call.location
        and each.identity != call.identity
        and each.inputs == call.inputs
        and not each.condition.excludes(call.condition)
        for call in program.calls_in_graph(backward)
        if call.inputs and all(given.origin is TensorOrigin.BATCH for given in call.inputs)
        for each in rounds
    )


def _gets_at(program: Program, event: Escape, optimizer: Optimizer) -> bool:
    """Code that could not be read is handed the gradients, and may scale them."""
    held = frozenset().union(*(program.within(module) for module in optimizer.modules))
    return any(isinstance(v, Parameters) or v == optimizer or v.core in held for v in event.values)
