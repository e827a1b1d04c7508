"""What one rank summed over its shard of the data is divided by the size of all of it.

## What goes wrong

With a `DistributedSampler` each rank (each process, one for each GPU) sees only its shard of the data set, but
`len(loader.dataset)` is the size of all of it. A loss or a count that a rank has summed over its shard and divides by
that number is too small by the number of ranks: with 8 GPUs an accuracy of 80 % is shown as 10 %, and a loss of 2.4 as
0.3. No error is raised, and the curves look as if more GPUs trained better.

## Fix

Divide by `len(sampler)` for the mean of this rank; or sum both over the ranks with `dist.all_reduce` and divide then.
No automatic fix.

## Silent when

The sum was reduced over the ranks, or may be later: there is a collective after the division; the loader is not sharded
by a distributed sampler; the loader is only evaluated (that is GPU312); the result is not shown. A run reports it where
lint does, since only the code tells what is divided, and is silent where the ranks put something together.

## Sources

ray-project/ray#30771; https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.events.collective import Collective
from gpudoctor.lint.events.reporting import Averaged, MetricShown
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules.data._passes import samplers_of, trained_with

if TYPE_CHECKING:
    from gpudoctor.api.pack import Loader
    from gpudoctor.run.recording import Pass


class AverageOverWholeDataset(Rule):
    code = "GPU317"
    severity = Severity.WARNING
    of_ranks = True
    needs = (Averaged,)

    def in_code(self, program: Program) -> Findings:
        if not program.presence() or program.cut_short:
            return
        trained = trained_with(program)
        # What is divided by the whole and then summed over the ranks is right.
        later = max((each.order for each in program.events(Collective) if each.adds_up or each.gathers), default=-1)
        for event in program.events(Averaged):
            loader = next((each for each in trained if each in event.shards and _is_of(each, event)), None)
            if loader is None or later > event.order or not _is_shown(program, event, loader):
                continue
            samplers = samplers_of(loader, event.condition) or []
            if len(samplers) != 1 or not samplers[0].shares or any(loop.over == loader for loop in event.loops):
                continue
            yield self.found(
                event.location,
                f"This rank's sum over its own shard of `{loader.label}` is divided by the number of samples in all "
                "shards: the result is too small by the number of ranks.",
                remedy=f"Divide by `len({samplers[0].label})`, or sum over all ranks with `dist.all_reduce` first.",
                because=[
                    ("each rank gets a shard of the data from this sampler", samplers[0].place),
                    ("this loop iterates over the shard", trained[loader].start.location),
                ],
            )

    def in_run(self, recording: Recording) -> Findings:
        from gpudoctor_rules.data._seen import drawn_of

        # The division stands in the code; what was summed, and that it is all that there is, in the run.
        if self.code not in recording.suspected:
            return
        shares = _shares_kept(recording)
        if shares and (at := shares[0].place):
            yield self.found(
                at,
                f"Rank 0 went through {drawn_of(shares[0])} here, and the ranks summed nothing up: "
                f"divided by the number of all samples, the result is {len(recording.ranks)} times too small.",
                remedy="Divide by `len(sampler)`, or sum over all ranks with `dist.all_reduce` first.",
                because=[("each rank gets a shard of the data from this loader", shares[0].made)],
            )

    def could_show(self, recording: Recording) -> bool:
        return _shares_kept(recording) is not None


def _shares_kept(recording: Recording) -> list[Pass] | None:
    from gpudoctor_rules.data._seen import shares_kept

    return shares_kept(recording, recording.ranks[0].training_passes if recording.ranks else ())


def _is_of(loader: Loader, event: Averaged) -> bool:
    return loader.dataset is not None and loader.dataset.single == event.dataset


def _is_shown(program: Program, event: Averaged, loader: Loader) -> bool:
    """Somebody looks at numbers of this shard from there on, or already in the same line."""
    return any(loader in each.shards and each.order > event.order for each in program.events(MetricShown))
