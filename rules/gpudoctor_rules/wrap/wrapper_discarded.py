"""A model or an optimizer is wrapped, and the wrapper is never used.

## What goes wrong

`DataParallel(model)` and `DistributedDataParallel(model)` do not change `model`: they return a new module that uses it.
Where the result is not kept, or `.module` alone is, the training calls the bare model. No error is raised. With
`DistributedDataParallel` each process (rank) then applies only its own gradients and the ranks train different models;
with `DataParallel` one GPU does all the work. `hvd.DistributedOptimizer(optimizer)` averages gradients in the backward
and waits for them in its own `step()`: where the plain optimizer steps, Horovod ends the second backward with
`AssertionError: Gradients were computed more than backward_passes_per_step times before call to step()`.

## Fix

Assign the result to the name that the training loop uses. Unsafe, because the training changes; that is the point.

## Silent when

The wrapper is used anywhere else, as where a method stores it and also returns it; nothing is done with the model
afterwards; `fully_shard(model)`, which does change the model in place.

## Sources

https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html,
https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Safety, Severity
from gpudoctor.lint.domain.module import Module, Wrapper, WrapperKind
from gpudoctor.lint.domain.optim import Optimizer
from gpudoctor.lint.domain.value import Value
from gpudoctor.lint.events.collective import Discard
from gpudoctor.lint.events.event_context import Event
from gpudoctor.lint.events.knowledge import UseManaged
from gpudoctor.lint.events.model import Forward, Wrap
from gpudoctor.lint.events.training_step import OptimizerStep
from gpudoctor.lint.questions.names import name_of
from gpudoctor.lint.repair.repair import Assign, Either, Repair, Source
from gpudoctor.record import fields
from gpudoctor.rule import Findings, Program, Recording, Rule

# `fully_shard` changes the module itself, so its result may be dropped.
KINDS = (WrapperKind.DDP, WrapperKind.DATA_PARALLEL)


class WrapperDiscarded(Rule):
    code = "GPU103"
    severity = Severity.ERROR
    fix_safety = Safety.UNSAFE
    shows_when = ("distributed", "trained")
    errors = (
        "AssertionError: Gradients were computed more than backward_passes_per_step times before call to step(). "
        "Increase backward_passes_per_step to accumulate gradients locally.",
    )
    needs = (Discard, UseManaged)
    looks_at = ((Discard, "of_wrapper"), (UseManaged, "averages"))

    def in_code(self, program: Program) -> Findings:
        yield from self._plain_steps(program)
        used: set[Wrapper] = set()
        for event in program.events(Discard):
            wrapper = event.value
            if not event.of_wrapper or not isinstance(wrapper, Wrapper):
                continue
            if wrapper.kind not in KINDS or wrapper in used:
                continue
            # A constructor called as a bare statement inside a method that also stores it drops nothing.
            if _is_used(program, wrapper):
                used.add(wrapper)
                continue
            if not _goes_on(program, event, wrapper.core):
                continue
            model = name_of(wrapper.core)
            harm = (
                "each rank trains a model of its own"
                if wrapper.kind is WrapperKind.DDP
                else "one GPU does all the work"
            )
            lost = f"`.{event.kept}` alone is kept of it" if event.kept else "it is dropped"
            yield self.found(
                event.location,
                f"`{wrapper.kind.value}` returns a new module, and here {lost}: {model} itself stays unwrapped, and "
                f"{harm}.",
                remedy="Keep the result under the name that the training loop calls, as in `model = "
                f"{wrapper.kind.value}(model)`.",
                because=[("the wrapper is made here", wrapper.place)],
                repair=_keep(event, wrapper),
            )

    def _plain_steps(self, program: Program) -> Findings:
        """What Horovod has put around an optimizer never steps, and the optimizer itself does."""
        for wrap in program.events(UseManaged) if not program.cut_short else ():
            given = wrap.setting("optimizer") if wrap.framework == "horovod" else None
            plain = given.single if given is not None else None
            steps = [step for step in program.events(OptimizerStep) if plain == step.optimizer]
            if not isinstance(plain, Optimizer) or plain in program.escaped or not steps:
                continue
            if any(step.order < wrap.order or getattr(step.optimizer, "averaging", True) for step in steps):
                continue
            yield self.found(
                wrap.location,
                f"`DistributedOptimizer` returns another optimizer, and {name_of(plain)} itself steps: its gradients "
                "are not waited for, and the second backward ends with an `AssertionError`.",
                remedy="Step what it returns, as in `optimizer = hvd.DistributedOptimizer(optimizer)`.",
                because=[("the plain optimizer steps", steps[0].location)],
            )

    def in_run(self, recording: Recording) -> Findings:
        drift = recording.drift
        if drift is None or recording.averages_by_hand or drift.optimizer.held:
            return
        for wrap in recording.ranks[0].wraps[:1]:
            if wrap.place is not None:
                yield self.found(
                    wrap.place,
                    f"The wrapper made here was gone when training began, and after step {drift.step} the ranks held "
                    f"different values in parameter {drift.name}.",
                    remedy="Keep what the call returns, `model = DistributedDataParallel(model)`, and train with that.",
                )


def _keep(event: Discard, wrapper: Wrapper) -> Repair | None:
    if event.location != wrapper.place or event.kept:
        return None
    target = Either(((Source(event.location, "0"),), (Source(event.location, "module"),)))
    return Repair("Keep the wrapper", (Assign(event.location, (target,)),))


def _goes_on(program: Program, event: Discard, model: Value) -> bool:
    """Something is done with the model from there on: where nothing is, the wrap itself was what mattered."""
    # `with raises(ValueError): accelerator.prepare(model)` ends the use of the model.
    # `model.forward(x)` is followed as any method is: what shows of it are the calls of its parts.
    parts = program.within(model)
    called = any(each.order > event.order and each.module.core in parts for each in program.events(Forward))
    return called or model in program.escaped or not isinstance(model, Module)


def _is_used(program: Program, wrapper: Wrapper) -> bool:
    # The log is asked as a whole, so that no way of keeping the wrapper has to be foreseen.
    return any(_mentions(event, wrapper) for event in program.log if not isinstance(event, Discard))


def _mentions(event: Event, wrapper: Wrapper) -> bool:
    # Its own making mentions every wrapper.
    if isinstance(event, Wrap) and event.wrapper == wrapper:
        return False
    return any(_is_or_holds(getattr(event, each.name), wrapper) for each in fields(event))


def _is_or_holds(value: object, wrapper: Wrapper) -> bool:
    if isinstance(value, tuple):
        return any(_is_or_holds(each, wrapper) for each in value)
    # Whatever was wrapped around it later keeps it alive.
    return isinstance(value, Wrapper) and wrapper in value.chain
