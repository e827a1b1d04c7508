"""`set_epoch` is called where it has no effect, or with a number that does not change.

## What goes wrong

A `DistributedSampler` draws the order of an epoch at the moment when a loop over its loader begins, from its seed and
the last number that `set_epoch` was given, and each rank (each process, one for each GPU) takes its shard of that
order. Called before the loop over the epochs, or each time with the same number, `set_epoch` changes nothing: all
epochs have the same order. Called inside the loop over the batches it comes too late for this epoch, and the first two
have the same order. Called on the sampler of the validation data, it leaves the training data as it was. Called with
different numbers on different ranks, the shards overlap. A loader has no such method:
`AttributeError: 'DataLoader' object has no attribute 'set_epoch'`.

## Fix

Call it as the first statement of the loop over the epochs, on the sampler of the training loader, with the number of
the epoch, the same one on all ranks.

## Silent when

Some call on the sampler comes in time with a number that changes, also one with an offset or one counted by hand; the
sampler does not shuffle; the data is read once; a framework is in charge; a handler takes the
`AttributeError` of a loader that is asked, and the program goes on.

## Sources

pytorch/pytorch#31771, yangkky/distributed_tutorial#5,
https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Finding, Severity
from gpudoctor.lint.domain.data import Loader, Sampler
from gpudoctor.lint.events.data_loading import Iterate, SetEpoch
from gpudoctor.lint.events.event_context import Loop, ranks_in_words
from gpudoctor.lint.flow.condition import MAYBE_BY_RANK, Divergence
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules.data._epochs import Repeated, repeated_samplers, told_instead


class SetEpochMisplaced(Rule):
    code = "GPU306"
    severity = Severity.WARNING
    errors = ("AttributeError: 'DataLoader' object has no attribute 'set_epoch'",)
    needs = (Iterate, SetEpoch)

    def in_code(self, program: Program) -> Findings:
        for event in program.events(SetEpoch):
            # The loaders that Accelerate prepares do have a `set_epoch`.
            if not isinstance(event.target, Loader) or program.is_caught(event, "AttributeError"):
                continue
            if not event.target.managed and not event.target.opaque:
                yield self._on_loader(event, event.target)
        for each in repeated_samplers(program):
            if each.told and (flaw := _flaw(each)):
                yield self._on_sampler(each.told[0], each, flaw)
            # Somebody thought of it, so the advice is to correct the call and not to add one.
            elif not each.told and (other := told_instead(program, each)):
                flaw = (
                    f"is called on the wrong sampler: `{each.way_to_say}` shuffles the training data, and is never told"
                )
                yield self._on_sampler(other, each, flaw)

    def in_run(self, recording: Recording) -> Findings:
        from gpudoctor_rules.data._seen import same_order_again, told_differently

        at = None
        for _, second in same_order_again(recording):
            if second.told and (at := second.told_at or second.place) is not None:
                yield self.found(
                    at,
                    "Two epochs had the same order although `set_epoch` was "
                    "called: it comes too late, or with the same number.",
                    remedy="Call it as the first statement of the loop over the epochs, with the number of the epoch.",
                    because=[("the order is drawn here", second.place)],
                )
        if at is None and (told := told_differently(recording)) is not None and told.told_at is not None:
            yield self.found(
                told.told_at,
                "The samplers of the ranks were told different epochs: the ranks "
                "shuffle differently, and their shards of the data overlap.",
                remedy="Call it on all ranks, with the same number.",
            )

    def could_show(self, recording: Recording) -> bool:
        from gpudoctor_rules.data._seen import shuffled_passes

        return any(len(shuffled_passes(rank)) > 1 for rank in recording.ranks)

    def _on_sampler(self, event: SetEpoch, each: Repeated, flaw: str) -> Finding:
        return self.found(
            at=event.location,
            message=f"`set_epoch` {flaw}.",
            remedy=f"Call {each.call} as the first statement of the loop over the epochs, with the epoch number, on "
            "all ranks.",
            because=[
                ("the sampler of the training data is made", each.sampler.place),
                ("the loop over the epochs", each.epochs.location),
                ("the order of an epoch is drawn here", each.training.start.location),
            ],
            doubt=each.doubt,
        )

    def _on_loader(self, event: SetEpoch, loader: Loader) -> Finding:
        return self.found(
            at=event.location,
            message=f"`{loader.label}` is a DataLoader and has no `set_epoch`: AttributeError on every rank.",
            remedy=f"Call `{loader.label}.sampler.set_epoch(epoch)`.",
            because=[("the loader is made", loader.place)],
        )


def _flaw(each: Repeated) -> str:
    """What is wrong with all calls on the sampler; empty where one of them is right."""
    # The call on the loader fails before it could come too late: one mistake, one finding.
    if any(isinstance(event.target, Loader) for event in each.told):
        return ""
    # First, because it corrupts the shares; the others only repeat an order.
    if any(value.divergence & MAYBE_BY_RANK is Divergence.RANK for event in each.told for value in event.epoch or ()):
        return "gets a different number on each rank, so their shards of the data overlap"
    # Loops over its own batches do not count here: a call in one is judged below.
    # An iterator may have been made before all epochs, and go on in them: `next(batches)`.
    loops = (*each.training.start.loops, *each.training.backward.loops)
    around = {loop.identity for loop in loops if not _over_its_batches(loop, each)}
    in_epoch = [event for event in each.told if any(loop.identity in around for loop in event.loops)]
    if not in_epoch:
        late = each.told[0].order > each.training.start.order
        return (
            f"is called once, {'after' if late else 'before'} the loop over the epochs: every epoch has the same order"
        )
    # The order is drawn when `iter(loader)` runs, so anything inside takes effect an epoch later.
    in_time = [event for event in in_epoch if not any(_over_its_batches(loop, each) for loop in event.loops)]
    if not in_time:
        return (
            "is called inside the loop over the batches, when the order of the epoch is drawn: it comes an epoch late"
        )
    # Two guards may be the two sides of one test: then every rank is told after all.
    guards = {frozenset(event.rank_guards) for event in in_time}
    # Ranks that have left before the training are another matter: those that train are all told.
    apart = guards != {frozenset(each.training.start.rank_guards)}
    if len(guards) == 1 and in_time[0].rank_guards and apart:
        return (
            f"runs on {ranks_in_words(in_time[0])}: the ranks shuffle differently, and their shards of the data overlap"
        )
    return "gets the same number in each epoch: every epoch has the same order" if _is_constant(each, in_time) else ""


def _over_its_batches(loop: Loop, each: Repeated) -> bool:
    """The loop goes over batches that the sampler picks. In one over other batches, its own order is still to come."""
    if loop.over is None:
        return False
    given = (*(loop.over.sampler or ()), *(loop.over.batch_sampler or ()))
    known = [value.base for value in given if isinstance(value, Sampler)]
    # Where a helper makes several loaders, all of them have one place.
    return each.sampler in known if known else loop.over.place == each.training.loader.place


def _is_constant(each: Repeated, calls: list[SetEpoch]) -> bool:
    # The body was followed twice; the call must have been seen in both to compare the numbers.
    rounds = {loop.pass_ for event in calls for loop in event.loops if loop.identity == each.epochs.identity}
    numbers = {value for event in calls for value in event.epoch or ()}
    if len(numbers) != 1:
        return False
    number = numbers.pop()
    if number.is_constant:
        # What is zero in the first round may be counted up in the next one.
        return len(rounds) > 1
    # A setting cannot change between epochs; any other unknown may.
    return number.config
