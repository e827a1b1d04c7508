"""`no_sync()` is called on a sharded model that has none, or on an engine that refuses it.

## What goes wrong

`no_sync()` belongs to `DistributedDataParallel` and to `FullyShardedDataParallel` (FSDP1). `fully_shard` (FSDP2) puts
no wrapper around the model: it stays what it was, and gets the methods of `FSDPModule`, of which `no_sync` is none. The
first accumulated batch ends in `AttributeError: 'FSDPNet' object has no attribute 'no_sync'`. DeepSpeed's engine has a
`no_sync()`, and refuses it where ZeRO partitions the gradients: `AssertionError: no_sync context manager is
incompatible with gradient partitioning logic of ZeRO stage 2`.

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

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Finding, Safety, Severity
from gpudoctor.lint.domain.module import WrapperKind
from gpudoctor.lint.events.model import Wrap
from gpudoctor.lint.events.training_step import GradientSync, OptimizerStep
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.questions.names import name_of
from gpudoctor.lint.repair.repair import Before, Holds, Imported, Repair, Replace, Source
from gpudoctor.rule import CrashText, Rule
from gpudoctor_rules.frameworks._engine import made_at

if TYPE_CHECKING:
    from gpudoctor.api.pack import Program, Value


class NoSyncOfOtherWrapper(Rule):
    code = "GPU936"
    name = "no-sync-of-other-wrapper"
    severity = Severity.ERROR
    errors = (
        "AttributeError: 'FSDPNet' object has no attribute 'no_sync'",
        "AssertionError: no_sync context manager is incompatible with gradient partitioning logic of ZeRO stage 2",
    )
    stops = True
    fix_safety = Safety.UNSAFE
    shows_when = ("ranks.optimizers.sharded",)
    needs = (GradientSync,)
    crash = CrashText(
        "'FSDP",
        also="object has no attribute 'no_sync'",
        because="what `fully_shard` has sharded has no wrapper",
        remedy=(
            "Call `model.set_requires_gradient_sync(last)` before the forward, where `last` says whether the "
            "optimizer steps after this batch."
        ),
    )

    def in_code(self, program: Program) -> Iterator[Finding]:
        yield from self._of_engines(program)
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
                remedy=f"Call `{model.label or 'model'}.set_requires_gradient_sync(last)` before the forward, "
                "where `last` says whether the optimizer steps after this batch.",
                because=[("sharded here", shard.location)],
                repair=_switch(program, event),
                needs=program.shared_by(event),
            )

    def _of_engines(self, program: Program) -> Iterator[Finding]:
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
