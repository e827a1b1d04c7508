"""Validation builds graphs for a backward that never comes, or runs in training mode.

## What goes wrong

Each call of a model outside of `torch.no_grad()` keeps what `backward()` would need. In validation that is memory and
time for nothing: often half of the batch size that would fit, or `torch.OutOfMemoryError: CUDA out of memory` in the
first validation although training fits. `model.eval()` does not help, it does something else: it switches dropout off
and makes batch normalisation use its running statistics. Without it the score is noise, and the statistics learn from
the validation set.

## Fix

Put the loop under `with torch.no_grad():`, or the function under the decorator `@torch.no_grad()`, and call
`model.eval()` before it and `model.train()` before training goes on. Safe where only the graph goes, which nothing
used; unsafe where the mode changes, since the numbers of the evaluation change with it.

## Silent when

A gradient of what the model returned is taken later, in any way; a tensor goes to code that could not be read;
`set_grad_enabled` decides; all parameters are frozen; a framework other than
Accelerate is in charge. The mode only counts for a model that
this program trains and that has running statistics, on other data than it is trained with.

## Sources

https://docs.pytorch.org/docs/stable/notes/autograd.html#locally-disabling-gradient-computation.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.diagnostic import Finding, Location, Safety, Severity
from gpudoctor.lint.domain.tensor import Tensor
from gpudoctor.lint.domain.value import Value
from gpudoctor.lint.events.acting_place import entered_in
from gpudoctor.lint.events.event_context import Event, Loop
from gpudoctor.lint.events.knowledge import Escape
from gpudoctor.lint.events.model import Forward, ModeChange
from gpudoctor.lint.events.training_step import Backward, GradientsSwitched, OptimizerStep, TakeGradient
from gpudoctor.lint.questions.loop_rounds import batch_loop, trains
from gpudoctor.lint.repair.repair import After, Before, Code, Decorate, Holds, Imported, Repair, Under
from gpudoctor.record import replace
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules._error_texts import OUT_OF_MEMORY


class EvaluationBuildsGraph(Rule):
    code = "GPU805"
    severity = Severity.PERF
    errors = OUT_OF_MEMORY
    fix_safety = Safety.SAFE
    shows_when = ("ranks.evaluations",)
    needs = (Backward, Escape, Forward, GradientsSwitched, ModeChange, OptimizerStep, TakeGradient)

    def in_code(self, program: Program) -> Findings:
        # Frameworks switch gradients off around the user's validation; these leave the loop to the user, or their own
        # was followed.
        if not program.absence(knows=program.leaving("loop"), to_the_end=True):
            return
        calls: dict[Location, list[tuple[Forward, Loop]]] = {}
        for call in program.events(Forward):
            loop = _loop_of(program, call)
            # Outside of a loop over batches it is one forward, whose graph goes at once.
            if loop is not None and not trains(program, loop):
                calls.setdefault(loop.location, []).append((call, loop))
        # One finding for each loop: `model.encode(x)` may call a dozen layers.
        for each in calls.values():
            building = [pair for pair in each if _builds_for_nothing(program, pair[0])]
            learning = [pair for pair in each if _learns(program, *pair)]
            if building or learning:
                learner = learning[0][0] if learning else None
                # `model.infer(x)` calls its layers out of sight: what is called nearest to the loop is named.
                call, loop = min(building or learning, key=lambda pair: len(pair[0].context.calls))
                # What is called in the training as well is right: it is this loop that evaluates.
                learnt = frozenset().union(*(event.forwards for event in program.events(Backward)))
                same = (other for other in program.at(call.location) if isinstance(other, Forward))
                place = entered_in(call, loop, (other for other in same if other.identity in learnt))
                found = self._finding(place, call, loop, bool(building), learner)
                yield replace(found, repair=_repair(program, call, loop, bool(building), learner))

    def in_run(self, recording: Recording) -> Findings:
        # Where ranks hang, a pass ends before its backward, or behind steps that were only counted.
        for rank in recording.ranks if not recording.hang else ():
            for each in rank.evaluations:
                # A pass without a step may gather gradients for a later one; of one that was cut off nobody knows.
                if (
                    rank.steps
                    and (each.ended or each.left)
                    and each.gradient
                    and each.training is not None
                    and not each.backwards
                    and each.batches > 1
                ):
                    if each.place is not None:
                        yield self.found(
                            each.place,
                            f"A pass of {each.batches} batches without a backward ran with gradients switched on: each "
                            "forward builds a graph that nobody uses.",
                            remedy="Put `with torch.no_grad():` around it.",
                        )
                    return

    def _finding(self, place: Location, call: Forward, loop: Loop, builds: bool, learner: Forward | None) -> Finding:
        does, remedy = [], []
        if builds:
            does.append("builds a graph that nothing uses, which takes memory and time")
            remedy.append("Put the loop under `with torch.no_grad():`.")
        if learner is not None:
            name = learner.module.core.label or "model"
            does.append(
                f"runs `{name}` in training mode: its running statistics learn from this data, and the score with them"
            )
            remedy.append(f"Call `{name}.eval()` before the loop, and `{name}.train()` after it.")
        return self.found(
            place,
            f"This loop trains nothing, but {'. It also '.join(does)}.",
            remedy=" ".join(remedy),
            because=[("the loop begins here", loop.location), ("which leads here", call.location)],
        )


def _repair(program: Program, call: Forward, loop: Loop, builds: bool, learner: Forward | None) -> Repair | None:
    trained: list[Event] = [*program.events(Backward, OptimizerStep, TakeGradient)]
    # A loop for both phases: what one of them needs is wrong for the other.
    if any(each.location == loop.location for event in trained for each in event.loops):
        return None
    at = loop.location
    asleep: Code = (Holds(learner.module), ".eval()") if learner else ()
    awake = (
        (After(at, ((Holds(learner.module), ".train()"),)),)
        if learner and _stays_asleep(program, trained, call)
        else ()
    )
    if not builds:
        return Repair("Evaluate in evaluation mode", (Before(at, (asleep,)), *awake), Safety.UNSAFE)
    title = "Evaluate without graphs"
    no_grad: Code = (Imported("torch.no_grad"), "()")
    header: Code = (*asleep, *("\n" if asleep else "",), "with ", *no_grad, ":")
    # Another mode is another score.
    safety = Safety.UNSAFE if learner else Safety.SAFE
    under = Repair(title, (Under(at, header), *awake), safety)
    elsewhere = tuple(place for event in trained for place in (event.location, *event.context.calls))
    before = (Before(at, (asleep,)),) if asleep else ()
    return Repair(title, (Decorate(at, no_grad, elsewhere), *before, *awake), safety, otherwise=under)


def _stays_asleep(program: Program, trained: list[Event], call: Forward) -> bool:
    """Training goes on after the evaluation, and nobody would switch the model back to it."""
    following = next((event for event in trained if event.order > call.order), None)
    if following is None:
        return False
    core = call.module.core
    # `generator.train()` wakes no discriminator.
    modes = (each for each in program.events(ModeChange) if each.training and _wakes(program, each, core))
    return not any(call.order < each.order < following.order for each in modes)


def _wakes(program: Program, change: ModeChange, core: Value) -> bool:
    """What is switched is the model, has it as a part, or is not known."""
    switched = change.module.core
    return core == switched or core in program.within(switched)


def _loop_of(program: Program, call: Forward) -> Loop | None:
    """The loop over batches; they need not come from a loader where the model was told that it is evaluated."""
    batches = batch_loop(call)
    if call.training is not False:
        return batches
    # An evaluation in the middle of a training loop stands in a loop of its own, and within that a model may have
    # loops over its layers.
    evaluating = [each for each in call.loops if each.times is None or each.times > 1]
    evaluating = [each for each in evaluating if not trains(program, each)]
    return batches if batches in evaluating else next(iter(evaluating), batches)


def _builds_for_nothing(program: Program, call: Forward) -> bool:
    # One helper for both phases: `set_grad_enabled(train)` says that its author has thought of it.
    if not call.graph or "set_grad_enabled" in call.context.contexts:
        return False
    if any(event.order < call.order and event.on is not True for event in program.events(GradientsSwitched)):
        return False
    asked: Iterator[Backward | TakeGradient] = program.events(Backward, TakeGradient)
    # A loss whose way was not followed may lead through any call before it.
    for event in asked:
        # As a perceptual loss: a frozen network is called, and the gradient goes through it.
        if call.identity in event.forwards or (not event.complete and event.order > call.order):
            return False
    return not any(_carries(value, call) for event in program.events(Escape) for value in event.values)


def _carries(value: object, call: Forward) -> bool:
    # Code that is given an output may run `backward()` on what it makes of it.
    return isinstance(value, Tensor) and call.identity in value.forwards


def _learns(program: Program, call: Forward, loop: Loop) -> bool:
    """The model is in training mode, where that changes its buffers, and it is a model that this program trains."""
    # Without running statistics nothing is learnt; dropout alone may be wanted, as for sampling.
    if call.training is not True or call.buffers is not True:
        return False
    # From what it is trained with it may learn: a memory bank is filled, or the statistics are made precise.
    if loop.over is not None and any(
        each.over == loop.over for event in program.events(Backward) for each in event.loops
    ):
        return False
    core = call.module.core
    forwards = program.forwards
    trained = (forwards.get(identity) for event in program.events(Backward) for identity in event.forwards)
    # A network that is only used, never trained, may stay in the mode in which it was made.
    return any(each.module.core == core for each in trained if each is not None)
