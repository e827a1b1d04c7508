"""Each training step makes the program wait for the GPU.

## What goes wrong

A GPU works through a queue: Python only puts work into it and goes on to prepare the next step. `loss.item()`,
`.cpu()`, printing a tensor and `torch.cuda.synchronize()` make Python wait until the queue is empty. Once in each step
this means that the GPU idles while Python prepares the next step, and with several GPUs the slowest one holds up all.
How much is lost depends on the model: little where a step takes a second, a third or more where it takes milliseconds.

## Fix

Add up on the GPU with `total += loss.detach()`, and ask for the number every N steps or after the epoch. No
automatic fix.

## Silent when

The call stands under a test on the step, or any other test than one on the rank; the tensor or the model is on the CPU
anyway; the loop does not train; a clock is read right after the call; each iteration is a whole epoch and the call
belongs to its evaluation. One finding for each loop, at its first wait.

## Sources

https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#avoid-unnecessary-cpu-gpu-synchronization.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Location, Severity
from gpudoctor.lint.domain.device import on_cpu
from gpudoctor.lint.domain.tensor import TensorOrigin
from gpudoctor.lint.events.acting_place import entered_in
from gpudoctor.lint.events.event_context import Event, Loop
from gpudoctor.lint.events.host_waits import ClockRead, HostSync
from gpudoctor.lint.events.model import Forward
from gpudoctor.lint.flow.condition import whole
from gpudoctor.lint.questions.loop_rounds import in_every_round, same_round, training_loop, when_of
from gpudoctor.rule import Findings, Program, Recording, Rule

MOST_SHOWN = 3
"""Places besides the first one: who mends these finds the others."""


class HostSyncEveryStep(Rule):
    code = "GPU801"
    severity = Severity.PERF
    shows_when = ("ranks.reads", "ranks.steps > 10")
    needs = (HostSync,)

    def in_code(self, program: Program) -> Findings:
        waits: dict[Location, list[HostSync]] = {}
        waited: set[tuple[Location, ...]] = set()
        timed = _before_clocks(program)
        for event in program.events(HostSync):
            loop = training_loop(program, event)
            # Every hundredth step costs nothing that could be measured.
            if loop is None or not _waits_for_gpu(event) or event.order in timed:
                continue
            beside = loop.over is None and _of_an_evaluation(event)
            often = in_every_round(program, event, loop) or _on_both_sides(program, event, loop)
            if not beside and often and not _trains_on_cpu(program, loop):
                waited.add(event.led_there)
                found = waits.setdefault(loop.location, [])
                # The body is followed twice, so each place comes up twice.
                if all(event.location.line != other.location.line for other in found):
                    found.append(event)
        # The first wait empties the queue; those right behind it find little left, so they only are mentioned.
        for first, *others in waits.values():
            # A helper that is right elsewhere, as in an evaluation, is not what must change.
            here = (each for each in program.at(first.location) if isinstance(each, HostSync))
            loop = training_loop(program, first)
            assert loop is not None
            place = entered_in(first, loop, (each for each in here if each.led_there not in waited))
            yield self.found(
                place,
                f"{_named(first)} waits for the GPU in every step of this loop{_count(len(others))}: the GPU idles "
                "while the next step is prepared.",
                remedy=_remedy(first),
                because=[
                    ("and here it happens", first.location),
                    *((f"{_named(other)} waits, too", other.location) for other in others[:MOST_SHOWN]),
                ],
            )

    def in_run(self, recording: Recording) -> Findings:
        # Lint reads this file, too, and needs no statistics, which take as long to load as twenty rules.
        import statistics

        for rank in recording.ranks:
            steps = rank.made
            middle = statistics.median(step.took for step in rank.steps) if steps else 0.0
            # On a CPU nothing is waited for, and only the code tells that this is meant for a GPU.
            waits = [each for each in rank.reads if each.device != "cpu" or self.code in recording.suspected]
            often = [each for each in waits if each.steps >= max(_ENOUGH, _OFTEN * steps)]
            at = often[0].place if often else None
            if at is not None and middle < _SLOW:
                yield self.found(
                    at,
                    f"The program asked for a number here after each of {often[0].steps} steps, of "
                    f"{middle * 1000:.0f} ms: a GPU idles while the next step is prepared.",
                    remedy="Keep sums on the GPU with `.detach()`, and ask for numbers every N steps or after "
                    "the loop.",
                    because=[("waits, too", each.place) for each in often[1 : 1 + MOST_SHOWN]],
                )
                return


_ENOUGH = 10
"""Steps of a run that are enough to tell a habit."""
_OFTEN = 0.9
_SLOW = 0.5
"""Seconds: beside such a step the wait is nothing."""


def _before_clocks(program: Program) -> frozenset[int]:
    """Which events stand right before a look at the clock: who measures a step must wait for it."""
    clocks = [event for event in program.events(ClockRead) if event.order]
    before = ((each, program.log[each.order - 1]) for each in clocks)
    return frozenset(wait.order for clock, wait in before if _is_timed_by(clock, wait))


def _is_timed_by(clock: ClockRead, wait: Event) -> bool:
    """The clock is read where the wait is, or what waits was called there. A progress helper that looks at its own
    clock between two rounds measures nothing of the step, nor does a clock behind the loop."""
    frames = clock.context.frames
    return wait.context.frames[: len(frames)] == frames and wait.loops == clock.loops


def _waits_for_gpu(event: HostSync) -> bool:
    tensor = event.subject
    # Who tests a loss for `nan` in each step knows why.
    if event.call == "bool":
        return False
    # `torch.cuda.synchronize()` waits for all, whatever was computed.
    if tensor is None:
        return True
    if tensor.on_cpu:
        return False
    on_gpu = tensor.on_accelerator
    # What a model returned is on the GPU in any training that is worth this advice.
    return on_gpu or tensor.origin is TensorOrigin.OUTPUT


def _on_both_sides(program: Program, event: HostSync, loop: Loop) -> bool:
    """On the other side of the one test that leads here the program waits as well."""
    # The first round tells nothing of the others.
    if not loop.pass_:
        return False
    outside = when_of(program, loop)
    own = whole(event.condition.difference(outside))
    return own is not None and any(
        whole(each.condition.difference(outside)) == own.negated() and same_round(each, event) and _waits_for_gpu(each)
        for each in program.events(HostSync)
    )


def _trains_on_cpu(program: Program, loop: Loop) -> bool:
    """Each model that is called in the loop was never moved: there is no GPU to wait for."""
    devices = [call.device for call in program.during(loop, Forward)]
    return bool(devices) and all(map(on_cpu, devices))


def _of_an_evaluation(event: HostSync) -> bool:
    """Where each epoch is one step, the evaluation after it costs more than the wait for its score."""
    return event.context.evaluating or (event.subject is not None and event.subject.graph is False)


def _count(others: int) -> str:
    if not others:
        return ""
    return ", and so does one more place" if others == 1 else f", and so do {others} more places"


def _remedy(first: HostSync) -> str:
    if first.call.endswith("synchronize"):
        return "Leave it out: PyTorch waits by itself where a result is needed. Only a clock needs it."
    if first.call == "print":
        return "Print every N steps: `if step % 100 == 0:`."
    return "Keep sums on the GPU with `.detach()`, and ask for numbers every N steps or after the loop."


def _named(event: HostSync) -> str:
    if event.call == "print":
        return "Printing a tensor"
    call = event.call.removeprefix("builtins.")
    return f"`{call}()`" if "." in event.call else f"`.{call}()`"
