"""A loader whose first batches were skipped to resume an epoch is used in all epochs that follow.

## What goes wrong

`accelerator.skip_first_batches(loader, n)` returns a loader that leaves out its first n batches in each pass, and not
only in the one that is resumed. Where the program continues with that loader, the first n batches of every later epoch
are left out too, on every rank (each process, one for each GPU): they are shuffled anew, so it is other samples each
time, but each epoch is that much shorter, and a schedule that counts its steps never comes to its end. No error is
raised.

## Fix

Keep both loaders: `batches = skipped if epoch == first_epoch else loader`. Which epoch is the resumed one, only the
program knows.

## Silent when

The loader is skipped inside the loop over epochs, where a test may keep the others whole; there is one pass over it;
another loader takes its place on some path.

## Sources

https://huggingface.co/docs/accelerate/usage_guides/checkpoint, huggingface/accelerate#1451.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.domain.data import Loader
from gpudoctor.lint.events.data_loading import Iterate, SkipBatches
from gpudoctor.lint.events.event_context import Loop
from gpudoctor.lint.questions.names import name_of
from gpudoctor.rule import Findings, Program, Recording, Rule


class SkippedBatchesKept(Rule):
    code = "GPU915"
    severity = Severity.WARNING
    shows_when = ("ranks.training_passes.skipped",)
    needs = (SkipBatches,)

    def in_code(self, program: Program) -> Findings:
        told: set[Loader] = set()
        for skip in program.events(SkipBatches):
            epochs = _epochs(program, skip)
            if epochs is None or skip.loader in told:
                continue
            told.add(skip.loader)
            passes, loop = epochs
            yield self.found(
                passes.location,
                f"{name_of(skip.loader, 'this loader')} leaves out its first batches in every epoch, and not only in "
                "the one that is resumed.",
                remedy="Iterate over the skipped loader in the resumed epoch, and over the whole one in all others.",
                because=[("the batches are skipped here", skip.location), ("the loop over epochs", loop.location)],
            )

    def in_run(self, recording: Recording) -> Findings:
        for rank in recording.ranks[:1]:
            again: dict[int, int] = {}
            for each in rank.training_passes:
                again[each.loader] = again.get(each.loader, 0) + 1
                if each.skipped and again[each.loader] == 2 and each.place is not None:
                    yield self.found(
                        each.place,
                        f"The second epoch over this loader left out its first {each.skipped} "
                        f"batch{'' if each.skipped == 1 else 'es'}, too.",
                        remedy="Iterate over the skipped loader in the resumed epoch, and over the whole one in all "
                        "others.",
                        because=[("it is made here", each.made)],
                    )


def _epochs(program: Program, skip: SkipBatches) -> tuple[Iterate, Loop] | None:
    """A pass over the skipped loader, and a loop that was not open when it was made, whose rounds all go over it."""
    around = {loop.identity for loop in skip.loops}
    passes = program.iterations_of(skip.loader)
    for each in passes:
        outside = [loop for loop in each.loops if each.loop is None or loop.identity != each.loop.identity]
        for loop in outside:
            later = loop.pass_ > 0 and loop.repeats and loop.identity not in around
            # On all ways: where another one may take its place, a test says when.
            if later and not each.condition.difference(skip.condition):
                return each, loop
    return None
