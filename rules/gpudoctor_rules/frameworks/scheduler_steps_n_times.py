"""A learning rate schedule counts the batches of all processes and steps for those of one, or the other way round.

## What goes wrong

The `step()` of a prepared schedule steps it once for each process, because the batches of all ranks (each process, one
for each GPU) are meant to count. A prepared loader has its batches divided by that number already. A schedule whose
length is computed from `len(loader)` after `prepare`, or is the number of steps at which the training ends, is
therefore over after an N-th of the training on N GPUs, and the learning rate stays at its end from there on. One that
steps once an epoch decays N times as fast. A schedule that is not prepared steps once a call: one whose length was
computed from `len(loader)` before `prepare` has passed an N-th of its way when the training ends, and the learning rate
never decays; so has one that Lightning steps with each batch, for its trainer shards the loader later. No error is
raised, and on one GPU nothing is wrong.

Under `accumulate` a schedule that is not prepared is not held back with the optimizer either: it steps for each batch,
and one that is as long as the optimizer has steps is over too early, on one GPU as well.

## Fix

Compute the length before `prepare`, or multiply it by `accelerator.num_processes`, and prepare the schedule with the
optimizer. A schedule that counts epochs stays out of `prepare`, and one that counts steps of the optimizer is stepped
under `if accelerator.sync_gradients:` where it is not prepared. Under Lightning, take
`self.trainer.estimated_stepping_batches` for the length.

## Silent when

The length of a prepared schedule was computed from the loader as it was before `prepare`, or that of one that is not
from the loader as it is afterwards; the length has the number of processes in it, as Lightning is told
it; the `Accelerator` is made with
`split_batches=True` or `step_scheduler_with_optimizer=False`, or with settings that could not be followed; the schedule
is constant unless the user asks for another. In a run: it is not prepared, or the learning rate did not come to 0 so
early and lint had no suspicion.

## Sources

https://huggingface.co/docs/accelerate/concept_guides/performance#learning-rates, huggingface/accelerate#1398.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Finding, Severity
from gpudoctor.lint.domain.data import Loader
from gpudoctor.lint.domain.optim import Scheduler
from gpudoctor.lint.domain.value import Value
from gpudoctor.lint.events.collective import LeaveLoop
from gpudoctor.lint.events.data_loading import Iterate
from gpudoctor.lint.events.knowledge import Prepare, UseManaged
from gpudoctor.lint.events.training_step import OptimizerStep, SchedulerStep
from gpudoctor.lint.questions.asked_in_tests import asks_about
from gpudoctor.lint.questions.loop_rounds import batch_loop, same_round
from gpudoctor.lint.questions.made_of import is_made_with, loaders_measured
from gpudoctor.lint.questions.names import in_code, name_of
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules.frameworks._charge import (
    ACCELERATE,
    LIGHTNING,
    accumulation_of,
    handed_over,
    is_prepared,
    prepares_unseen,
    taken_in_charge,
)

COUNTS_OTHERWISE = ("split_batches", "dataloader_config", "step_scheduler_with_optimizer", "deepspeed_plugin")


CONSTANT = ("constant", "constant_with_warmup")
"""Schedules of Transformers and Diffusers that do not end."""

_NUMBERS = ("devices", "gpus", "num_nodes")
"""What Lightning's trainer is told how many processes there are by."""
ENOUGH = 2
"""Calls of a schedule."""
ROOM = 1.2
"""Times as late as an N-th of the training, where a schedule still counts as over by then: it may warm up first."""


