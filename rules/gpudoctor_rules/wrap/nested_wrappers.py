"""A model that is wrapped already is wrapped again.

## What goes wrong

`DistributedDataParallel` around `DistributedDataParallel` averages all gradients twice and saves its weights under
`module.module.…`, which no other program can load. `DistributedDataParallel` around `DataParallel` makes each process
use all GPUs of the machine, and ends in `module must have its parameters and buffers on device cuda:0 (device_ids[0])
but found one of them on device: cuda:3`, or runs out of memory.

The engine of `deepspeed.initialize` averages the gradients itself, too.

## Fix

Keep one wrapper: `DistributedDataParallel` with one process for each GPU. Where a helper may have wrapped the model
already, ask `isinstance(model, DistributedDataParallel)`. No automatic fix: which of the two is meant is not known.

## Silent when

The two wraps stand in branches of which only one is taken; the inner one is `torch.compile`, activation checkpointing,
or `FullyShardedDataParallel` of a part of the model.

## Sources

ethnhe/FFB6D#4.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.domain.module import Wrapper, WrapperKind
from gpudoctor.lint.events.event_context import Event
from gpudoctor.lint.events.knowledge import UseManaged
from gpudoctor.lint.events.model import Wrap
from gpudoctor.lint.questions.names import name_of
from gpudoctor.rule import Findings, Program, Recording, Rule

# FSDP inside DDP is left out: that is how a model is sharded within a node and copied between nodes.
NEVER_INSIDE = {
    WrapperKind.DDP: (WrapperKind.DDP, WrapperKind.DATA_PARALLEL, WrapperKind.PREPARED),
    WrapperKind.DATA_PARALLEL: (WrapperKind.DDP, WrapperKind.DATA_PARALLEL, WrapperKind.FSDP, WrapperKind.PREPARED),
    WrapperKind.FSDP: (WrapperKind.DDP, WrapperKind.DATA_PARALLEL),
    WrapperKind.PREPARED: (WrapperKind.DDP, WrapperKind.DATA_PARALLEL),
}
"""For each outer wrapper the ones that it must not find in the module that it is given."""


class NestedWrappers(Rule):
    code = "GPU105"
    severity = Severity.ERROR
    shows_when = ("ranks.wraps",)
    needs = (Wrap,)
    looks_at = ((Wrap, "nested"),)

    def in_code(self, program: Program) -> Findings:
        for event in program.events(Wrap):
            wrong = _wrongly_inside(event)
            # A wrap inside the loop over epochs meets its own result: that is GPU121.
            if wrong is None or wrong.place == event.location:
                continue
            made = [each for each in program.events(UseManaged, Wrap) if each.location == wrong.place]
            by = _framework(made, wrong)
            there, inner = (
                (f"{by} has wrapped this model already", f"by {by}")
                if by
                else (f"{name_of(wrong)} is a `{wrong.kind.value}` already", f"in `{wrong.kind.value}`")
            )
            yield self.found(
                event.location,
                f"{there}, and {_name_of_kind(event.kind)} wraps it again: {_harm(event.kind, wrong.kind)}",
                remedy="Wrap the bare model once: drop one of the two wrappers, or wrap "
                "only where `isinstance` says that it is not done yet.",
                because=[(f"wrapped {inner} here", wrong.place)],
                needs=[literal for each in made[:1] for literal in each.condition],
                doubt="" if _all_wrong(program, event) else "Another of the models that are wrapped here may be bare.",
                by=event,
            )

    def in_run(self, recording: Recording) -> Findings:
        for wrap in {wrap.place: wrap for rank in recording.ranks for wrap in rank.wraps if wrap.nested}.values():
            # Wrapped at one line again and again is another mistake.
            times = [each.place for each in recording.ranks[0].wraps].count(wrap.place)
            if wrap.place is not None and times < 2:
                yield self.found(
                    wrap.place,
                    f"`{wrap.wrapper}` was put around a model that holds "
                    "a wrapper already: gradients are averaged twice.",
                    remedy="Wrap the bare model, once.",
                )


def _wrongly_inside(event: Wrap) -> Wrapper | None:
    # The inner module must be a wrapper on every path: `model` from an `if` with two outcomes may be bare here.
    if not isinstance(event.inner, Wrapper):
        return None
    kinds = NEVER_INSIDE.get(event.kind, ())
    # The whole chain counts: `torch.compile` between the two hides nothing.
    return next((wrapper for wrapper in event.inner.chain if wrapper.kind in kinds), None)


def _all_wrong(program: Program, event: Wrap) -> bool:
    here = [each for each in program.events(Wrap) if each.location == event.location]
    return event.certain or all(_wrongly_inside(each) is not None for each in here)


def _framework(made: Sequence[Event], wrapper: Wrapper) -> str:
    """Who wrapped it, where that is the affair of a framework and no class can be named."""
    if wrapper.kind is not WrapperKind.PREPARED:
        return ""
    calls = (event.call for event in made if isinstance(event, UseManaged))
    return next((f"`{call}`" for call in calls), "the framework")


def _name_of_kind(kind: WrapperKind) -> str:
    # What `prepare` makes depends on how the program is launched, so no class can be named.
    if kind is not WrapperKind.PREPARED:
        return f"`{kind.value}`"
    return "the framework"


def _harm(outer: object, inner: WrapperKind) -> str:
    if inner is WrapperKind.PREPARED:
        return (
            "gradients are averaged twice, and what the first wrapper offers, such as `backward()` and `step()` of "
            "DeepSpeed's engine, is not reached through the second."
        )
    if inner is WrapperKind.DDP and outer in (WrapperKind.DDP, WrapperKind.PREPARED):
        return "it is wrapped twice, so gradients are averaged twice and keys are saved as `module.module.…`."
    if inner is WrapperKind.DATA_PARALLEL and outer is not WrapperKind.DATA_PARALLEL:
        return "the `DataParallel` inside makes every process use all GPUs of the machine."
    return "keys are saved as `module.module.…`, and the work is split twice."
