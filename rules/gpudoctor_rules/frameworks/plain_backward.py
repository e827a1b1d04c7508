"""`loss.backward()` is called on a loss whose framework has to scale it, or hook it, itself.

## What goes wrong

`accelerator.backward(loss)` divides the loss by `gradient_accumulation_steps`, scales it for FP16, and hands it to
DeepSpeed where that is in charge. `loss.backward()` does none of it: with `gradient_accumulation_steps=4`, four
gradients are summed instead of averaged, on every rank (each process, one for each GPU); with `mixed_precision="fp16"`
the step ends with `AssertionError: Attempted step but _scale is None`; and under DeepSpeed gradients may stay on their
rank. Which of these it is, the configuration of `accelerate launch` decides as well. Fabric refuses it with mixed
precision or DeepSpeed: `RuntimeError: The current strategy and precision selection requires you to call
fabric.backward(loss) instead of loss.backward()`. So does DeepSpeed's engine for FP16, and without ZeRO: `RuntimeError:
Loss scaling is required for this configuration`, or `Direct calls to tensor.backward() are not supported`. Older
versions than 0.18 say nothing, and leave each rank its own gradients. In Lightning's manual optimization, DDP averages
only what `self.manual_backward(loss)` has announced: after `loss.backward()` each rank trains a model of its own.

## Fix

Call `accelerator.backward(loss)`, `fabric.backward(loss)`, `engine.backward(loss)` or `self.manual_backward(loss)`.
Safe: without any of these
settings, both do the same.

## Silent when

The model was not prepared; a gradient scaler of the program has scaled the loss; the program calls the framework's own
where this one is not reached; Accelerate is told a `mixed_precision` other than `"fp16"`, and to accumulate nothing;
it is told neither, and the program has no optimizer, as one that only compares gradients; Fabric is told no mixed
precision, and no option makes it one by default; the configuration of DeepSpeed is not in the program, or names ZeRO or
BF16; in Lightning's manual optimization with another strategy than DDP.

## Sources

https://huggingface.co/docs/accelerate/package_reference/accelerator#accelerate.Accelerator.backward,
https://lightning.ai/docs/fabric/stable/api/fabric_methods.html#backward.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Finding, Location, Safety, Severity
from gpudoctor.lint.domain.group import ManagedObject
from gpudoctor.lint.domain.module import Wrapper
from gpudoctor.lint.domain.value import Value
from gpudoctor.lint.events.knowledge import LoopRun, OwnOptimization, UseManaged
from gpudoctor.lint.events.training_step import Backward, MakeOptimizer, OptimizerStep
from gpudoctor.lint.questions.names import in_code
from gpudoctor.lint.repair.repair import Code, Holds, Repair, Replace, Source
from gpudoctor.rule import CrashText, DriftText, Findings, Program, Recording, Rule
from gpudoctor_rules.frameworks._charge import (
    ACCELERATE,
    DEEPSPEED,
    LIGHTNING,
    constant,
    leaves_gradients_alone,
    prepared_for,
    taken_in_charge,
    usual,
)
from gpudoctor_rules.frameworks._engine import made_at

Owner = ManagedObject | Wrapper
Wrong = tuple[str, str, Severity]
REFUSED = "requires you to call `fabric.backward(loss)`"
MIXED = ("16-mixed", "bf16-mixed", "16", "bf16", 16)


class PlainBackward(Rule):
    code = "GPU906"
    severity = Severity.ERROR
    stops = False
    errors = (
        "AssertionError: Attempted step but _scale is None.",
        "RuntimeError: The current strategy and precision selection requires you to call fabric.backward(loss) "
        "instead of loss.backward()",
        "RuntimeError: Loss scaling is required for this configuration",
    )
    fix_safety = Safety.SAFE
    needs = (UseManaged,)
    crash = CrashText(REFUSED, remedy="Call `fabric.backward(loss)`.")
    drift = DriftText(
        "a backward bypassed the framework, so that nobody has averaged its gradients",
        "Call the `backward` of the framework.",
    )

    def in_code(self, program: Program) -> Findings:
        for backward in program.events(Backward):
            if backward.managed or backward.scaler is not None:
                continue
            own = _in_own_optimization(program, backward)
            if own is not None:
                yield self._of_lightning(backward, *own)
                continue
            prepared = prepared_for(program, backward)
            owner = prepared.managed if prepared is not None else _engine(program, backward)
            charge = _charge_of(program, owner)
            if owner is None or charge is None or _is_other_branch(program, backward, charge.framework):
                continue
            wrong = _what_goes_wrong(program, charge, backward)
            if wrong is not None:
                yield self._found(backward, owner, charge, wrong)

    def in_run(self, recording: Recording) -> Findings:
        place = _whole_loss(recording) if self.code in recording.suspected else None
        if place is None:
            yield from super().in_run(recording)
            return
        yield self.found(
            place,
            "A step sums the gradients of several losses that nobody has divided.",
            remedy="Call `accelerator.backward(loss)`, which divides.",
        )

    def _of_lightning(self, backward: Backward, model: Value, charge: UseManaged) -> Finding:
        loss = in_code(backward.loss, "loss")
        call: Code = (Holds(model), ".manual_backward(", Source(backward.location, "receiver"), ")")
        return self.found(
            backward.location,
            f"`{loss}.backward()` bypasses Lightning, which prepares DDP in `manual_backward`: the gradients are "
            "never averaged, and each rank trains a model of its own.",
            remedy=f"Call `self.manual_backward({loss})`.",
            because=[("the trainer is made here", charge.location)],
            doubt="" if backward.forwards else "Whether the loss comes from the forward of this module was not seen.",
            repair=Repair("Call `manual_backward`", (Replace(backward.location, call),)) if backward.plain else None,
        )

    def _found(self, backward: Backward, owns: Owner, charge: UseManaged, wrong: Wrong) -> Finding:
        message, doubt, severity = wrong
        owner = in_code(owns, "accelerator") if isinstance(owns, ManagedObject) else ""
        loss = in_code(backward.loss, "loss")
        call = (Holds(owns), ".backward(", Source(backward.location, "receiver"), ")")
        repair = Repair("Call the `backward` of the framework", (Replace(backward.location, call),))
        return self.found(
            backward.location,
            f"`{loss}.backward()` bypasses {f'`{owner}`' if owner else 'the engine'}: {message}.",
            remedy=f"Call `{owner}.backward({loss})`." if owner else "Call the engine's `backward` with the loss.",
            because=[(f"{f'`{owner}`' if owner else 'the engine'} is made here", charge.location)],
            doubt=doubt,
            severity=severity,
            repair=repair if backward.plain else None,
        )


def _in_own_optimization(program: Program, backward: Backward) -> tuple[Value, UseManaged] | None:
    """The Lightning module whose step propagates back by itself, and the trainer that has DDP average."""
    if not program.launched_in_several:
        return None
    begun = [each for each in program.events(OwnOptimization) if each.order < backward.order]
    # Which of them optimizes an option may say.
    begun = [each for each in begun if not each.condition.excludes(backward.condition)]
    ended = [each for each in program.events(LoopRun) if each.order < backward.order]
    if not begun or (ended and ended[-1].order > begun[-1].order):
        return None
    model = begun[-1].model
    calls = program.calls_in_graph(backward)
    # What a forward leaves in its batch is not followed: a step of the module propagates back through it.
    trained = not calls or any(call.module.core in program.within(model) for call in calls)
    charges = [each for each in program.events(UseManaged) if each.made is not None and each.trains]
    charge = next((each for each in charges if each.framework == LIGHTNING and not each.alone), None)
    if charge is None or not trained:
        return None
    strategy = charge.setting("strategy")
    name = constant(strategy)
    by_ddp = strategy is None or (isinstance(name, str) and name.startswith(("ddp", "auto")))
    return (model, charge) if by_ddp else None


def _engine(program: Program, backward: Backward) -> Wrapper | None:
    """DeepSpeed's engine through which these gradients flow."""
    modules = (call.module for call in program.calls_in_graph(backward))
    return next((each for each in modules if isinstance(each, Wrapper) and made_at(program, each) is not None), None)


