"""A collective is given tensors of other sizes on other ranks.

## What goes wrong

`scores[scores > 0.5]` holds as many numbers as the data of this rank (a process, one for each GPU) has above the bound,
and another rank has other data. `all_gather` puts what comes into tensors of the size that this rank has itself, and
`all_reduce` adds number to number. NCCL does not compare: it gathers shifted numbers, writes behind a tensor's end, or
waits until its watchdog ends the job (`Watchdog caught collective operation timeout: WorkNCCL(...)`). gloo ends the
process with `Received data size doesn't match expected size. Is there a distributed collective mismatch in your code?`.
Where the ranks happen to have as many, all goes well: mostly it is the last batch of an evaluation that does not.
Numbers of another dtype in as many bytes, as 4 of float64 for 8 of float32, stop nothing, and come as nonsense.

## Fix

No automatic fix. Gather the sizes first, pad to the largest one, and cut after the gathering; or
`dist.all_gather_object`, which takes whatever can be pickled; with Accelerate `accelerator.pad_across_processes`. Often
a sum and a count over what was picked are enough, and these are single numbers.

## Silent when

What is sent has a size of its own no more: it was padded, cut, or reduced to a number; the tensors to gather into were
made with other sizes than that of this rank; objects are gathered; it is the same data on all ranks. Which sizes a
loader or a `collate_fn` gives is not known.

## Sources

pytorch/pytorch#58005, https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.all_gather; run on two
CPU ranks with torch 2.13.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.events.acting_place import entered
from gpudoctor.lint.events.collective import Collective
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules._error_texts import MISMATCH, NCCL_TIMEOUT

REMEDY = "Gather the sizes first, pad to the largest one, and cut after it; or use `dist.all_gather_object`, or sums."


class SizesDifferBetweenRanks(Rule):
    code = "GPU518"
    severity = Severity.ERROR
    errors = (*MISMATCH[1:], *NCCL_TIMEOUT)
    stops = True
    shows_when = ("distributed", "ended_well")
    of_ranks = True
    needs = (Collective,)
    looks_at = ((Collective, "picked"),)

    def in_code(self, program: Program) -> Findings:
        # Alone, any size will do.
        right = [event for event in program.events(Collective) if event.picked is None]
        for event in program.events(Collective):
            if (picked := event.picked) is None or not program.by_every_rank(event):
                continue
            yield self.found(
                # A helper that gathers is right for whoever has as many numbers on each rank.
                at=entered(event, right),
                message=f"`{event.call}` is given as many numbers as the data of each rank has of them: where others "
                "have more or fewer, NCCL mixes the numbers up or waits forever, and gloo ends the process.",
                remedy=REMEDY,
                because=[("as many are taken here as the data says", picked.place)],
            )

    def in_run(self, recording: Recording) -> Findings:
        from gpudoctor_rules.collective._stuck import of_unlike_dtypes, of_unlike_sizes

        for place, message in of_unlike_sizes(recording):
            yield self.found(at=place, message=message, remedy=REMEDY)
        for place, message in of_unlike_dtypes(recording):
            yield self.found(at=place, message=message, remedy="Convert it on all ranks to one: `x.to(torch.float32)`.")
