"""A barrier makes all ranks wait for the slowest one in every step.

## What goes wrong

All ranks (the processes, one for each GPU) stop at `dist.barrier()` until the last one has come. With NCCL it is an
`all_reduce` behind everything that is queued on the GPU, and Python waits for it: the GPU runs dry while the next
step is prepared, and every hiccup of one rank's data loading is paid by all. Nothing is gained: `backward()` of DDP
and collectives such as `all_reduce` match the ranks up themselves. Each barrier is also one more place at which the
job hangs if a rank has left the loop.

## Fix

Remove it. Where it protects something that one rank does (a file that others read), put both under a test on the step,
or after the loop. No automatic fix.

## Silent when

It stands under a test on the step or a setting, next to a clock (timing needs it), on some ranks only, in a loop that
writes a file in each iteration, or is for a group of its own.

## Sources

Project-MONAI/tutorials#1933, dmlc/dgl#1892, hpcaitech/Open-Sora#527,
https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.barrier.
"""

from __future__ import annotations

from itertools import pairwise

from gpudoctor.diagnostic import Finding, Location, Severity
from gpudoctor.lint.events.acting_place import entered_in
from gpudoctor.lint.events.collective import Collective, Discard
from gpudoctor.lint.events.data_loading import Iterate
from gpudoctor.lint.events.event_context import Loop
from gpudoctor.lint.events.files import Save
from gpudoctor.lint.events.host_waits import ClockRead, HostSync
from gpudoctor.lint.events.model import Forward
from gpudoctor.lint.events.training_step import Backward, OptimizerStep
from gpudoctor.lint.questions.loop_rounds import batch_loop, in_every_round, in_last_round, training_loop, trains
from gpudoctor.rule import Findings, Program, Recording, Rule


class BarrierEveryStep(Rule):
    code = "GPU511"
    severity = Severity.PERF
    of_ranks = True
    shows_when = ("distributed", "trained")
    needs = (Collective,)
    looks_at = ((Collective, "waits"),)

    def in_code(self, program: Program) -> Findings:
        timed = _before_a_clock(program)
        found: dict[Loop, list[Collective]] = {}
        waited: set[tuple[Location, ...]] = set()
        for event in program.events(Collective):
            if not event.waits or not event.of_all_ranks or event.order in timed:
                continue
            loop = _step_loop(program, event)
            if loop is None or event.rank_guards or not _in_every_step(program, event, loop):
                continue
            waited.add(event.led_there)
            here = found.setdefault(loop, [])
            if not _protects_files(program, loop) and all(event.location != each.location for each in here):
                here.append(event)
        told: set[Location] = set()
        for loop, barriers in found.items():
            if barriers and loop.location not in told:
                told.add(loop.location)
                # A helper that others call between epochs is not what must change.
                same = (each for each in program.at(barriers[0].location) if isinstance(each, Collective))
                place = entered_in(barriers[0], loop, (each for each in same if each.led_there not in waited))
                yield self._finding(place, loop, *barriers)

    def in_run(self, recording: Recording) -> Findings:
        for rank in recording.ranks[:1]:
            barriers = [each for each in rank.collectives if each.name == "barrier" and each.place is not None]
            first = rank.steps[0].at if rank.steps else 0.0
            while_training = [each for each in barriers if rank.steps and first <= each.began <= rank.steps[-1].at]
            if len(while_training) >= max(_ENOUGH, _OFTEN * rank.made):
                at = while_training[0].place
                assert at is not None
                yield self.found(
                    at,
                    f"{len(while_training)} barriers in {rank.made} steps: in each of them "
                    "all ranks wait for the slowest, which the averaging of gradients does already.",
                    remedy="Leave it out, or call it once for each epoch.",
                )

    def _finding(self, place: Location, loop: Loop, first: Collective, *others: Collective) -> Finding:
        again = f", and {len(others)} more {'time' if len(others) == 1 else 'times'}" if others else ""
        return self.found(
            place,
            f"All ranks stop at `{first.call}()` in every step of this loop{again}: each step takes as long as on the "
            "slowest rank, and the GPU idles until Python goes on.",
            remedy="Remove it: `backward()` of the wrapped model and collectives match the ranks up by themselves.",
            because=[
                ("in every iteration of this loop", loop.location),
                ("and here it happens", first.location),
                *(("called from here", call) for call in first.context.calls[-2:]),
                *((f"`{each.call}()` stops them, too", each.location) for each in others),
            ],
        )


def _step_loop(program: Program, event: Collective) -> Loop | None:
    """The loop around a barrier that takes one batch a round, to train with or to evaluate."""
    loop = batch_loop(event)
    if loop is None:
        return training_loop(program, event) or _evaluating_loop(program, event)
    return loop if any(program.during(loop, Forward, Backward)) else None


def _evaluating_loop(program: Program, event: Collective) -> Loop | None:
    """The loop right around a barrier that asks the model in each iteration and trains nothing."""
    loop = event.loops[-1] if event.loops else None
    if loop is None or loop.times == 1 or trains(program, loop) or any(program.during(loop, Iterate)):
        return None
    direct = (call for call in program.during(loop, Forward) if call.loops[-1].identity == loop.identity)
    return loop if any(call.context.evaluating for call in direct) else None


def _in_every_step(program: Program, event: Collective, loop: Loop) -> bool:
    """The barrier comes in each iteration, or wherever the optimizer steps: with accumulation not each time."""
    if in_every_round(program, event, loop):
        return True
    steps = program.during(loop, OptimizerStep)
    return in_last_round(program, event, loop) and any(step.condition.implies(event.condition) for step in steps)


def _before_a_clock(program: Program) -> set[int]:
    """The places in the log of what comes right before a clock is read, but for waits."""
    log = [event for event in program.log if not isinstance(event, (HostSync, Discard))]
    return {event.order for event, after in pairwise(log) if isinstance(after, ClockRead)}


def _protects_files(program: Program, loop: Loop) -> bool:
    """A file is written in each iteration: others may wait for it."""
    return any(in_every_round(program, save, loop) for save in program.during(loop, Save))


_ENOUGH, _OFTEN = 4, 0.6
"""Barriers that must have been seen, and for each step."""
