"""A module keeps a tensor as a plain attribute, and uses it on the GPU.

## What goes wrong

`model.cuda()`, `.to(device)` and the wrappers move parameters and registered buffers, and nothing else. A tensor that
`__init__` makes and keeps as an attribute stays on the CPU, or on the first GPU: `RuntimeError: Expected all tensors to
be on the same device, but found at least two devices, cuda:0 and cpu!` Checkpoints do not hold it either.

## Fix

`self.register_buffer("weights", tensor)`, with `persistent=False` where old checkpoints must still load. Unsafe: the
buffer then has a key in state dicts.

## Silent when

The attribute is moved where it is used; it is a number, which may be on the CPU, or not certainly more than that; it
only picks items (`x[index]`); where it was made, or where the model is, is not known. A tensor on a GPU is a mistake
only under `DataParallel` with several of them.

## Sources

XunhaoLai/native-sparse-attention-triton#15, Lightning-AI/pytorch-lightning#1978, pytorch/pytorch#1500,
https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.register_buffer.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Safety, Severity
from gpudoctor.lint.domain.tensor import Tensor
from gpudoctor.lint.domain.value import Value
from gpudoctor.lint.events.event_context import Event
from gpudoctor.lint.events.model import Wrap
from gpudoctor.lint.events.placement import ConstantMixed, FixedMet, TensorKept
from gpudoctor.lint.questions.asked_in_tests import says_on_cpu
from gpudoctor.lint.repair.repair import Code, Repair, Rewrite, Source
from gpudoctor.rule import Findings, Program, Rule
from gpudoctor_rules._error_texts import TWO_DEVICES


class TensorNotABuffer(Rule):
    code = "GPU211"
    severity = Severity.WARNING
    errors = TWO_DEVICES
    fix_safety = Safety.UNSAFE
    needs = (ConstantMixed, FixedMet)

    def in_code(self, program: Program) -> Findings:
        # What is computed from a constant, as `self.table[:n]`, is known by what it began as.
        kept = {each.tensor.root: each for each in program.events(TensorKept)}
        for event in program.events(ConstantMixed, FixedMet):
            met = _met(event, program)
            # A class that moves its tensors by itself was written with this in mind.
            origin = kept.get(met.root) if isinstance(met, Tensor) else None
            if origin is None or origin.taken_along:
                continue
            # `if x.is_cuda and not self.table.is_cuda: self.table = self.table.cuda()`: it is moved in the forward.
            if any(says_on_cpu(test) for test in event.condition.literals):
                continue
            # One mistake, however often the tensor is used.
            yield self.found(
                origin.location,
                f"`{origin.name}` is a plain attribute, so that {_stays(event)}: this ends in an error.",
                remedy=f'Register it: `self.register_buffer("{origin.name}", ...)`.',
                because=[(_meets(event), event.location)],
                repair=_register(origin),
            )


def _met(event: Event, program: Program) -> Value | None:
    """The tensor that is not where the others are."""
    if not isinstance(event, FixedMet):
        return event.constant if isinstance(event, ConstantMixed) else None
    wraps = [wrap for wrap in program.events(Wrap) if wrap.wrapper == event.wrapper]
    # A single GPU holds them all.
    alone = any(wrap.opaque or wrap.on_one_gpu for wrap in wraps)
    return event.fixed if wraps and not alone else None


def _stays(event: Event) -> str:
    if not isinstance(event, FixedMet):
        return "it stays on the CPU when the module moves, and meets tensors on the GPU"
    return (
        "all copies of the model that `DataParallel` makes use the one on a single GPU, and it meets tensors on the "
        "others"
    )


def _meets(event: Event) -> str:
    return "it meets a tensor on the GPU " + ("of each copy here" if isinstance(event, FixedMet) else "here")


def _register(origin: TensorKept) -> Repair:
    at = origin.location
    name = origin.name.rpartition(".")[2]
    # Not persistent, so that checkpoints which were written before can still be loaded.
    line: Code = (
        Source(at, "owner"), f'.register_buffer("{name}", ', Source(at, "value"), ", persistent=False)"
    )  # fmt: skip
    return Repair("Register it as a buffer", (Rewrite(at, line),))
