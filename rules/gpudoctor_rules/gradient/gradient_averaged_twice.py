"""Gradients that DistributedDataParallel has averaged are divided or reduced again.

## What goes wrong

In `backward()`, `DistributedDataParallel` replaces the gradients of each rank (each process, one for each GPU) by their
mean over all ranks. Code that was written before often does so too. A loss that is divided by the world size makes
every gradient too small by that factor, so that eight GPUs train with an eighth of the learning rate. An `all_reduce`
of the gradients after `backward()` reduces them a second time: with a division that is wasted, without one they are too
large by a factor of the number of ranks. No error is raised.

## Fix

Leave the averaging to DDP: remove the division of the loss, or the loop over the gradients. For a number in the log,
reduce another tensor: `dist.all_reduce(loss.detach().clone())`. No automatic fix, because the learning rate may make up
for it.

## Silent when

The loss is multiplied by the world size, which undoes the average on purpose; it was computed from what all ranks have
gathered, or multiplied and divided by it; the program decides itself in which steps DDP reduces; the model is not
wrapped, or the reduced gradients are those of another one.

## Sources

https://docs.pytorch.org/docs/stable/notes/ddp.html, kubeflow/training-operator#122, neuralmagic/sparseml#135.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Finding, Location, Severity
from gpudoctor.lint.domain.module import Wrapper
from gpudoctor.lint.events.acting_place import parting
from gpudoctor.lint.events.collective import Collective
from gpudoctor.lint.events.training_step import Backward, GradientSync
from gpudoctor.lint.questions.loop_rounds import same_round, within_round
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules.gradient._steps import averaging_wrapper

_NEARLY = 1e-6


class GradientAveragedTwice(Rule):
    code = "GPU706"
    severity = Severity.WARNING
    shows_when = ("distributed", "ranks.losses")
    of_ranks = True
    needs = (Backward,)
    looks_at = ((Backward, "loss.divided"), (Collective, "of_gradients"))

    def in_code(self, program: Program) -> Findings:
        # Who says when DDP reduces may well do it himself in between.
        if program.has(GradientSync):
            return
        told: set[Location] = set()
        for backward in program.events(Backward):
            wrapper = averaging_wrapper(program, backward)
            if wrapper is None or backward.location in told:
                continue
            for found in (self._divided(program, backward, wrapper), self._reduced(program, backward, wrapper)):
                if found is not None:
                    told.add(backward.location)
                    yield found

    def in_run(self, recording: Recording) -> Findings:
        if not recording.distributed:
            return
        again = recording.ranks[0].averaged_again
        at = again[0].place if again else None
        if at is not None:
            first = [each for each in again if each.step == again[0].step]
            yield self.found(
                at,
                f"In step {first[0].step + 1}, {len(first)} gradients were reduced here that the wrapper had "
                "averaged over the ranks in `backward()`.",
                remedy="Remove the loop over the gradients.",
                because=[("the model is wrapped here", wrap.place) for wrap in recording.ranks[0].wraps[:1]],
            )
            return
        yield from self._divided_in_run(recording)

    def _divided_in_run(self, recording: Recording) -> Findings:
        # A run does not tell the number of ranks from another one that is as large.
        if self.code not in recording.suspected:
            return
        rank, world = recording.ranks[0], len(recording.ranks)
        averaged = [step for step in rank.steps if step.counts.get("synced backwards") == 1]
        once = len(averaged) * 2 > len(rank.steps)
        for loss in rank.losses:
            divided = all(abs(scale * world - 1) < _NEARLY for scale in loss.scales)
            if divided and rank.wraps and once and loss.place is not None:
                yield self.found(
                    loss.place,
                    f"The loss was divided by {world} before its backward, and the wrapper divided the sum of the "
                    "gradients over the ranks by it as well: they are too small by that factor.",
                    remedy="Leave the division out of the loss that is backpropagated.",
                    because=[("the model is wrapped here", wrap.place) for wrap in rank.wraps[:1]],
                )
                return

    def _divided(self, program: Program, backward: Backward, wrapper: Wrapper) -> Finding | None:
        """The loss is divided by the number of processes."""
        loss = backward.loss
        # A sum over all ranks' samples, or a loss of gathered features, has to be divided.
        if loss.divided is None or _gathers(program, backward):
            return None
        return self.found(
            backward.location,
            f"The loss is divided by the world size, and `{wrapper.label}` (DistributedDataParallel) averages the "
            "gradients over the ranks as well: they are too small by that factor.",
            remedy="Leave the division out of the loss that is backpropagated.",
            because=[("divided here", loss.place), ("the model is wrapped here", wrapper.place)],
        )

    def _reduced(self, program: Program, backward: Backward, wrapper: Wrapper) -> Finding | None:
        """The gradients are reduced by hand after the backward that reduces them."""
        parts = program.within(wrapper)
        for event in program.events(Collective):
            # The smallest and the largest gradient are asked for to compare them, or to log them.
            if event.order < backward.order or not event.adds_up or not event.of_all_ranks:
                continue
            again = not parts.isdisjoint(event.of_gradients)
            if again and within_round(event, backward) and not event.condition.excludes(backward.condition):
                # What averages for models without a wrapper is not wrong, but to call it here.
                place = parting(event, backward)
                return self.found(
                    place,
                    f"`{wrapper.label}` (DistributedDataParallel) has averaged these gradients over the ranks in "
                    f"`backward()`; this `{event.call}` reduces them again.",
                    remedy="Remove the loop over the gradients." if place == event.location else "Remove this call.",
                    because=[
                        ("averaged here", backward.location),
                        ("and here again", event.location),
                        ("the model is wrapped here", wrapper.place),
                    ],
                )
        return None


def _gathers(program: Program, backward: Backward) -> bool:
    """Something was gathered from all ranks in the same iteration, before the backward."""
    return any(
        (event.gathers or event.hands_on)
        and not event.objects
        and event.order < backward.order
        and same_round(event, backward)
        for event in program.events(Collective)
    )
