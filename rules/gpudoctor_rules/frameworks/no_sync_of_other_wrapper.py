"""`no_sync()` is called on a sharded model that has none, or on an engine that refuses it.

## What goes wrong

`no_sync()` belongs to `DistributedDataParallel` and to `FullyShardedDataParallel` (FSDP1). `fully_shard` (FSDP2) puts
no wrapper around the model: it stays what it was, and gets the methods of `FSDPModule`, of which `no_sync` is none. The
first accumulated batch ends in `AttributeError: 'FSDPNet' object has no attribute 'no_sync'`. DeepSpeed's engine has a
`no_sync()`, and refuses it where ZeRO partitions the gradients: `AssertionError: no_sync context manager is
incompatible with gradient partitioning logic of ZeRO stage 2`. A helper that calls it only where
`isinstance(model, DistributedDataParallel)` does nothing for a model that `fully_shard` has sharded: the gradients of
each accumulated batch are sent to all ranks. No error is raised, and nothing is saved.

## Fix

`model.set_requires_gradient_sync(last)` before the forward, where `last` says whether the optimizer steps after this
batch. Mind the memory: until then each rank keeps whole gradients. Unsafe, because it is not known that they fit.
Remove it from a loop of DeepSpeed's: the engine accumulates by itself.

## Silent when

The model has a method `no_sync` of its own; it is sharded on some paths only; the program asks `hasattr` first, or
catches the error; the configuration of the engine is not known.

## Sources

https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html, pytorch/pytorch#118298;
DeepSpeed 0.19, `runtime/engine.py`.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Safety, Severity
from gpudoctor.lint.domain.module import WrapperKind
from gpudoctor.lint.domain.value import Value
from gpudoctor.lint.events.acting_place import parting
from gpudoctor.lint.events.model import Wrap, WrapperMissed
from gpudoctor.lint.events.training_step import Backward, GradientSync, OptimizerStep
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.questions.loop_rounds import same_round
from gpudoctor.lint.questions.names import name_of
from gpudoctor.lint.repair.repair import Before, Holds, Imported, Repair, Replace, Source
from gpudoctor.rule import CrashText, Findings, Program, Rule
from gpudoctor_rules.frameworks._engine import made_at

_ASKED = ("torch.nn.parallel.DistributedDataParallel", "no_sync")
"""By which a helper tells what has a `no_sync`."""


class NoSyncOfOtherWrapper(Rule):
    code = "GPU936"
    severity = Severity.ERROR
    errors = (
        "AttributeError: 'FSDPNet' object has no attribute 'no_sync'",
        "AssertionError: no_sync context manager is incompatible with gradient partitioning logic of ZeRO stage 2",
    )
    fix_safety = Safety.UNSAFE
    shows_when = ("ranks.optimizers.sharded",)
    needs = (GradientSync, WrapperMissed)
    crash = CrashText(
        "'FSDP",
        also="object has no attribute 'no_sync'",
        because="what `fully_shard` has sharded has no wrapper",
        remedy=(
            "Call `model.set_requires_gradient_sync(last)` before the forward, where `last` says whether the "
            "optimizer steps after this batch."
        ),
    )

    def in_code(self, program: Program) -> Findings:
        yield from self._of_engines(program)
        yield from self._never_asked(program)
        for event in program.events(GradientSync):
            # `torch.compile` passes on what it is asked.
            model = event.target.core_under(WrapperKind.COMPILED)
            if event.call != "no_sync" or model is None:
                continue
            shard = _sharded_before(program, event, model)
            if shard is None or program.is_caught(event, "AttributeError"):
                continue
            yield self.found(
                event.location,
                f"`fully_shard` leaves {name_of(model)} without a wrapper, and what it adds has no `no_sync`: "
                "this ends in an `AttributeError`.",
                remedy=_remedy(model),
                because=[("sharded here", shard.location)],
                repair=_switch(program, event),
                needs=program.shared_by(event),
            )

    def _of_engines(self, program: Program) -> Findings:
        for event in program.events(GradientSync):
            asked = event.call.rpartition(".")[2] == "no_sync"
            charge = made_at(program, event.target) if asked else None
            stage = charge.configured("zero_optimization.stage") if charge is not None else None
            if charge is None or not isinstance(stage, int) or stage < 2 or program.is_caught(event, "AssertionError"):
                continue
            yield self.found(
                event.location,
                f"ZeRO stage {stage} partitions the gradients in each backward, and the engine refuses `no_sync()`: "
                "this ends in an `AssertionError`.",
                remedy="Leave it out: the engine accumulates `gradient_accumulation_steps` batches by itself.",
                because=[("the engine is made here", charge.location)],
            )

    def _never_asked(self, program: Program) -> Findings:
        """A helper leaves `no_sync` to DDP, and the model is none: gradients are reduced in each backward."""
        if not program.may_name("no_sync") or program.has(GradientSync):
            return
        for event in program.events(WrapperMissed):
            if event.kinds.isdisjoint(_ASKED):
                continue
            for backward in program.events(Backward):
                trained = any(event.module in program.within(each.module) for each in program.calls_in_graph(backward))
                if not trained or not same_round(event, backward) or not _adds_up(program, backward):
                    continue
                yield self.found(
                    parting(event, backward),
                    f"{name_of(event.module)} is sharded by `fully_shard` and no `DistributedDataParallel`: `no_sync` "
                    "is never called, and the gradients of each batch are sent to all ranks, though a step takes "
                    "several.",
                    remedy=_remedy(event.module),
                    because=[("asked here", event.location), ("the backward of each batch", backward.location)],
                    severity=Severity.WARNING,
                )
                return


def _remedy(model: Value) -> str:
    return (
        f"Call `{model.label or 'model'}.set_requires_gradient_sync(last)` before the forward, where `last` says "
        "whether the optimizer steps after this batch."
    )


def _adds_up(program: Program, backward: Backward) -> bool:
    """The step behind it is left out in some rounds."""
    return any(
        same_round(backward, step)
        and step.order > backward.order
        and step.condition.difference(backward.condition).depending_on(Divergence.BATCH_INDEX)
        for step in program.events(OptimizerStep)
    )


def _sharded_before(program: Program, event: GradientSync, model: Value) -> Wrap | None:
    """Where the model was surely sharded by then, whatever led here."""
    wraps = [each for each in program.events(Wrap) if each.wrapper == model and each.order < event.order]
    sharded = (each for each in wraps if each.kind is WrapperKind.FSDP and event.condition.implies(each.condition))
    return next(sharded, None)


def _switch(program: Program, event: GradientSync) -> Repair | None:
    """Before what decides about the `no_sync` in each iteration, say the same to the model."""
    steps = [each for each in program.events(OptimizerStep) if each.order > event.order]
    known = (steps[0] if steps else event).context.conditions_at_entry[-1]
    tests = [each for each in event.condition.difference(known) if each.atom.divergence & Divergence.BATCH_INDEX]
    place = tests[0].atom.place if len(tests) == 1 else None
    if place is None:
        return None
    last = ("not (", Source(place), ")") if tests[0].holds else (Source(place),)
    return Repair(
        "Switch the reduction of gradients off where no step follows",
        (
            Before(place, ((Holds(event.target), ".set_requires_gradient_sync(", *last, ")"),)),
            Replace(event.location, (Imported("contextlib.nullcontext"), "()")),
        ),
    )
