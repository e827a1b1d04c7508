"""The weights of a model change their type, or leave the GPU for a while, after it was wrapped.

## What goes wrong

`DistributedDataParallel` hooks itself to the place where each parameter collects its gradient. A change of the type
(`.half()`, `.to(torch.bfloat16)`) or of the device gives the parameter a new such place, without the hook. No error is
raised: from here on no gradient is averaged, each rank trains on its own data alone, and the copies drift apart.

## Fix

Cast and move before the wrap; to save or evaluate in another type, cast a copy (`copy.deepcopy(model.module).half()`).
Unsafe: gradients are averaged from then on, which is the point.

## Silent when

The model has that type already; the wrapper is not trained after it, or the model is wrapped again; a copy is cast;
`DataParallel`, which copies the model for each forward, and `FullyShardedDataParallel`.

## Sources

pytorch/pytorch#104336.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Safety, Severity
from gpudoctor.lint.domain.module import Module
from gpudoctor.lint.domain.value import Value
from gpudoctor.lint.events.model import Wrap
from gpudoctor.lint.events.placement import Move
from gpudoctor.lint.questions.names import name_of
from gpudoctor.lint.repair.repair import MoveUp, Repair
from gpudoctor.rule import DriftText, Findings, Program, Rule
from gpudoctor_rules.wrap._later import ddp_around, trained_after

PLAIN = ("torch.nn.", "torchvision.models.")
"""Libraries whose models are made of 32 bit numbers, unless they are told otherwise."""


class CastAfterWrap(Rule):
    code = "GPU116"
    severity = Severity.ERROR
    fix_safety = Safety.UNSAFE
    shows_when = ("distributed", "trained")
    needs = (Move,)
    looks_at = ((Move, "to_dtype"), (Move, "to_cpu"))
    drift = DriftText(
        "the wrapper does not average the parameters that the cast has made", "Cast the model first, and wrap it then."
    )

    def in_code(self, program: Program) -> Findings:
        for move in program.events(Move):
            if not isinstance(move.subject.core, Module):
                continue
            wrap = ddp_around(program, move.subject, move)
            change = _change(program, move, wrap) if wrap is not None else ""
            if wrap is None or not change or trained_after(program, wrap, move) is None:
                continue
            model = name_of(wrap.wrapper)
            yield self.found(
                move.location,
                f"{model} {change} after it was wrapped, which cuts its parameters off from the wrapper: no gradient "
                "is averaged any more, and the ranks drift apart.",
                remedy="Do it before `DistributedDataParallel`, or to a copy: `copy.deepcopy(...)` of its `.module`.",
                because=[("wrapped here", wrap.location)],
                repair=Repair("Do it before the wrap", (MoveUp(move.location, wrap.location),)),
                by=move,
            )


def _change(program: Program, move: Move, wrap: Wrap) -> str:
    """What happens to the parameters, an empty text where nothing surely does."""
    # A cast to the type that it has leaves every parameter as it was.
    before = _type_of(program, move)
    # `.to(args.dtype)` may be the type that it has.
    if move.to_dtype and before and move.to_dtype != before:
        return f"is cast to {move.to_dtype}"
    # Wherever it goes back to: on the CPU the parameters are others already.
    return "is moved to the CPU" if move.to_cpu and wrap.model_on_gpu else ""


def _type_of(program: Program, move: Move) -> str:
    """The type of a model's numbers at this moment, an empty text where that is not known."""
    core = move.subject.core
    # `.half()` of the whole casts its parts.
    casts = [
        each
        for each in program.events(Move)
        if each.order < move.order and each.dtype and core in program.within(each.subject)
    ]
    # A cast under a test, as `if half: model.half()`, leaves the type open.
    if casts:
        return casts[-1].to_dtype if move.condition.implies(casts[-1].condition) else ""
    return "float32" if _made_of_plain_numbers(core) else ""


def _made_of_plain_numbers(core: Value) -> bool:
    # What was loaded by a library of ready models may have come in any type.
    return isinstance(core, Module) and (core.cls is not None or core.made_by.startswith(PLAIN))
