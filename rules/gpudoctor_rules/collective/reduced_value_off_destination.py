"""The result of `reduce` is used on ranks that never get it.

## What goes wrong

`dist.reduce(x, dst=0)` puts the sum into the tensor of rank 0 only. A rank is one process, one for each GPU. On the
others the tensor holds what it held before, or a part of the sum on its way: no error is raised, and each rank
continues with a different value. What is printed is wrong on all ranks but one, and decisions that follow from it
differ between ranks: `ReduceLROnPlateau.step(x)` lowers the learning rate on some of them.

## Fix

Show it on that rank only, or, as a scheduler needs it, give the sum to all ranks with `dist.all_reduce(x)`. No
automatic fix: the second costs twice the traffic, and only the author knows who needs the number.

## Silent when

Only some ranks get there; the text says which rank speaks; the result was broadcast since; it goes to a logger or a
progress bar, which may be muted on the other ranks.

## Sources

sanderwood/bgpt#5, https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.reduce; run on two CPU ranks
with torch 2.13.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Location, Severity
from gpudoctor.lint.domain.tensor import Mark, MarkKind
from gpudoctor.lint.events.acting_place import parting
from gpudoctor.lint.events.reporting import MetricShown
from gpudoctor.lint.events.training_step import SchedulerStep
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.rule import Findings, Program, Recording, Rule

if TYPE_CHECKING:
    from gpudoctor_rules.collective._numbers import SummedNumber


ON_ONE = "Show it on that rank only, or let"


class ReducedValueOffDestination(Rule):
    code = "GPU505"
    severity = Severity.WARNING
    of_ranks = True
    needs = (MetricShown, SchedulerStep)
    looks_at = ((MetricShown, "shards"), (SchedulerStep, "shards"))

    def in_code(self, program: Program) -> Findings:
        # Alone, rank 0 is the only one, and has the sum.
        told: set[Location] = set()
        for use in program.events(MetricShown, SchedulerStep):
            mark = _on_one_rank(use)
            # Under a test on the rank it is mostly the right one that uses it.
            if mark is None or _is_for_one(use) or not program.by_every_rank(use) or mark.place in told:
                continue
            told.add(mark.place)
            reduced = [each for each in program.at(mark.place) if each.order < use.order]
            shown = isinstance(use, MetricShown)
            does, they, used = ("shows", "show", "shown") if shown else ("sets its learning rate by", "go by", "used")
            yield self.found(
                # What shows everything is not what must change.
                at=parting(use, reduced[-1]) if reduced else use.location,
                message=f"Every rank {does} this, but `reduce` gave the sum to {_destination(mark)} alone: the others "
                f"{they} what their tensor held before, or a part of the sum.",
                remedy=f"{ON_ONE if shown else 'Let'} `dist.all_reduce` give the sum to all ranks.",
                # The reduction may stand in a helper, far from where the number is used.
                because=[("it is reduced here", mark.place), (f"and {used} here", use.location)],
            )

    def in_run(self, recording: Recording) -> Findings:
        from gpudoctor_rules.collective._numbers import added_up, answers, of_one_round, told

        # A rank that says whose number it shows may show its own.
        if self.code not in recording.suspected:
            return
        for line in added_up(recording):
            shown = of_one_round([each for each in answers(recording, line) if _is_on_one(each)], len(recording.ranks))
            at = shown[0].read.place if shown else None
            if at is not None and len({each.result.value for each in shown}) > 1:
                yield self.found(
                    at,
                    f"After step {shown[0].result.step} this was {told(shown)}: `reduce` gave the sum to rank "
                    f"{shown[0].sum.dst} alone.",
                    remedy=f"{ON_ONE} `dist.all_reduce` give the sum to all ranks.",
                    because=[("it is reduced here", line)],
                )

    def could_show(self, recording: Recording) -> bool:
        from gpudoctor_rules.collective._numbers import added_up, answers

        return any(_is_on_one(each) for line in added_up(recording) for each in answers(recording, line))


def _is_on_one(answer: SummedNumber) -> bool:
    return answer.sum.call == "reduce" and answer.sum.dst is not None and answer.result.relation in ("result", "mean")


def _is_for_one(use: MetricShown | SchedulerStep) -> bool:
    # "rank 3: 0.91" says whose number it is, and loggers are often mute on the other ranks.
    return isinstance(use, MetricShown) and (use.how != "print" or bool(use.divergence & Divergence.RANK))


def _on_one_rank(use: MetricShown | SchedulerStep) -> Mark | None:
    # Several may be in one number: the first in the source, so that runs agree.
    marks = (mark for mark in use.shards if isinstance(mark, Mark) and mark.kind is MarkKind.ON_ONE_RANK)
    return min(marks, key=lambda mark: mark.place, default=None)


def _destination(mark: Mark) -> str:
    # Left out, torch asks for the rank by another name.
    only = mark.rank.single if mark.rank is not None else None
    return f"rank {only.in_python}" if only is not None and isinstance(only.in_python, int) else "one rank"
