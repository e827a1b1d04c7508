"""The state of a ZeRO optimizer is saved without being consolidated first.

## What goes wrong

`ZeroRedundancyOptimizer` spreads the optimizer's state over the ranks (the processes, one for each GPU): each holds
that of its own shard of the parameters. `state_dict()` answers only where `consolidate_state_dict()` has collected the
parts: `RuntimeError: Optimizer state has not been consolidated on this rank. Please call consolidate_state_dict(to=0)
on all ranks beforehand`. It comes at the end of the first epoch, when the first checkpoint is due.

## Fix

`optimizer.consolidate_state_dict(to=0)` on all ranks, in front of the test on the rank. Unsafe: put inside of the test
it would wait for the other ranks forever.

## Silent when

`consolidate_state_dict` is called anywhere before, on some path; the optimizer is given to code that could not be read;
the file is read as a library, whose callers may do it.

## Sources

zhijian-liu/torchpack#18, pytorch/ignite#2623, pytorch/pytorch#60285,
https://docs.pytorch.org/docs/stable/distributed.optim.html; run on two CPU ranks with torch 2.13.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.diagnostic import Location, Safety, Severity
from gpudoctor.lint.events.acting_place import under_the_test
from gpudoctor.lint.events.files import ShardedState
from gpudoctor.lint.events.training_step import MakeOptimizer
from gpudoctor.lint.questions.names import name_of
from gpudoctor.lint.repair.repair import Before, Code, Holds, Repair
from gpudoctor.rule import CrashText, Findings, Program, Rule


class ZeroStateNotConsolidated(Rule):
    code = "GPU606"
    severity = Severity.ERROR
    errors = ("RuntimeError: Optimizer state has not been consolidated on this rank.",)
    fix_safety = Safety.UNSAFE
    shows_when = ("ended_well",)
    of_ranks = True
    needs = (ShardedState,)
    crash = CrashText(
        "has not been consolidated on this rank",
        remedy="Call `optimizer.consolidate_state_dict(to=0)` on all ranks before rank 0 saves.",
    )

    def in_code(self, program: Program) -> Findings:
        if not program.whole:
            return
        for event in program.events(ShardedState):
            # Code that was not read may have brought the parts together.
            place = under_the_test(event, event.rank_guards)
            if event.gathers or event.owner in program.escaped:
                continue
            # On whichever path, it shows that the author knows of it.
            if _consolidated(program, event):
                continue
            # That it is such an optimizer is decided elsewhere, mostly by a setting.
            made = (each.location for each in program.events(MakeOptimizer) if each.optimizer == event.owner)
            yield self.found(
                at=place,
                message=f"{name_of(event.owner, 'the optimizer')} shards its state over the ranks, and nothing has "
                "consolidated it: `state_dict()` ends with `has not been consolidated on this rank`.",
                remedy="Call `consolidate_state_dict(to=0)` on all ranks first, before the test on the rank.",
                because=[("the optimizer is made here", next(made, None)), ("and here it happens", event.location)],
                repair=_consolidate(event, place),
            )


def _consolidate(event: ShardedState, at: Location) -> Repair | None:
    line: Code = (Holds(event.owner), ".consolidate_state_dict(to=0)")
    # Inside of a test on the rank it would wait for the others forever.
    alone = bool(event.rank_guards)
    return Repair("Consolidate the state first", (Before(at, (line,), outside=alone),))


def _consolidated(program: Program, event: ShardedState) -> bool:
    return any(each.gathers and each.owner == event.owner and each.order < event.order for each in _states(program))


def _states(program: Program) -> Iterator[ShardedState]:
    return program.events(ShardedState)
