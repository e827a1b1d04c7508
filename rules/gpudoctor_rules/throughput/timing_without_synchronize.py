"""A clock is read while the GPU is still at work on what it should measure.

## What goes wrong

Calling a model only puts work into the queue of the GPU and returns at once. A clock that is read right after the call
shows how long Python took to fill the queue, a fraction of the true time; the rest is charged to whatever waits for the
GPU next, often `loss.item()`. Nothing fails. The numbers are wrong, and so is what is concluded from them: the
forward looks free, logging looks expensive, and a slower model seems faster.

## Fix

Call `torch.cuda.synchronize()` before each look at the clock. Unsafe in a training loop, where it costs speed: there,
measure every hundredth step, or use `torch.cuda.Event(enable_timing=True)`, which waits for nothing.

## Silent when

Something between the two looks waits for the GPU: `.item()`, `.cpu()`, a test on a tensor, a printed loss, a gradient
scaler, a collective, a plain copy of a tensor from the CPU, after the work or in each iteration of a loop; the time is
that of an epoch or of whole iterations of a loop, where what is not waited for at the end of one iteration is waited
for in the next; code that could not be read is called between; the model is not known to be on a GPU.

## Sources

https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce

from gpudoctor.diagnostic import Location, Safety, Severity
from gpudoctor.lint.events.collective import Collective
from gpudoctor.lint.events.data_loading import Iterate
from gpudoctor.lint.events.event_context import Event
from gpudoctor.lint.events.files import Save
from gpudoctor.lint.events.host_waits import ClockRead, Elapsed, HostSync
from gpudoctor.lint.events.knowledge import Escape, Imprecision
from gpudoctor.lint.events.model import Forward
from gpudoctor.lint.events.placement import Move
from gpudoctor.lint.events.process import EnvironmentWrite
from gpudoctor.lint.events.training_step import Backward, OptimizerStep
from gpudoctor.lint.flow.condition import Condition
from gpudoctor.lint.questions.loop_rounds import in_every_round, same_round, within_round
from gpudoctor.lint.repair.repair import Before, Code, Imported, Repair
from gpudoctor.rule import Findings, Program, Rule

FEW_ROUNDS = 1000
"""A loop of more rounds than the queue of a GPU is long waits for it by itself."""
MANY_ROUNDS = 20
"""Of so many rounds the last one is no more than what a measurement varies by."""


class TimingWithoutSynchronize(Rule):
    code = "GPU804"
    severity = Severity.WARNING
    fix_safety = Safety.UNSAFE
    needs = (Elapsed,)

    def in_code(self, program: Program) -> Findings:
        if _launches_block(program):
            return
        for readings in _phases(program):
            (since, until, work), *more = readings
            later = dict.fromkeys(end.location for _, end, _ in more if end.location != until.location)
            each = "each of these readings" if later else "each of the two readings"
            clocks = dict.fromkeys(clock.location for begin, end, _ in readings for clock in (begin, end))
            yield self.found(
                until.location,
                "This clock is read while the GPU is still at work: it shows how long Python took to queue the work, "
                "not how long the work takes.",
                remedy=f"Call `torch.cuda.synchronize()` right before {each} of the clock.",
                because=[
                    ("the time is counted from here", since.location),
                    (f"{_named(work)} returns before the GPU has done its part", work.location),
                    *(("this reading comes too early as well", other) for other in later),
                ],
                repair=_wait(*clocks),
            )


_Measured = tuple[ClockRead, ClockRead, "Event"]
"""Two looks at the clock, between which a time is taken, and the work of the GPU that is not waited for."""


def _phases(program: Program) -> list[list[_Measured]]:
    """What is measured too early; the phases of a step, which share readings of the clock, are one mistake."""
    groups: list[list[_Measured]] = []
    for each in _too_early(program):
        places = {each[0].location, each[1].location}
        shared = (
            g for g in groups if any(clock.location in places for since, until, _ in g for clock in (since, until))
        )
        group = next(shared, None)
        if group is None:
            groups.append([each])
        else:
            group.append(each)
    return [sorted(group, key=lambda each: each[1].order) for group in groups]


def _too_early(program: Program) -> Iterator[_Measured]:
    clocks = {event.identity: event for event in program.events(ClockRead)}
    for elapsed in program.events(Elapsed):
        since, until = clocks.get(elapsed.since), clocks.get(elapsed.until)
        if since is not None and until is not None and same_round(since, until):
            work = _unfinished(program, since, until)
            if work is not None:
                yield since, until, work


def _wait(*clocks: Location) -> Repair:
    line: Code = (Imported("torch.cuda.synchronize"), "()")
    return Repair("Wait for the GPU before the clock is read", tuple(Before(clock, (line,)) for clock in clocks))


def _launches_block(program: Program) -> bool:
    writes = program.events(EnvironmentWrite)
    return any(write.name == "CUDA_LAUNCH_BLOCKING" for write in writes)


def _unfinished(program: Program, since: ClockRead, until: ClockRead) -> Event | None:
    """The last work of the GPU between two looks at the clock, where nothing there waits for it."""
    between = program.log[since.order + 1 : until.order]
    if any(_may_wait(event) for event in between):
        return None
    work = [event for event in between if _is_work(program, event) and until.condition.implies(_tests(event, between))]
    if not work or any(_is_long(event, since) or _is_waited_for(event, since, between) for event in work):
        return None
    loop = since.loops[-1] if since.loops else None
    if loop is None:
        return work[-1]
    inside = range(since.order, until.order)
    others = [e for e in program.log[loop.entered :] if e.order not in inside and within_round(e, since)]
    # What waits in the case in which the clock is read need not do so in the others.
    waiting = (e for e in others if isinstance(e, HostSync) or (isinstance(e, Move) and e.waits))
    if any(until.condition.implies(_tests(e, others)) or in_every_round(program, e, loop) for e in waiting):
        return work[-1]
    # Whole rounds are right on average: the queue is bounded, so each waits for an earlier one.
    return work[-1] if any(_is_work(program, e) and until.condition.implies(e.condition) for e in others) else None


def _tests(event: Event, among: Sequence[Event]) -> Condition:
    """Which tests lead to a statement: each value that it may concern has an event and a condition of its own."""
    same = (e for e in among if type(e) is type(event) and e.location == event.location)
    return reduce(Condition.intersection, [e.condition for e in same if e.context.frames == event.context.frames])


def _is_waited_for(work: Event, since: ClockRead, between: Sequence[Event]) -> bool:
    """A tensor is copied to the GPU behind the work, or in each of many rounds, of which one is left then."""
    inner = [loop for loop in work.loops[len(since.loops) :] if loop.times is None or loop.times >= MANY_ROUNDS]
    copies = (event for event in between if isinstance(event, Move) and event.waits)
    return any(
        work.condition.implies(copy.condition) and (copy.order > work.order or not set(inner).isdisjoint(copy.loops))
        for copy in copies
    )


def _may_wait(event: Event) -> bool:
    """The program waits for the GPU here, or may, or something takes so long that the GPU does not matter."""
    if isinstance(event, OptimizerStep):
        # The scaler asks whether gradients have overflowed before it steps.
        return event.through == "scaler"
    return isinstance(event, (HostSync, Collective, Escape, Imprecision, Iterate, Save))


def _is_work(program: Program, event: Event) -> bool:
    """A forward on a GPU, or a backward through one."""
    if isinstance(event, Backward):
        return any(call.on_gpu for call in program.calls_in_graph(event))
    return isinstance(event, Forward) and event.on_gpu


def _is_long(event: Event, since: ClockRead) -> bool:
    """It is repeated so often, or nobody knows how often, that the end of it hardly counts."""
    inner = event.loops[len(since.loops) :]
    return any(loop.over is not None or loop.times is None or loop.times > FEW_ROUNDS for loop in inner)


def _named(work: Event) -> str:
    return "`backward()`" if isinstance(work, Backward) else "calling the model"
