"""A loop goes through one sharded loader twice at a time, and pairs each batch with itself.

## What goes wrong

`zip(loader, loader)` is meant to pair each batch with another one, as for mixup or CutMix. In one process it does: the
loader draws an order for each of its two iterators. A `DistributedSampler` computes the order from its seed and the
epoch, and gives both iterators the same one: on every rank (each process, one for each GPU) each sample meets itself.
No error is raised. What is mixed is one sample, and what is told apart is the same thing.

## Fix

Make a second loader with a sampler of its own, and tell it another epoch: `mixed_sampler.set_epoch(epoch + epochs)`. No
automatic fix, since the second loader needs workers of its own.

## Silent when

The sampler is not torch's `DistributedSampler`, or does not shuffle; the loop trains nothing; the two are loaders of
their own, or may be; a framework is in charge of the data.

## Sources

LiheYoung/UniMatch (its medical scenario has a second loader, for the same loop),
https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler; run on two CPU ranks
with torch 2.13.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.domain.data import Sampler
from gpudoctor.lint.events.data_loading import Iterate
from gpudoctor.lint.questions.loop_bounds import pairs_with_itself
from gpudoctor.rule import Findings, Program, Rule
from gpudoctor_rules.data._passes import samplers_of, training_passes


class LoaderPairedWithItself(Rule):
    code = "GPU323"
    severity = Severity.WARNING
    of_ranks = True
    needs = (Iterate,)

    def in_code(self, program: Program) -> Findings:
        if not program.presence():
            return
        paired = _paired(program)
        learnt_from = {each.start for each in training_passes(program)} if paired else set()
        for first in paired:
            sampler = _of_seed_and_epoch(first)
            if sampler is None or first not in learnt_from:
                continue
            name = first.loader.label or "the loader"
            yield self.found(
                first.location,
                f"This pairs `{name}` with itself, and its `DistributedSampler` gives both iterators one order, that "
                "of the epoch: on every rank each batch meets itself.",
                remedy="Make a second loader with a sampler of its own, and tell that another epoch.",
                because=[("the order comes from this sampler", sampler.place), ("the loader", first.loader.place)],
            )


def _paired(program: Program) -> list[Iterate]:
    """The loops that go over what zips a loader with itself, each once."""
    found: dict[object, Iterate] = {}
    for event in program.events(Iterate):
        if event.loop is not None and pairs_with_itself(event.loop, event.loader):
            found.setdefault(event.location, event)
    return list(found.values())


def _of_seed_and_epoch(event: Iterate) -> Sampler | None:
    """The sampler that computes the order of an epoch, where that is all that picks the samples."""
    samplers = samplers_of(event.loader, event.condition)
    only = samplers[0] if samplers is not None and len(samplers) == 1 else None
    if only is None or not only.distributed or only.own is not None or event.loader.managed or event.loader.sharded:
        return None
    fixed = only.shuffle is not None and only.shuffle.any(lambda value: value.in_python is False)
    return None if fixed else only
