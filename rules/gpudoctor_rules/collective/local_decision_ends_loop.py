"""A rank leaves a loop, or skips an iteration, because of something that only it has seen.

## What goes wrong

Each rank (each process, one for each GPU) computes its own loss, from its own shard of the data, reads its own clock,
and gets its own signals, as before a preemption. Where such a value decides whether to `break`, `continue` or `return`
in a loop whose iterations contain a collective step, such as the `backward()` of a DDP model, or about that step itself
(`if torch.isfinite(loss): loss.backward()`), the ranks decide differently: one leaves, and the others wait for it in
the next all-reduce until the watchdog ends the job (`Watchdog caught collective operation timeout:
WorkNCCL(...OpType=ALLREDUCE ...)`, with gloo `Connection closed by peer`). With `continue` the ranks fall out of step:
the backward of one iteration is averaged with that of another, which nobody notices. An error that one rank alone has,
and that a handler in the loop passes over, does the same, and so does a `training_step` of Lightning that returns None
on some ranks, which later versions refuse.

## Fix

No automatic fix. Share the decision before acting on it: `all_reduce` the flag (the sum, or the maximum), or
`broadcast` what rank 0 decided, and test the shared value.

## Silent when

The value was reduced or broadcast; it is a counter or a setting that is the same on all ranks; each rank computed it
from the same, unsharded data with the same weights, or drew it after a seed that is the same on all ranks; nothing in
the loop is collective; the program ends with an error, for then the launcher ends the other ranks too; the ranks on the
other side of the test leave the loop as well, or take such a step, too; the loop stands in DDP's `join()`; the program
ends before the group is made, on ranks that the group does not count.

## Sources

ultralytics/yolov5#8345, Lightning-AI/pytorch-lightning#379, pytorch/pytorch#47250,
https://docs.pytorch.org/tutorials/advanced/generic_join.html; run on two CPU ranks with torch 2.13.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import permutations

from gpudoctor.diagnostic import Finding, Location, Severity
from gpudoctor.lint.events.acting_place import calls_behind, first_asked
from gpudoctor.lint.events.collective import Collective, LeaveLoop
from gpudoctor.lint.events.data_loading import BatchCut
from gpudoctor.lint.events.event_context import Event, ranks_in_words
from gpudoctor.lint.events.process import Caught, SeedSet
from gpudoctor.lint.events.training_step import Backward
from gpudoctor.lint.flow.condition import Condition, Divergence, Literal
from gpudoctor.lint.questions.asked_in_tests import (
    asks_clock,
    asks_output,
    asks_own_reading,
    asks_signal,
    generators_asked,
)
from gpudoctor.rule import CrashText, Findings, Program, Recording, Rule
from gpudoctor_rules._error_texts import STUCK
from gpudoctor_rules.collective._errors import passed_over
from gpudoctor_rules.collective._missed import called_instead, missed_by
from gpudoctor_rules.collective._sides import story, without_partner
from gpudoctor_rules.collective._together import JointStep, steps_together

MAY_AGREE = "The ranks may agree for a reason that cannot be seen here, such as equal data."
SIGNAL = "A signal reaches each rank at a moment of its own."
TOGETHER = "Decide for all ranks together: reduce or broadcast what the decision is made of, then decide."
REFUSED = "by returning None in distributed training is not supported"
WORDS = {"continue": "skips the rest of this iteration", "exit": "ends the program", "return": "returns here"}


class LocalDecisionEndsLoop(Rule):
    code = "GPU503"
    severity = Severity.WARNING
    errors = (*STUCK, REFUSED)
    crash = CrashText(
        REFUSED,
        because="Lightning goes on to the next batch where it returns None, and the other ranks do not",
        remedy="Return a loss on every rank, such as a sum of the outputs times 0, and let all ranks decide alike.",
    )
    # Without `shows_when`: that no rank has decided otherwise this time says nothing of the next.
    of_ranks = True
    needs = (Backward, Collective)
    looks_at = (
        (LeaveLoop, "local_guards"), (LeaveLoop, "rank_guards"), (Backward, "local_guards"),
        (Collective, "local_guards"), (Caught, "loops"),
    )  # fmt: skip

    def in_code(self, program: Program) -> Findings:
        together = list(steps_together(program))
        on_the_rank = ((event, None) for event in _on_the_rank(program))
        for event, guard in [*_on_local_data(program), *on_the_rank]:
            if guard is not None and _drawn_alike(program, guard, event):
                continue
            missed = missed_by(event, _of_those_who_stay(event, together))
            # `Join` lets a rank that has left answer the collectives of the others.
            if missed is None or "join" in event.context.contexts:
                continue
            # Where each rank cuts its rows out of the batch, all have read the same one.
            if event.loops and any(program.during(event.loops[-1], BatchCut)):
                continue
            if called_instead(program, event, missed) is not None or _leaves_behind(program, event, missed):
                continue
            yield self.found(
                at=event.location,
                message=f"{_subject(event, guard)} {WORDS.get(event.how, 'leaves this loop')}: the other ranks go on "
                f"and wait for it in {missed.name}.",
                remedy="Share the decision first: `all_reduce` a flag, or `broadcast` what rank 0 decided, and let all "
                "ranks test that.",
                because=[*_tests(event, guard), (f"{missed.name} needs every rank", missed.event.location)],
                doubt=MAY_AGREE,
                cause=first_asked(guard).atom.place if guard is not None else None,
            )
        yield from self._left_out(program, together)
        for caught, step in passed_over(program, together):
            yield self._passed_over(caught, step)

    def _passed_over(self, caught: Caught, step: JointStep) -> Finding:
        return self.found(
            caught.location,
            f"A rank that has an error here, such as out of memory, continues with the next iteration: it skips "
            f"{step.name}, and the others wait for it there.",
            remedy="Let the error end the job, or share it: `all_reduce` a flag, and let all skip the iteration.",
            because=[(f"{step.name} needs every rank", step.event.location)],
            doubt="It takes an error that the other ranks do not have.",
        )

    def _left_out(self, program: Program, together: list[JointStep]) -> Findings:
        """What a rank does not take part in, where it stands under a test of its own data."""
        told: set[Location] = set()
        for step, guard in _left_out(program, together):
            place = step.event.location
            if place in told or _drawn_alike(program, guard, step.event):
                continue
            told.add(place)
            first = first_asked(guard)
            yield self.found(
                # Nothing is wrong with the step itself, which may lie in a helper that is right elsewhere.
                at=guard.atom.place or place,
                message=f"{_left_where(guard, first)} leaves out {step.name}, and the others wait for it there.",
                remedy="Share the decision first: `all_reduce` a flag, or take the step with a loss of 0.",
                because=[
                    *([] if first == guard else [("each rank decides for itself here", first.atom.place)]),
                    *(("this call leads there", call) for call in calls_behind(step.event, [guard])[:1]),
                    (f"{step.name} needs every rank", place),
                ],
                doubt=MAY_AGREE,
                cause=first.atom.place,
            )

    def in_run(self, recording: Recording) -> Findings:
        from gpudoctor_rules.collective._stuck import standstill

        yield from super().in_run(recording)
        yield from standstill(self, recording, TOGETHER)
        # Batches that all ranks leave out together look the same: that each decides for itself, the code says.
        if self.code in recording.suspected and not recording.hang:
            yield from self._went_on(recording)

    def _went_on(self, recording: Recording) -> Findings:
        """Ranks that were out of step, and came to their end: each had left out as many batches."""
        for one, other in permutations(recording.ranks, 2):
            for here, there in zip(one.training_passes, other.training_passes, strict=False):
                left, theirs = here.batches - here.backwards, there.batches - there.backwards
                if here.place is not None and here.ended and there.ended and 0 < left < here.backwards:
                    yield self.found(
                        here.place,
                        f"Rank {one.rank} made no backward for {left} of {here.batches} batches, and rank {other.rank} "
                        f"for {max(0, theirs)} of {there.batches}: gradients of different iterations were averaged.",
                        remedy=TOGETHER,
                    )
                    return


def _left_out(program: Program, together: list[JointStep]) -> Iterator[tuple[JointStep, Literal]]:
    """Steps that a rank takes only where its own data says so: `if torch.isfinite(loss): loss.backward()`."""
    leaving = [each for each in program.events(LeaveLoop) if each.local_guards]
    for step in together:
        event = step.event
        if not event.local_guards or not event.loops or "join" in event.context.contexts:
            continue
        # What stands behind `if local: break` is told there.
        behind = {guard.negated() for each in leaving if _stays_behind(event, each) for guard in each.local_guards}
        asked = [guard for guard in event.local_guards if guard not in behind and not _may_agree(guard)]
        # As above: where rounds were left out before, what counts them is not the mistake.
        if not behind.isdisjoint(event.local_guards):
            asked = [guard for guard in asked if asks_own_reading(guard)]
        if not asked:
            continue
        # On the other side of the test the rank makes such a step, too.
        if not any(each.name == step.name and _on_other_side(each.event, event, asked) for each in together):
            yield step, asked[0]


def _on_other_side(other: Event, event: Event, asked: Sequence[Literal]) -> bool:
    """It happens where the local test of an event has come out otherwise, be it a part of a longer one."""
    if not {guard.negated() for guard in asked}.isdisjoint(other.condition.literals):
        return True
    without = Condition(event.condition.literals.difference(event.local_guards))
    return other.condition.excludes(event.condition) and not other.condition.excludes(without)


def _leaves_behind(program: Program, skipped: LeaveLoop, missed: JointStep) -> bool:
    """Who comes to the step leaves the loop behind it: a rank that tries again comes to it once, as the others do."""
    return skipped.how == "continue" and any(
        each.how in ("break", "return") and each.order > missed.event.order
        for each in program.events(LeaveLoop)
        if each.loop == skipped.loop and missed.event.condition.implies(each.condition)
    )


def _stays_behind(step: Event, leaving: LeaveLoop) -> bool:
    """The step is not reached by who leaves: a `return` in a helper leaves the helper alone."""
    frames = leaving.context.frames
    return leaving.how == "exit" or step.context.frames[: len(frames)] == frames


def _on_local_data(program: Program) -> Iterator[tuple[LeaveLoop, Literal]]:
    """Where a value of this rank decides, and the test nearest to it that does; what is left over from an earlier way
    out decides nothing any more."""
    behind: set[Literal] = set()
    for event in program.events(LeaveLoop):
        # After `if local: break` all that follows stands under "not local", and is no decision of its own.
        asked = _asked_here(event, event.local_guards)
        deciding = [guard for guard in asked if guard not in behind and not _may_agree(guard)]
        # A counter is another one on each rank because rounds were skipped before it: then that is the mistake.
        if not behind.isdisjoint(event.local_guards):
            deciding = [guard for guard in deciding if asks_own_reading(guard)]
        if event.how in _QUIET_WAYS and deciding:
            yield event, deciding[-1]
        # Also from ways that end in an error: what comes after them is no decision either.
        behind.update(guard.negated() for guard in asked)


def _on_the_rank(program: Program) -> list[LeaveLoop]:
    """A rank that leaves while those on the other side of the test do not."""
    # A test on local data is reported as such; the rank in it would be told twice.
    leaving = (event for event in program.events(LeaveLoop) if event.how in _QUIET_WAYS and not event.local_guards)
    asked = (event for event in leaving if _asked_here(event, event.rank_guards))
    return without_partner(asked, _kind)


def _of_those_who_stay(event: LeaveLoop, together: list[JointStep]) -> list[JointStep]:
    """What others take than the ranks that leave: `if rank != 0: while True: ...` is a loop of those alone."""
    asked = [] if event.local_guards else _asked_here(event, event.rank_guards)
    return [step for step in together if not step.event.condition.literals.issuperset(asked)] if asked else together


def _may_agree(guard: Literal) -> bool:
    """What code that was not read has a part in may be the same everywhere, but for what a model says of a batch."""
    return bool(guard.atom.divergence & Divergence.UNREAD) and not asks_output(guard)


def _drawn_alike(program: Program, guard: Literal, event: Event) -> bool:
    """It asks for numbers that all ranks draw after one seed: each draws the same."""
    generators = generators_asked(guard)
    return bool(generators) and all(_seeded_alike(program, each, event) for each in generators)


def _seeded_alike(program: Program, generator: str, event: Event) -> bool:
    seeds = [each for each in program.events(SeedSet) if generator in each.of and each.order < event.order]
    last = next((each for each in reversed(seeds) if not each.condition.excludes(event.condition)), None)
    apart = Divergence.RANK | Divergence.LOCAL
    return last is not None and last.seed is not None and not last.seed.surely & apart


def _asked_here(event: LeaveLoop, guards: tuple[Literal, ...]) -> list[Literal]:
    """The tests of the function itself: with what was known when it was called, nothing is decided in it."""
    # Otherwise every `return` of a helper that only rank 0 calls would count as leaving.
    before = event.context.conditions_at_entry[-1].literals if event.context.conditions_at_entry else ()
    return [guard for guard in guards if guard not in before]


_QUIET_WAYS = frozenset({"break", "continue", "return", "exit"})
"""Ways to leave after which the launcher lets the other ranks go on."""


def _kind(event: LeaveLoop) -> Hashable:
    # Both sides of a test may leave the same loop in the same way: then nobody stays behind.
    return event.how, event.loop


def _subject(event: LeaveLoop, guard: Literal | None) -> str:
    if guard is not None:
        if asks_signal(first_asked(guard)):
            return f"{SIGNAL} A rank that has got one"
        return f"{_about(guard)}. Where it decides so, the rank" if guard.atom.text else "A rank"
    reached = ranks_in_words(event)
    return f"This is reached by {reached}, which" if reached else "A rank"


def _left_where(guard: Literal, first: Literal) -> str:
    if asks_signal(first):
        return f"{SIGNAL} A rank that has {'not ' if first.holds else ''}got one"
    return f"{_about(guard)}. Where it decides otherwise, the rank"


def _about(guard: Literal) -> str:
    whose = "asks the clock of this rank" if asks_clock(guard) else "is about this rank's own data"
    return f"`{guard.atom.text}` {whose}"


def _tests(event: LeaveLoop, guard: Literal | None) -> list[tuple[str, Location | None]]:
    decided = [("each rank decides for itself here", guard.atom.place)] if guard is not None else []
    return [*decided, *story([event])]
