"""A validation result is shown that this rank computed from its own shard of the data alone.

## What goes wrong

With a `DistributedSampler` each rank (each process, one for each GPU) evaluates its own shard of the validation set.
What it counts up is the result of that shard. Unless the ranks put their counts together, the number that is printed,
logged or written to a file is not the accuracy of the model: on eight GPUs rank 0 speaks for an eighth of the data,
each rank shows a different number, and the number changes with the number of GPUs. No error is raised. The mean that
Lightning's `self.log(..., sync_dist=True)` takes is right for a loss; of what each rank has measured as F1 or recall it
is not the F1 of all data.

## Fix

Sum the counts over the ranks, on all ranks, before one of them shows the result: `dist.all_reduce(counts)`, then
divide. The sampler repeats a few samples so that all shards are equally long; where the last digit matters, evaluate
without a sampler on one rank. No automatic fix, since what has to be summed depends on the metric.

## Silent when

The result went through a collective, a metric library that synchronises, or code that could not be read; each rank
evaluates the whole set; the text, or the name of the file, says which rank speaks; the number is shown inside the loop
over the batches, as progress, or is what a model made of the last batch; it is a training loss. A run reports it where
lint does, since only the code tells what is shown, and is silent where the ranks put something together.

## Sources

pytorch/pytorch#25162, facebookresearch/deit#24, roboflow/rf-detr#1507.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Location, Severity
from gpudoctor.lint.domain.data import Loader
from gpudoctor.lint.domain.tensor import TensorOrigin
from gpudoctor.lint.events.acting_place import parting
from gpudoctor.lint.events.collective import Collective
from gpudoctor.lint.events.data_loading import Iterate
from gpudoctor.lint.events.model import Forward
from gpudoctor.lint.events.reporting import MetricShown, Scored
from gpudoctor.lint.events.training_step import Backward
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.questions.made_of import functions_behind, tensors_behind
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules.data._passes import trained_with

if TYPE_CHECKING:
    from gpudoctor.api.pack import Value
    from gpudoctor.run.recording import Pass

WITH_FRAMEWORK = {
    "accelerate": "Gather the results of all ranks with `accelerator.gather_for_metrics(...)` before dividing and "
    "showing them.",
    "lightning": "Give `self.log` `sync_dist=True`: it logs the mean of all ranks then. For what is not a mean, such "
    "as F1 or recall, log a metric of torchmetrics.",
    "fabric": "Take the mean over all ranks with `fabric.all_reduce(...)` before showing it. For what is not a mean, "
    "such as F1 or recall, compute a metric of torchmetrics.",
    "deepspeed": "Sum the counts over all ranks with `dist.all_reduce(counts)` before dividing and showing them.",
    "horovod": "Average the results of all ranks with `hvd.allreduce(...)` before showing them.",
    "ray": "Sum the counts over all ranks with `dist.all_reduce(counts)` before dividing and showing them.",
    "transformers": "Gather the results of all ranks with `trainer.accelerator.gather_for_metrics(...)` before "
    "dividing and showing them, or compute them in `compute_metrics`, which gets those of all ranks.",
}
"""Frameworks that shard loaders and leave it to the program to put results together, with what they offer for it."""

TAKE_WHAT_THERE_IS = frozenset(("lightning", "transformers"))
"""Frameworks that train on the GPUs that they find, which may be one."""


class MetricOfOneShard(Rule):
    code = "GPU312"
    severity = Severity.WARNING
    of_ranks = True
    needs = (Scored, MetricShown)

    def in_code(self, program: Program) -> Findings:
        # Most trainers reduce what they log; these leave that to the program.
        if not program.managed_by <= WITH_FRAMEWORK.keys():
            return
        # One process may be all that there is.
        if program.managed_by & TAKE_WHAT_THERE_IS and not program.launched_in_several:
            return
        yield from self._means_of_ratios(program)
        # Batches may be put together first, and learnt from elsewhere.
        learnt = {shard for backward in program.events(Backward) for shard in backward.loss.shards}
        trained = {*trained_with(program), *learnt}
        seen: set[Value] = set()
        over = _gone_over(program)
        for report in program.events(MetricShown):
            loader = _evaluated(report, trained, over)
            # "rank 3: 0.91" says whose number it is, and is no mistake.
            if loader is None or loader in seen or report.divergence & Divergence.RANK:
                continue
            if _is_input(report) or _is_of_last_batch(report):
                continue
            seen.add(loader)
            # Guarded by rank 0 it looks like one result for all, which is harder to notice.
            shown = "every rank gets a different value" if not report.rank_guards else "it stands for one shard only"
            evaluated = program.iterations_of(loader)[:1]
            yield self.found(
                # A `print` for rank 0 that everybody uses is right: what it is given here is not.
                at=parting(report, evaluated[0]) if evaluated else report.location,
                message=f"{_name_of(report.value, loader)} comes from this rank's own shard of `{loader.label}` and is "
                f"never reduced over the ranks: {shown}.",
                remedy=_remedy(program, loader, evaluated),
                because=[
                    ("each rank reads its own shard of this loader", loader.place),
                    *(("and evaluates it here", each.location) for each in evaluated),
                ],
                needs=loader.shared_by_sampler or (),
            )

    def _means_of_ratios(self, program: Program) -> Findings:
        """What each rank has measured of its own shard is averaged: that is no measure of all of them."""
        measured = {each.location: each.call for each in program.events(Scored)}
        if not measured or any(each.effect.gathers for each in program.events(Collective)):
            return
        for event in program.events(Collective):
            if event.asked is None or not event.effect.adds_up:
                continue
            values = list(event.subject or ())
            tensors = (measured.get(part.place) for each in values for part in tensors_behind(each))
            # Of lists of numbers it makes a number.
            numbers = (name for each in values for name in functions_behind(each) if name in measured.values())
            for name in sorted({*filter(None, tensors), *numbers}):
                yield self.found(
                    event.location,
                    f"Each rank computes `{name.rpartition('.')[2]}` of its own shard, and what is shown is the mean "
                    "of these, which is not that of all data.",
                    remedy="Log a metric of torchmetrics, which puts the counts of all ranks together, or gather the "
                    "predictions of all ranks first.",
                )

    def in_run(self, recording: Recording) -> Findings:
        from gpudoctor_rules.data._seen import drawn_of

        # What is shown of it stands in the code; that nothing was put together before, in the run.
        if self.code not in recording.suspected:
            return
        shares = _shares_kept(recording)
        if shares and (at := shares[0].place):
            yield self.found(
                at,
                f"Rank 0 evaluated {drawn_of(shares[0])} here, and nothing is reduced over the ranks afterwards: "
                "what is shown is the result of one shard.",
                remedy="Sum the counts over all ranks with `dist.all_reduce(counts)` before dividing and showing them.",
                because=[("each rank reads its own shard of this loader", shares[0].made)],
            )

    def could_show(self, recording: Recording) -> bool:
        return _shares_kept(recording) is not None


def _remedy(program: Program, loader: Loader, evaluated: Sequence[Iterate]) -> str:
    # Gathering also drops the samples that were repeated to make shares equal.
    by_hand = "Sum the counts over all ranks with `dist.all_reduce(counts)` before dividing and showing them."
    if not evaluated or not evaluated[0].rank_guards:
        owner = loader.managed
        # The loaders of a `Trainer` are prepared by the `Accelerator` that it holds.
        if owner and "transformers" in program.managed_by:
            owner = "transformers"
        # What leaves the loop to the program is no `Trainer`.
        elif owner == "lightning" and any(each.one_by_one for each in program.in_charge):
            owner = "fabric"
        return WITH_FRAMEWORK.get(owner, by_hand)
    # A collective there would wait for the ranks that evaluate nothing.
    alone = "Only some ranks evaluate: make this loader without the sampler, so that they read all of the data"
    return f"{alone}, or let every rank evaluate its shard, and sum the counts before dividing and showing them."


def _shares_kept(recording: Recording) -> list[Pass] | None:
    from gpudoctor_rules.data._seen import shares_kept

    return shares_kept(recording, recording.ranks[0].evaluations if recording.ranks else ())


def _gone_over(program: Program) -> dict[Hashable, set[Value]]:
    """The loaders whose batches a loop takes: `for batch in loader`, or `next(batches)` in it."""
    # `for batch in loader`, of one of two loaders: both are gone over there.
    over: dict[Hashable, set[Value]] = {}
    around: dict[Value, set[Hashable]] = {}
    for each in program.events(Iterate):
        if each.loop is not None:
            over.setdefault(each.loop.identity, set()).add(each.loader)
        else:
            around.setdefault(each.loader, set()).update(loop.identity for loop in each.loops)
    # Of a pass that has begun in front of the loop the model gets the batches.
    for forward in program.events(Forward) if around else ():
        inmost = forward.loops[-1].identity if forward.loops else None
        for loader in {shard for tensor in forward.inputs for shard in tensor.shards}:
            if inmost is not None and inmost not in around.get(loader, {inmost}):
                over.setdefault(inmost, set()).add(loader)
    return over


def _evaluated(report: MetricShown, trained: Container[Value], over: Mapping[Hashable, set[Value]]) -> Loader | None:
    """The loader that is evaluated, in shards, for what is shown after the loop over its batches."""
    # Inside the loop it is progress, which nobody takes for the result.
    inside = [over.get(loop.identity, ()) for loop in report.loops] if not report.averaged else []
    loaders = [each for each in report.shards if isinstance(each, Loader)]
    # Training losses of one rank are shown everywhere, and mean what they say.
    evaluated = [each for each in loaders if each not in trained and not any(each in around for around in inside)]
    # Several loaders may be in one number: the first in the source, so that runs agree.
    return min(evaluated, key=lambda each: each.place, default=None)


def _is_input(report: MetricShown) -> bool:
    """A batch itself is shown, or what a model made of the last one: nothing that was counted up."""
    # Examples and images are logged from one share on purpose. What a framework averages is a number.
    shown = [each for each in report.value.in_text if each.shards]
    return bool(shown) and all(
        each.origin is TensorOrigin.BATCH or (each.origin is TensorOrigin.OUTPUT and each.part and not report.averaged)
        for each in shown
    )


def _is_of_last_batch(report: MetricShown) -> bool:
    """The output of one forward is reduced only as it is shown: nothing was counted up, or compared with a target."""
    shown = tensors_behind(report.value)
    # What a framework is given in each step it averages itself.
    if report.averaged or not shown:
        return False
    return all(len(each.forwards) == 1 and _within(each.place, report.location) for each in shown)


def _within(place: Location, outer: Location) -> bool:
    begin, end = (outer.line, outer.column), (outer.end_line, outer.end_column)
    return place.path == outer.path and begin <= (place.line, place.column) < end


def _name_of(value: Value, loader: Loader) -> str:
    known = (part for part in value.in_text if loader in part.shards)
    label = next((part.label for part in known if part.label), "")
    return f"`{label}`" if label else "What is shown here"