class SchedulerStepsNTimes(Rule):
    code = "GPU907"
    severity = Severity.WARNING
    of_ranks = True
    shows_when = (f"ranks.schedules.calls > {ENOUGH - 1}",)
    needs = (Prepare,)

    def in_code(self, program: Program) -> Findings:
        # Tests of a library have one process.
        if program.only_tests:
            return
        told: set[Value] = set()
        for event in program.events(Prepare):
            scheduler = event.given
            if not isinstance(scheduler, Scheduler) or event.managed.framework != ACCELERATE or scheduler in told:
                continue
            charge = taken_in_charge(program, event.managed)
            steps = [each for each in program.events(SchedulerStep) if each.scheduler == scheduler]
            if charge is None or not steps or _counts_otherwise(charge) or _stays_constant(program, scheduler):
                continue
            told.add(scheduler)
            loader = next((each for each in loaders_measured(scheduler.made_with) if each.managed == ACCELERATE), None)
            each_batch = all(batch_loop(step) is not None for step in steps)
            if loader is not None and each_batch:
                yield self._too_short(event, scheduler, loader)
            elif each_batch and (number := _ends_training(program, scheduler)) is not None:
                yield self._counted_once(event, scheduler, number)
            elif all(_each_epoch(program, step) for step in steps):
                yield self._ahead(event, scheduler, steps[0])

        yield from self._unprepared(program)
        yield from self._not_held_back(program)

    def _not_held_back(self, program: Program) -> Findings:
        """Schedules that are as long as the optimizer has steps, and step for each of the batches that make one."""
        told: set[Value] = set()
        for step in program.events(SchedulerStep):
            scheduler, loop = step.scheduler, batch_loop(step)
            if scheduler in told or is_prepared(program, scheduler):
                continue
            if "accumulate" not in step.context.contexts or loop is None or prepares_unseen(program):
                continue
            held = next((each for each in program.during(loop, OptimizerStep) if _beside(step, each)), None)
            number = next((number for each in program.in_charge if (number := accumulation_of(each)) is not None), None)
            if held is None or number is None or not number.config:
                continue
            # Divided by the number of batches that make a step, the length is one in steps.
            if not is_made_with(scheduler.made_with, {number}):
                continue
            told.add(scheduler)
            schedule, several = name_of(scheduler, "the schedule"), name_of(number, "this number")
            yield self.found(
                step.location,
                f"{schedule} steps for each batch, and `accumulate` lets the optimizer step once in {several} of them: "
                "it is over that many times too early.",
                remedy="Step it under `if accelerator.sync_gradients:`, or prepare it with the optimizer.",
                because=[("it is made", scheduler.place), ("the optimizer is held back here", held.location)],
            )

    def _unprepared(self, program: Program) -> Findings:
        """Schedules that step once a batch of the prepared loader, and are as long as the loader was before."""
        told: set[Value] = set()
        for step in program.events(SchedulerStep):
            scheduler = step.scheduler
            if scheduler in told or is_prepared(program, scheduler):
                continue
            if _stays_constant(program, scheduler):
                continue
            measured = loaders_measured(scheduler.made_with)
            dealt = [each for each in handed_over(program) if each.given in measured and each.made != each.given]
            charge = taken_in_charge(program, dealt[0].managed) if dealt else None
            prepared = charge is not None and charge.framework == ACCELERATE and not _counts_otherwise(charge)
            loop = batch_loop(step)
            if prepared and loop is not None and loop.over == dealt[0].made and not prepares_unseen(program):
                told.add(scheduler)
                yield self._too_long(dealt[0], scheduler)
            places = {each.place for each in measured}
            shared = [each for each in _shared_by_trainers(program, scheduler) if each.given.place in places]
            if loop is not None and any(loop.over == each.made for each in shared):
                told.add(scheduler)
                yield self._of_all_ranks(shared[0], scheduler)

    def in_run(self, recording: Recording) -> Findings:
        for rank in recording.ranks[:1]:
            for each in rank.schedules:
                n_times = each.processes > 1 and each.steps > each.calls * (each.processes - 1)
                place = each.made or each.place
                if not n_times or place is None or each.calls < ENOUGH:
                    continue
                early = 0 < each.over <= each.calls * ROOM / each.processes
                # A decay that is too fast looks like one that is meant.
                if (early and rank.over) or self.code in recording.suspected:
                    yield self.found(
                        place,
                        f"The program stepped this prepared `{each.type}` {each.calls} times, and it made {each.steps} "
                        "steps of that, one for each process"
                        + (f": from call {each.over} on the learning rate was 0." if early else "."),
                        remedy="Compute the length before `prepare`, or multiply it by `accelerator.num_processes`; "
                        "leave a schedule that counts epochs out of `prepare`.",
                        because=[("it is stepped here", each.place)],
                    )

    def _too_short(self, event: Prepare, scheduler: Scheduler, loader: Loader) -> Finding:
        owner, batches = in_code(event.managed, "accelerator"), name_of(loader, "the loader")
        return self.found(
            scheduler.place,
            f"The length of {name_of(scheduler, 'the schedule')} is computed from {batches} after it was prepared, and "
            "each of its steps counts for all processes: on N GPUs it is over after an N-th of the training.",
            remedy=f"Compute the length before `prepare`, or multiply it by `{owner}.num_processes`.",
            because=[(f"{batches} is prepared", loader.place), ("the schedule is prepared", event.location)],
        )

    def _too_long(self, event: Prepare, scheduler: Scheduler) -> Finding:
        schedule, batches = name_of(scheduler, "the schedule"), name_of(event.given, "the loader")
        return self.found(
            scheduler.place,
            f"{schedule} is as long as {batches} before it was prepared, and steps once for each batch that this rank "
            "gets: on N GPUs only the first N-th of it is passed, and the learning rate does not decay.",
            remedy=f"Pass it to `{in_code(event.managed, 'accelerator')}.prepare` with the others: then each of its "
            "steps counts for all processes.",
            because=[(f"{batches} is prepared", event.location)],
        )

    def _of_all_ranks(self, event: Prepare, scheduler: Scheduler) -> Finding:
        schedule, batches = name_of(scheduler, "the schedule"), name_of(event.given, "the loader")
        return self.found(
            scheduler.place,
            f"{schedule} is as long as {batches} with the batches of all ranks, and steps once for each batch that "
            "this rank gets: on N GPUs only the first N-th of it is passed, and the learning rate does not decay.",
            remedy="Make it as long as `self.trainer.estimated_stepping_batches`, which counts those of one rank.",
            because=[(f"each rank is given its share of {batches}", event.location)],
        )

    def _counted_once(self, event: Prepare, scheduler: Scheduler, number: Value) -> Finding:
        owner, steps = in_code(event.managed, "accelerator"), name_of(number, "the number of steps")
        return self.found(
            scheduler.place,
            f"The length of {name_of(scheduler, 'the schedule')} is {steps}, after which the training ends, and each "
            "of its steps counts for all processes: on N GPUs it is over after an N-th of the training.",
            remedy=f"Multiply the length, and the warm-up, by `{owner}.num_processes`.",
            because=[("the schedule is prepared", event.location)],
        )

    def _ahead(self, event: Prepare, scheduler: Scheduler, step: SchedulerStep) -> Finding:
        return self.found(
            step.location,
            f"{name_of(scheduler, 'the schedule')} steps once an epoch, and as it was prepared, that makes a step for "
            "each process: on N GPUs it is N epochs ahead after each.",
            remedy="Leave a schedule that counts epochs out of `prepare`.",
            because=[("it is made", scheduler.place), ("it is prepared", event.location)],
        )


