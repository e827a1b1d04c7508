"""A module in which nothing is trained is wrapped in `DistributedDataParallel`.

## What goes wrong

`DistributedDataParallel` averages gradients. Where no parameter takes one, as in a frozen teacher or in a loss
function without weights, its constructor ends the program: `RuntimeError: DistributedDataParallel is not needed when a
module doesn't have any parameter that requires a gradient.`

## Fix

Drop the wrap and call the module itself: it does the same on every rank. No automatic fix, because `.module` may be in
use elsewhere.

## Silent when

Some parameters may take a gradient again: a new layer was put in, parts were taken out of the module, or code that
was not read has had it; `DataParallel` and `FullyShardedDataParallel`, which take frozen modules; a handler
takes the `RuntimeError`, and the program goes on.

## Sources

pytorch/pytorch#73168, `torch/nn/parallel/distributed.py` (the check stands in the constructor).
"""

from __future__ import annotations

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.domain.module import Wrapper
from gpudoctor.lint.events.knowledge import Escape
from gpudoctor.lint.events.model import GradientFlag, Wrap
from gpudoctor.lint.questions.names import name_of
from gpudoctor.rule import CrashText, Findings, Program, Rule


class NothingToTrain(Rule):
    code = "GPU118"
    severity = Severity.ERROR
    errors = (
        "RuntimeError: DistributedDataParallel is not needed when a module doesn't have any parameter that requires "
        "a gradient.",
    )
    shows_when = ("ended_well",)
    needs = (Wrap,)
    looks_at = ((Wrap, "trains_nothing"),)
    crash = CrashText(
        "any parameter that requires a gradient",
        remedy="Wrap what is trained, and leave what is not, such as a loss or a frozen teacher, bare.",
    )

    def in_code(self, program: Program) -> Findings:
        for wrap in program.events(Wrap):
            if not _fails(wrap):
                continue
            # A loss has no parameters at all: then nobody had to freeze it.
            frozen = _frozen_at(program, wrap)
            if _handed_on(program, wrap, since=frozen) or program.is_caught(wrap, "RuntimeError"):
                continue
            # For each fold a model is made, wrapped and then frozen: the next one is another.
            if frozen is not None and _in_an_earlier_round(frozen, wrap):
                continue
            model = name_of(wrap.inner, "the module")
            why = f"No parameter of {model} takes a gradient" if frozen is not None else f"{model} has no parameters"
            yield self.found(
                wrap.location,
                f"{why}: `DistributedDataParallel` refuses it, and every rank ends with a `RuntimeError` here.",
                remedy="Leave it unwrapped: there are no gradients to average, and each rank can call its own copy.",
                because=[("frozen here", frozen.location if frozen is not None else None)],
                by=wrap,
            )


def _fails(wrap: Wrap) -> bool:
    # The wrapper of apex, and `replicate`, have no such check.
    ours = isinstance(wrap.wrapper, Wrapper) and wrap.is_ddp
    return ours and wrap.trains_nothing and wrap.certain


def _frozen_at(program: Program, wrap: Wrap) -> GradientFlag | None:
    """Where its parameters were last told to take no gradient."""
    core = wrap.inner.core
    # `p.requires_grad = False` in a loop is logged once for each round that was followed.
    flags = (flag for flag in program.events(GradientFlag) if flag.order < wrap.order and flag.on is False)
    return max((flag for flag in flags if flag.module.core == core), key=lambda flag: flag.order, default=None)


def _in_an_earlier_round(frozen: GradientFlag, wrap: Wrap) -> bool:
    shared = zip(frozen.loops, wrap.loops, strict=False)
    return any(one.identity == other.identity and one.pass_ < other.pass_ for one, other in shared)


def _handed_on(program: Program, wrap: Wrap, since: GradientFlag | None) -> bool:
    """Code that was not read has had the module since then, and may have let it learn again."""
    # What had the module before it was frozen cannot undo that.
    begin = since.order if since is not None else 0
    held = program.within(wrap.inner) | {wrap.inner}
    return any(
        begin < escape.order < wrap.order and any(value.core in held for value in escape.values)
        for escape in program.events(Escape)
    )
