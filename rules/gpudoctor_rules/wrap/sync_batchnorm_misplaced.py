"""Layers of `SyncBatchNorm` stand where they cannot synchronise, or are made too late.

## What goes wrong

`SyncBatchNorm` computes its statistics over the processes of a process group. `DataParallel` has one process, so its
replicas each normalise their own part of the batch, as plain BatchNorm would; older versions end with
`AttributeError: SyncBatchNorm is only supported within torch.nn.parallel.DistributedDataParallel`. On the CPU the wrap
in `DistributedDataParallel` ends with `ValueError: SyncBatchNorm layers only work with GPU modules`. Converted after
the wrap, layers are replaced in a model that the wrapper has already registered. And `convert_sync_batchnorm` of
a single BatchNorm layer, unlike that of a model, changes nothing: only what it returns is new.

## Fix

Build the model, convert it, move it, wrap it in `DistributedDataParallel`, in this order. Unsafe: batch norm then
sees other statistics, which is the point.

## Silent when

Whether the layers are converted is the user's choice, and the same program can be launched with
`DistributedDataParallel` too; the conversion stands in a branch that excludes the wrap; the model in `DataParallel` is
evaluated only.

## Sources

PatrickHua/SimSiam#24, HRNet/HRNet-Semantic-Segmentation#183, NVIDIA/apex#109, pytorch/pytorch#38940,
https://docs.pytorch.org/docs/stable/generated/torch.nn.SyncBatchNorm.html.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Finding, Safety, Severity
from gpudoctor.lint.domain.module import Module, WrapperKind
from gpudoctor.lint.domain.value import Value
from gpudoctor.lint.events.collective import Discard
from gpudoctor.lint.events.launch_world import LaunchWorld
from gpudoctor.lint.events.model import ModeChange, SyncNorm, Wrap
from gpudoctor.lint.events.process import InitGroup
from gpudoctor.lint.events.training_step import Backward
from gpudoctor.lint.questions.names import name_of
from gpudoctor.lint.repair.repair import Assign, MoveUp, Repair, Source
from gpudoctor.rule import CrashText, Findings, Program, Rule

FIRST = "Convert the bare model: `model = nn.SyncBatchNorm.convert_sync_batchnorm(model)`, "


class SyncBatchnormMisplaced(Rule):
    code = "GPU110"
    severity = Severity.ERROR
    errors = (
        "ValueError: SyncBatchNorm layers only work with GPU modules",
        "AttributeError: SyncBatchNorm is only supported within torch.nn.parallel.DistributedDataParallel",
    )
    fix_safety = Safety.UNSAFE
    shows_when = ("ended_well",)
    needs = (SyncNorm,)
    crash = CrashText(
        "SyncBatchNorm layers only work with GPU modules",
        remedy="Convert to SyncBatchNorm where there are GPUs only, before the model is wrapped.",
    )

    def in_code(self, program: Program) -> Findings:
        for sync in program.events(SyncNorm):
            found = self._dropped(program, sync) or self._wrapped(program, sync)
            if found is not None:
                yield found

    def _dropped(self, program: Program, sync: SyncNorm) -> Finding | None:
        # A model of unread code is converted in place, for all that is known.
        if not isinstance(sync.given, Module) or sync.given == sync.module:
            return None
        # In this very statement: `model.cuda()` further on drops nothing.
        if not any(event.value == sync.module and event.location == sync.location for event in program.events(Discard)):
            return None
        return self.found(
            sync.location,
            f"{name_of(sync.given)} is a single BatchNorm layer: it is not "
            "changed, and the layer that is returned for it is dropped here.",
            remedy="Keep what is returned, or convert the model that holds the layer.",
            repair=Repair("Keep what is returned", (Assign(sync.location, (Source(sync.location, "0"),)),)),
        )

    def _wrapped(self, program: Program, sync: SyncNorm) -> Finding | None:
        for wrap in program.events(Wrap):
            if not _concerns(program, sync.module, wrap) or _of_earlier_call(program, sync, wrap):
                continue
            if wrap.is_data_parallel and _meet(program, sync, wrap) and not _evaluates(program):
                return self._in_one_process(sync, wrap)
            if wrap.order < sync.order and sync.given is not None and sync.condition.implies(wrap.condition):
                return self._too_late(sync, wrap) if wrap.averages and not _converted(program, wrap) else None
            if sync.order < wrap.order and wrap.condition.implies(sync.condition) and _on_cpu(program, wrap):
                return self._without_gpu(sync, wrap)
        return None

    def _in_one_process(self, sync: SyncNorm, wrap: Wrap) -> Finding:
        return self.found(
            sync.location,
            "These layers synchronise processes, and `DataParallel` has "
            "only one: each GPU still normalises its own part of the batch.",
            remedy=FIRST + "and train it with `DistributedDataParallel`, one process for each GPU.",
            because=[("the model is wrapped in `DataParallel` here", wrap.location)],
        )

    def _too_late(self, sync: SyncNorm, wrap: Wrap) -> Finding:
        kind = wrap.kind
        sharded = kind is WrapperKind.FSDP
        return self.found(
            sync.location,
            f"The model is inside `{kind.value}` already when its BatchNorm layers are replaced: "
            + (
                "the new ones do not hold the sharded weights."
                if sharded
                else "the wrapper was set up for the old ones."
            ),
            remedy=FIRST + f"and only then wrap it in `{kind.value}`.",
            because=[("it is wrapped here", wrap.location)],
            repair=Repair("Convert the layers before the wrap", (MoveUp(sync.location, wrap.location),)),
            # The new layers share weights and buffers with the old ones, so with DDP most of it still works.
            severity=None if sharded else Severity.WARNING,
        )

    def _without_gpu(self, sync: SyncNorm, wrap: Wrap) -> Finding:
        return self.found(
            wrap.location,
            "The model is on the CPU, where `SyncBatchNorm` does not work: every rank ends with an error at this wrap.",
            remedy="Move the model to the GPU of its rank before the wrap, or convert it only where there are GPUs.",
            because=[("its BatchNorm layers become `SyncBatchNorm` here", sync.location)],
        )


def _concerns(program: Program, module: Value, wrap: Wrap) -> bool:
    """The layers are in the wrapped model, or the wrapped one is a part of the converted one."""
    return module.core in program.within(wrap.inner) or wrap.inner.core in program.within(module)


def _of_earlier_call(program: Program, sync: SyncNorm, wrap: Wrap) -> bool:
    """A function that converts and wraps is called once more: what unread code gives it may be new by now."""
    call = set(wrap.context.frames)
    if isinstance(sync.given, Module) or call.issubset(sync.context.frames):
        return False
    before = (each for each in program.events(SyncNorm) if each.location == sync.location and each.order < wrap.order)
    return any(call.issubset(each.context.frames) for each in before)


def _converted(program: Program, wrap: Wrap) -> bool:
    """Its layers were replaced before the wrap, and are not replaced again."""
    return any(
        sync.order < wrap.order and wrap.condition.implies(sync.condition) and _concerns(program, sync.module, wrap)
        for sync in program.events(SyncNorm)
    )


def _meet(program: Program, sync: SyncNorm, wrap: Wrap) -> bool:
    """Both surely happen, or the user's switch for the one can lead nowhere else than to the other."""
    first, second = sorted((sync, wrap), key=lambda event: event.order)
    alone = program.worlds == {LaunchWorld.SINGLE} and not second.condition.excludes(first.condition)
    return second.condition.implies(first.condition) or alone


def _evaluates(program: Program) -> bool:
    """Nothing but an evaluation, which normalises by what was learnt in training and not by its batches."""
    return not program.has(Backward) and any(change.training is False for change in program.events(ModeChange))


def _on_cpu(program: Program, wrap: Wrap) -> bool:
    """DDP of a model on the CPU by choice: with `device_ids` or NCCL that is a mistake of its own."""
    by_choice = any(init.only_backend == "gloo" for init in program.events(InitGroup))
    return by_choice and wrap.is_ddp and wrap.names_ids is False and wrap.model_on_cpu
