"""An attribute of the model is read from its wrapper, or `.module` from a model that is not wrapped.

## What goes wrong

`DataParallel(model)` and `DistributedDataParallel(model)` return a module that holds the model as `.module`. They pass
on the call, `parameters()`, `train()` and the like, and nothing of the model's own. The program ends with
`AttributeError: 'DistributedDataParallel' object has no attribute 'encoder'`, and often late: at the first validation,
or when the checkpoint is written.

The other way round, a model that no wrapper holds has no `.module`: a line left from a run on several GPUs, or one of
several models that nobody wraps, ends every process with `AttributeError: 'Net' object has no attribute 'module'`.

To set an attribute of the model on its wrapper, as in `model.dropping = False`, is no error: the wrapper gets one of
that name, and the model goes on with the value that it had.

## Fix

Write `.module` between the wrapper and the attribute. Safe for reading. A method that computes the training loss must
be reached through `forward` instead, or the wrapper is bypassed (GPU102). Where a model is wrapped on some paths only,
read `model.module if hasattr(model, "module") else model`.

## Silent when

Every module has the attribute, or the wrapper itself; a test such as `hasattr(model, "module")`, `isinstance(model,
DistributedDataParallel)`, or one that could not be read, comes first; the wrapper is `FullyShardedDataParallel` or
`torch.compile`, which pass attributes on, or a subclass of its own; a handler names the error, or ignores all errors;
a handler asks, and the model is wrapped on some paths only; a framework has prepared the model, and nothing is trained.
`.module`: the model was passed to code that could not be read, any other test comes first, or a handler takes the
error. A warning where a handler for all errors reports it and the program goes on, and where the model is wrapped on
some paths only, in another launch, or by a framework.

## Sources

ultralytics/yolov5#90, VinAIResearch/XPhoneBERT#7, Project-MONAI/GenerativeModels#354, SeanNaren/deepspeech.pytorch#475.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Safety, Severity
from gpudoctor.lint.domain.module import Wrapper, WrapperKind
from gpudoctor.lint.events.knowledge import LoopRun
from gpudoctor.lint.events.model import AttributeMissed, AttributeShadowed, BareAsked, Forward, Wrap
from gpudoctor.lint.events.training_step import Backward, MakeOptimizer, OptimizerStep
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.questions.asked_in_tests import (
    asks_about,
    asks_for_kind_of_launch,
    ways_told,
    where_something_is_raised,
)
from gpudoctor.lint.questions.names import name_of
from gpudoctor.lint.repair.repair import Repair
from gpudoctor.lint.repair.snippets import model_inside
from gpudoctor.rule import SOME_PATHS, CrashText, Findings, Program, Rule
from gpudoctor_rules.wrap._training import begin_alike

# FSDP and `torch.compile` forward attribute access to the module inside; these two do not.
KINDS = (WrapperKind.DDP, WrapperKind.DATA_PARALLEL)


ERROR = "AttributeError"
_ITEM = "__getitem__"


class AttributeOnWrapper(Rule):
    code = "GPU104"
    severity = Severity.ERROR
    errors = (
        "AttributeError: 'DistributedDataParallel' object has no attribute 'encoder'",
        "AttributeError: 'DataParallel' object has no attribute 'encoder'",
        "TypeError: 'DistributedDataParallel' object is not subscriptable",
    )
    fix_safety = Safety.SAFE
    shows_when = ("ended_well",)
    needs = (AttributeMissed, AttributeShadowed, BareAsked)
    crash = CrashText(
        "Parallel' object has no attribute",
        because="the wrapper has none of the model's attributes",
        remedy="Read it from the model inside: `model.module.name`.",
    )

    def in_code(self, program: Program) -> Findings:
        yield from self._asked_of_wrappers(program)
        yield from self._set_on_wrappers(program)
        for event in program.events(BareAsked):
            wraps = [wrap for wrap in program.events(Wrap) if wrap.inner.core == event.model]
            if program.is_caught(event, ERROR) or _may_be_told_apart(event, wraps):
                continue
            sometimes = bool(wraps) or len(program.worlds) > 1
            model = name_of(event.model)
            yield self.found(
                event.location,
                f"{model} is wrapped on some paths only, and on the others it has no `module`: they end in an "
                "`AttributeError`." if wraps else
                f"{model} is not wrapped, and has no `module`: this ends in an `AttributeError`.",
                remedy='Where the model may also run without a wrapper, ask `hasattr(model, "module")` first.'
                if sometimes else "Leave `.module` out, or wrap the model before.",
                because=[("wrapped here", wrap.wrapper.place) for wrap in wraps[:1]],
                doubt=SOME_PATHS if sometimes else "",
                severity=Severity.WARNING if sometimes else None,
                needs=program.shared_by(event),
                # Wherever it is asked for: the model should have been wrapped.
                cause=event.model.place,
            )  # fmt: skip

    def _set_on_wrappers(self, program: Program) -> Findings:
        for event in program.events(AttributeShadowed):
            wrapper = event.wrapper
            if wrapper.kind not in KINDS or _asked_before(event, wrapper) or _may_be_alone(program):
                continue
            sometimes = bool(program.managed_by) or _wrapped_sometimes(program, wrapper)
            yield self.found(
                event.location,
                f"`{event.name}` is set on the wrapper {name_of(wrapper)}, where the model inside does not look: it "
                "goes on with the value that it had.",
                remedy=f"Set it on the model: `.module.{event.name} = ...`.",
                because=[("wrapped here", wrapper.place)],
                doubt=SOME_PATHS if sometimes else "",
                severity=Severity.WARNING,
                repair=None
                if sometimes
                else Repair("Set it on the model inside", (model_inside(wrapper, event.location, "receiver"),)),
                needs=program.shared_by(event),
            )

    def _asked_of_wrappers(self, program: Program) -> Findings:
        for event in program.events(AttributeMissed):
            wrapper = event.wrapper
            # What the model lacks as well is another mistake, or was set in a way that was not seen.
            if wrapper.kind not in KINDS or event.inner_has is False or _asked_before(event, wrapper):
                continue
            item = event.name == _ITEM
            handler = program.handler_of(event, "TypeError" if item else ERROR)
            if handler is not None and not handler.reports:
                continue
            if _asked_by_the_way(program, event, wrapper) or _may_be_alone(program):
                continue
            # `.module` of a wrapper around a wrapper: that it may be wrapped twice is the mistake then, if it is one.
            if any(_is_around(wrap, wrapper) and wrap.order < event.order for wrap in program.events(Wrap)):
                continue
            model, lacks = name_of(wrapper), "items" if item else f"`{event.name}`"
            error = (
                f"`TypeError: '{wrapper.kind.value}' object is not subscriptable`" if item else "an `AttributeError`"
            )
            # A framework wraps by how it is launched, which the program does not say.
            sometimes = bool(program.managed_by) or _wrapped_sometimes(program, wrapper)
            # `try: model.module.size` with `except: model.size` comes there where it is not wrapped.
            if sometimes and where_something_is_raised(event.condition):
                continue
            ends = ", which is caught: what is tried here is never done." if handler is not None else "."
            yield self.found(
                event.location,
                f"{model} is a `{wrapper.kind.value}`{' on some paths' if sometimes else ''}, which has no {lacks}: "
                f"this ends in {error}{ends}",
                remedy=_remedy(program, event),
                because=[
                    ("wrapped here", wrapper.place),
                    *([("this handler takes the error", handler.location)] if handler is not None else []),
                ],
                doubt=SOME_PATHS if sometimes else "The model may lack it as well." if event.inner_has is None else "",
                severity=Severity.WARNING if sometimes or handler is not None else None,
                repair=None if sometimes or _leads_to_training(program, event) else _reach(event, wrapper),
                needs=program.shared_by(event),
                # A function that is handed the model with a wrapper or without one may ask it for many.
                cause=event.context.calls[-1] if sometimes and event.context.calls else None,
            )


def _is_around(wrap: Wrap, wrapper: Wrapper) -> bool:
    """The same line has wrapped the wrapper again, in another round of a loop."""
    return wrap.inner == wrapper and isinstance(wrap.wrapper, Wrapper) and wrap.wrapper.place == wrapper.place


def _reach(event: AttributeMissed, wrapper: Wrapper) -> Repair:
    what = "the item" if event.name == _ITEM else f"`{event.name}`"
    return Repair(f"Read it from the model inside: {what}", (model_inside(wrapper, event.location, "receiver"),))


def _leads_to_training(program: Program, event: AttributeMissed) -> bool:
    """It runs the model to train it."""
    places = (call.reached_at for call in program.events(Forward) if call.graph and call.reached_at)
    return any(begin_alike(place, event.location) for place in places)


def _remedy(program: Program, event: AttributeMissed) -> str:
    # What runs the model to train it must not be told to write `.module`: that is GPU102.
    if _leads_to_training(program, event):
        return (
            f"Let `forward` call `{event.name}`, and call the wrapper itself: `.module.{event.name}` would leave the "
            "wrapper out, and with it the other GPUs."
        )
    if event.name == _ITEM:
        return "The model is inside the wrapper: write `.module[...]`."
    if event.inner_has is None:
        return f"If the model inside has it, write `.module.{event.name}`."
    return (
        f"The model is inside the wrapper: write `.module.{event.name}`. Where the model may also run without "
        'a wrapper, ask `hasattr(model, "module")` first.'
    )


def _may_be_told_apart(event: BareAsked, wraps: list[Wrap]) -> bool:
    """A test comes first that may have the same answer as the one that decides about the wrapper."""
    if any(asks_about(literal, event.model) for literal in event.condition):
        return True
    keys = {literal.atom.key for wrap in wraps for literal in wrap.condition}
    left = [literal.atom for literal in event.condition if literal.atom.key not in keys]
    # The rank decides nothing about the model, and the batch neither, unless it does.
    counted = any(wrap.condition.depending_on(Divergence.BATCH_INDEX) for wrap in wraps)
    unrelated = Divergence.RANK if counted else Divergence.RANK | Divergence.BATCH_INDEX
    return bool(wraps) and any(not atom.divergence & unrelated for atom in left)


def _asked_before(event: AttributeMissed | AttributeShadowed, wrapper: Wrapper) -> bool:
    """A test that could not be answered was given the wrapper: it may be the one that finds out about it."""
    # How the program was launched decides which wrapper it is.
    return any(asks_about(literal, wrapper) or asks_for_kind_of_launch(literal) for literal in event.condition)


def _may_be_alone(program: Program) -> bool:
    """A framework has prepared the model, and nothing trains: a tool that one process runs is not wrapped."""
    trains = program.has(Backward, OptimizerStep, MakeOptimizer, LoopRun)
    return bool(program.managed_by) and not trains and not program.started_in_several


def _asked_by_the_way(program: Program, event: AttributeMissed, wrapper: Wrapper) -> bool:
    """A test had the answer of each of several ways, of wrapping in one round of a loop or another: it may tell them
    apart, as `hasattr(model, "module")` does."""
    wrapped = [wrap.condition.literals for wrap in program.events(Wrap) if wrap.wrapper == wrapper and wrap.condition]
    told = [way.literals for literal in event.condition for way in ways_told(literal)]
    return any(not when.isdisjoint(each) for when in wrapped for each in told)


def _wrapped_sometimes(program: Program, wrapper: Wrapper) -> bool:
    # A wrap under a condition, as on the number of GPUs, leaves a way on which the attribute is there.
    return any(event.condition for event in program.events(Wrap) if event.wrapper == wrapper)
