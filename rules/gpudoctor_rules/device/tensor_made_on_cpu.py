"""A tensor is made on the CPU in the middle of what is computed on the GPU.

## What goes wrong

`torch.zeros(…)`, `torch.arange(…)` and the like make CPU tensors unless they are told otherwise. The first operation
with a tensor on the GPU ends with `RuntimeError: Expected all tensors to be on the same device, but found at least two
devices, cuda:0 and cpu!` So does a table on the CPU of which an index on the GPU picks, with `indices should be either
on cpu or on the same device as the indexed tensor`, and a buffer of a loss that nobody has moved.

## Fix

`device=x.device`, with the tensor that it meets; or `x.new_zeros(…)`, `torch.zeros_like(x)`. Not `.cuda()`, which under
`DataParallel` is the wrong GPU for all copies but one. Unsafe: a program that ran on the CPU alone changes too.

## Silent when

The tensor is a number, which may be on the CPU, or not certainly more than that; it is moved before it is used; a test
of it leads here, as one that makes it anew, or one that says that a tensor is on no GPU; it only picks items or says
lengths; `torch.set_default_device` is used; where the other tensor lies is not known.

## Sources

pytorch/pytorch#1500, pytorch/pytorch#2641, Lightning-AI/pytorch-lightning#3674, VinAIResearch/Blur2Blur#7,
zhiheLu/CWT-for-FSS#12.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Finding, Safety, Severity
from gpudoctor.lint.domain.tensor import Tensor, buffer_of
from gpudoctor.lint.domain.value import Value
from gpudoctor.lint.events.collective import Discard
from gpudoctor.lint.events.model import Forward
from gpudoctor.lint.events.placement import ConstantMixed, Move, TensorKept
from gpudoctor.lint.questions.asked_in_tests import asks_about_made, says_on_cpu
from gpudoctor.lint.questions.names import name_of
from gpudoctor.lint.repair.repair import Code, Holds, Repair, Replace, Source
from gpudoctor.rule import Findings, Program, Rule
from gpudoctor_rules._error_texts import TWO_DEVICES


class TensorMadeOnCpu(Rule):
    code = "GPU213"
    severity = Severity.ERROR
    errors = TWO_DEVICES
    stops = True
    fix_safety = Safety.UNSAFE
    needs = (ConstantMixed,)

    def in_code(self, program: Program) -> Findings:
        # What a module keeps should be a buffer: GPU211 says so. A move that was dropped is the cause: GPU203.
        kept = {each.tensor.root for each in program.events(TensorKept)}
        dropped = {each.location for each in program.events(Discard)}
        moved = (each.subject for each in program.events(Move) if each.location in dropped)
        kept |= {subject.root for subject in moved if isinstance(subject, Tensor)}
        for event in program.events(ConstantMixed):
            # Each operation is one mistake: a tensor may be moved for one of them.
            tensor = event.constant
            if tensor.root in kept or any(
                asks_about_made(test, tensor) or says_on_cpu(test) for test in event.condition.literals
            ):
                continue
            owner = buffer_of(tensor)
            if owner is not None:
                # Of what has weights, and goes with what it is a part of, GPU202 speaks.
                called = any(each.module.core == owner for each in program.events(Forward))
                if not called and not any(owner in parts for parts in program.parts.values()):
                    yield self._of_a_buffer(event, owner)
                continue
            # A layer is best named by its weights: they are what lies on the GPU.
            met = f"the weights of {name_of(event.module)}" if event.module is not None else _met(event)
            yield self.found(
                event.location,
                f"`{tensor.label}` is made on the CPU and meets {met} on the GPU: this ends in an error.",
                remedy=f"Make it where the other one is: {_there(event.other)}.",
                because=[("it comes from here", tensor.place if tensor.place != event.location else None)],
                repair=_make_there(tensor, event.other),
                cause=tensor.place,
                needs=program.shared_by(event),
            )

    def _of_a_buffer(self, event: ConstantMixed, owner: Value) -> Finding:
        name = name_of(owner, "the module")
        return self.found(
            event.location,
            f"`{event.constant.label}` is a buffer of {name}, which was never moved, and meets {_met(event)} on the "
            "GPU: this ends in an error.",
            remedy=f"Move {name} as the model is moved: it takes its buffers along.",
            because=[("it is made here, on the CPU", owner.place)],
        )


def _there(other: Tensor) -> str:
    label = other.label
    # What is computed on the spot has no name to ask.
    named = label and label[-1] not in ")." and " " not in label
    return f"`device={label}.device`" if named else "give it that device"


def _make_there(tensor: Tensor, other: Tensor) -> Repair:
    to: Code = (Source(tensor.place), ".to(", Holds(other), ".device)")
    return Repair("Make it where the other one is", (Replace(tensor.place, to),))


def _met(event: ConstantMixed) -> str:
    label = event.other.label
    return f"`{label}`" if label else "a tensor"