def _beside(step: SchedulerStep, other: OptimizerStep) -> bool:
    """Nothing is asked for the one that is not asked for the other."""
    return same_round(step, other) and step.condition == other.condition and "accumulate" in other.context.contexts


def _shared_by_trainers(program: Program, scheduler: Scheduler) -> list[Prepare]:
    """Where a trainer, which leaves schedules as they are, gives each rank its share of a loader."""
    if not program.launched_in_several:
        return []
    # Who divides by how many there are has thought of it, wherever that number is from.
    told = (event.given.keywords.get(name) for event in program.events(UseManaged) for name in _NUMBERS)
    numbers = {value for values in told for value in values or ()}
    if is_made_with(scheduler.made_with, numbers):
        return []
    own = (each for each in program.events(Prepare) if each.by_itself and each.managed.framework == LIGHTNING)
    return [each for each in own if isinstance(each.given, Loader) and each.made != each.given]


def _counts_otherwise(charge: UseManaged) -> bool:
    """It may step a schedule once, or be in no hurry to divide batches."""
    given = charge.given
    return given.open_ended or any(name in given.keywords for name in COUNTS_OTHERWISE)


def _stays_constant(program: Program, scheduler: Scheduler) -> bool:
    """It is asked for by name, and one without an end is what the user gets who asks for none."""
    return any(program.left_out(value).in_python in CONSTANT for value in scheduler.made_with)


def _ends_training(program: Program, scheduler: Scheduler) -> Value | None:
    """The setting that is the length of the schedule, as it is, and at which the loop that trains is left."""
    length = scheduler.given.keywords.get("num_training_steps")
    number = length.single if length is not None else None
    if number is None or not number.config:
        return None
    leaving = (each.condition for each in program.events(LeaveLoop) if each.how in ("break", "return"))
    return number if any(asks_about(literal, number) for when in leaving for literal in when) else None


def _each_epoch(program: Program, step: SchedulerStep) -> bool:
    """It stands in a loop that passes over the data, and not in the pass itself."""
    if batch_loop(step) is not None:
        return False
    trained = [each for each in program.events(OptimizerStep) if batch_loop(each) is not None]
    inner = {loop.identity for each in trained for loop in each.loops}
    passes = {loop.identity for each in program.events(Iterate) for loop in each.loops[:-1]}
    return any(loop.repeats and loop.identity in inner & passes for loop in step.loops)