def _charge_of(program: Program, owner: Owner | None) -> UseManaged | None:
    if owner is None:
        return None
    return made_at(program, owner) if isinstance(owner, Wrapper) else taken_in_charge(program, owner)


def _is_other_branch(program: Program, backward: Backward, framework: str) -> bool:
    """The program chooses between the two, on account of something that it knows better."""
    own = (each for each in program.events(Backward) if each.managed == framework)
    return any(each.condition.excludes(backward.condition) for each in own)


def _what_goes_wrong(program: Program, charge: UseManaged, backward: Backward) -> Wrong | None:
    if charge.framework == ACCELERATE:
        return _under_accelerate(program, charge, backward)
    if charge.framework == DEEPSPEED:
        return _under_deepspeed(charge)
    return _under_fabric(program, charge) if charge.framework == LIGHTNING else None


def _under_accelerate(program: Program, charge: UseManaged, backward: Backward) -> Wrong | None:
    steps, precision = charge.setting("gradient_accumulation_steps"), charge.setting("mixed_precision")
    if usual(program, precision) == "fp16":
        return (
            "nothing scales the loss for FP16, and the step ends with `AssertionError: Attempted step but _scale is "
            "None`",
            "",
            Severity.ERROR,
        )
    number, loss = constant(steps), backward.loss
    # Who divides the loss himself has done a part of it.
    if isinstance(number, int) and number > 1 and loss.mean:
        message = f"nothing divides the loss by `gradient_accumulation_steps={number}`"
        return f"{message}, so that gradients are {number} times too large", "", Severity.ERROR
    # Who only looks at gradients, as a test does, loses nothing.
    if leaves_gradients_alone(charge) or not any(program.events(MakeOptimizer, OptimizerStep)):
        return None
    return (
        "what `accelerate launch` is configured for, such as FP16 or DeepSpeed, leaves these gradients out",
        "Launched without any of these, nothing goes wrong.",
        Severity.WARNING,
    )


