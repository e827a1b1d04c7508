"""Predictions are gathered with the samples that Accelerate has repeated to fill the last batch.

## What goes wrong

A prepared loader gives each rank (each process, one for each GPU) as many batches as any other. Where the data set does
not divide evenly, samples of its beginning are repeated at its end. `accelerator.gather` returns them with all others:
of 9 samples, in batches of 2 on 2 GPUs, come 12 predictions, and the metric counts some samples twice. It changes with
the number of GPUs.

## Fix

Call `accelerator.gather_for_metrics`, which leaves out what was repeated. Safe: it returns the same in all batches but
the last.

## Silent when

The program truncates something to the length of a data set or a loader; the loader drops its last batch, or was not
prepared; no part of a batch is gathered, but a loss; training goes on in the loop; the `Accelerator` may have been told
to leave batches uneven. A run reports it only where lint suspects it, since nothing shows whether they are truncated
later.

## Sources

https://huggingface.co/docs/accelerate/package_reference/accelerator#accelerate.Accelerator.gather_for_metrics,
huggingface/accelerate#540.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Safety, Severity
from gpudoctor.lint.domain.data import Loader
from gpudoctor.lint.domain.group import ManagedObject
from gpudoctor.lint.domain.tensor import TensorOrigin
from gpudoctor.lint.events.collective import Collective
from gpudoctor.lint.events.data_loading import CutOff
from gpudoctor.lint.events.knowledge import UseManaged
from gpudoctor.lint.questions.loop_rounds import batch_loop, trains
from gpudoctor.lint.questions.names import in_code, name_of
from gpudoctor.lint.repair.repair import Repair, Replace, Source
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules.frameworks._charge import ACCELERATE, taken_in_charge


class GatherKeepsPadding(Rule):
    code = "GPU908"
    severity = Severity.WARNING
    fix_safety = Safety.SAFE
    of_ranks = True
    needs = (UseManaged,)

    def in_code(self, program: Program) -> Findings:
        # What is cut off may be what was repeated.
        if program.has(CutOff) or program.cut_short:
            return
        told: set[Loader] = set()
        for event in program.events(Collective):
            loop, owner = batch_loop(event), event.asked
            if loop is None or not event.gathers or event.effect.drops_padding or not isinstance(owner, ManagedObject):
                continue
            loader = loop.over
            if loader is None or loader.managed != ACCELERATE or loader in told:
                continue
            charge = taken_in_charge(program, owner)
            if trains(program, loop) or charge is None or loader.may_drop_last or _deals_otherwise(charge):
                continue
            # What a model made of a batch may be one number for all of it; of its parts there is one for each sample.
            parts = (each for each in event.given if each.batch_of == loader)
            sample = next((each for each in parts if each.origin is TensorOrigin.BATCH), None)
            if sample is None:
                continue
            told.add(loader)
            called = in_code(owner, "accelerator")
            better: tuple[Source | str, ...] = (Source(event.location, "receiver"), ".gather_for_metrics")
            yield self.found(
                event.location,
                f"`{called}.{event.call}` returns {name_of(sample, 'the samples')} with those that {name_of(loader)} "
                "repeats to fill its last batch: some are counted twice.",
                remedy=f"Call `{called}.gather_for_metrics`, which leaves out what was repeated.",
                because=[("the loop over its batches", loop.location), ("the loader is prepared", loader.place)],
                doubt="A data set that divides evenly needs nothing repeated.",
                repair=Repair("Call `gather_for_metrics`", (Replace(event.location, better, part="function"),)),
            )

    def in_run(self, recording: Recording) -> Findings:
        # Whether they are cut off later, a run does not see.
        if self.code not in recording.suspected:
            return
        for each in recording.ranks[0].padding if recording.ranks else ():
            if each.place is not None:
                yield self.found(
                    each.place,
                    "Of the last batch of all ranks "
                    f"{each.whole} sample{' was' if each.whole == 1 else 's were'} new, and `gather` returned those "
                    "with them that were repeated to fill it.",
                    remedy="Call `gather_for_metrics`, which leaves out what was repeated.",
                )


def _deals_otherwise(charge: UseManaged) -> bool:
    """It may leave the batches of ranks uneven."""
    names = ("even_batches", "dataloader_config.even_batches")
    told = [charge.told(name) for name in names if charge.setting(name) is not None]
    unknown = charge.setting("dataloader_config") is not None and charge.setting(names[1]) is None
    return charge.given.open_ended or unknown or any(each is not True for each in told)
