"""A loss is added up over the ranks and shown as if it were the mean.

## What goes wrong

`all_reduce` adds, unless it is told otherwise. A loss is the mean over the batch of one rank (one process, one for each
GPU), so that after `dist.all_reduce(loss)` it is too large by a factor of the number of ranks. The curve has the right
shape and the wrong height: runs on different numbers of GPUs cannot be compared, and a threshold such as `loss < 0.1`
means something else on each machine.

## Fix

Divide by `dist.get_world_size()` after the reduction, or let NCCL do it: `op=dist.ReduceOp.AVG`. No automatic fix.

## Silent when

It is divided or multiplied by anything before it is shown, but for the number of batches; the operation is not the sum;
the group has one rank;
what is reduced is a count, a sum over the batch (`reduction="sum"`), or anything that is not certainly a mean.

## Sources

sanderwood/bgpt#5, ultralytics/ultralytics#18616,
https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.ReduceOp; run on two CPU ranks with torch 2.13.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.domain.tensor import Mark, MarkKind
from gpudoctor.lint.events.reporting import MetricShown
from gpudoctor.lint.questions.names import name_of
from gpudoctor.rule import Findings, Program, Recording, Rule


class SumTakenForMean(Rule):
    code = "GPU506"
    severity = Severity.WARNING
    of_ranks = True
    needs = (MetricShown,)

    def in_code(self, program: Program) -> Findings:
        # The sum of one rank is its own mean.
        for report in program.events(MetricShown):
            for mark in sorted(_sums(report), key=lambda each: each.place):
                yield self.found(
                    # There the remedy belongs, and not where the number is shown.
                    at=mark.place,
                    message=f"{name_of(mark, 'this')} is the mean of this rank's batch. Added up over the ranks and "
                    "never divided, it is shown too large by a factor of the number of ranks.",
                    remedy="Divide by `dist.get_world_size()` afterwards, or reduce with `op=dist.ReduceOp.AVG`.",
                    because=[("it is shown here", report.location)],
                )

    def in_run(self, recording: Recording) -> Findings:
        from gpudoctor_rules.collective._numbers import added_up, answers

        # That the number was a mean, and not a count, is told by the code.
        if self.code not in recording.suspected:
            return
        for line in added_up(recording):
            # In a group of one rank nothing is added.
            sums = (each for each in answers(recording, line) if each.sum.op == "SUM")
            shown = [each for each in sums if each.sum.after != each.sum.before]
            whole = [each for each in shown if each.result.relation == "result"]
            # Divided anywhere, the sum itself is only on its way.
            if whole and not any(each.result.relation == "mean" for each in shown):
                first = whole[0]
                yield self.found(
                    line,
                    f"Rank {first.rank.rank} had {first.sum.before:.4g} here after step {first.sum.step}, and what it "
                    f"shows is the sum over {len(recording.ranks)} ranks, {first.result.value:.4g}.",
                    remedy="Divide by `dist.get_world_size()` afterwards, or reduce with `op=dist.ReduceOp.AVG`.",
                    because=[("it is shown here", first.read.place)],
                )

    def could_show(self, recording: Recording) -> bool:
        from gpudoctor_rules.collective._numbers import added_up, answers

        return any(answers(recording, line) for line in added_up(recording))


def _sums(report: MetricShown) -> list[Mark]:
    # What was divided or multiplied on the way carries no such mark any more.
    return [mark for mark in report.shards if isinstance(mark, Mark) and mark.kind is MarkKind.SUM]