def _under_fabric(program: Program, charge: UseManaged) -> Wrong | None:
    precision, strategy = (usual(program, charge.setting(name)) for name in ("precision", "strategy"))
    if precision not in MIXED and not (isinstance(strategy, str) and strategy.startswith("deepspeed")):
        return None
    message = "each rank ends with `RuntimeError: The current strategy and precision selection requires you to call"
    return f"{message} fabric.backward(loss) instead of loss.backward()`", "", Severity.ERROR


def _under_deepspeed(charge: UseManaged) -> Wrong | None:
    """With ZeRO or BF16, new versions hook it themselves."""
    config = charge.config
    scaled, stage = charge.configured("fp16.enabled"), charge.configured("zero_optimization.stage")
    if scaled is True:
        message = "nothing scales the loss for FP16, and each rank ends with `RuntimeError: Loss scaling is required`"
    elif config is not None and not stage and not any(name.startswith(("bf16", "zero")) for name in config.keywords):
        message = "each rank ends with `RuntimeError: Direct calls to tensor.backward() are not supported`"
    else:
        return None
    return f"{message}, or keeps its gradients to itself before DeepSpeed 0.18", "", Severity.ERROR


def _whole_loss(recording: Recording) -> Location | None:
    """Where a loss stands that was not divided, though most steps sum the gradients of several."""
    for rank in recording.ranks[:1]:
        counts = [step.counts.get("backwards", 0) for step in rank.steps]
        if sum(count > 1 for count in counts) * 2 > len(counts):
            return next((each.place for each in rank.losses if each.scales == (1.0,)), None)
    return None
