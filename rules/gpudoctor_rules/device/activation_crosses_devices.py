"""A tensor on one GPU is given to a layer on another one.

## What goes wrong

A model that is spread over several GPUs has to move what one layer returns to the GPU of the next: nobody else does.
Otherwise the step ends with `RuntimeError: Expected all tensors to be on the same device, but found at least two
devices, cuda:0 and cuda:1!`

## Fix

Move the activation between the layers: `x = x.to("cuda:1")`. No automatic fix: there may be several places to do it.

## Silent when

Either GPU is not written as a number; the tensor is moved; a wrapper or a framework moves inputs; the layers are moved
again by what was not read.

## Sources

https://docs.pytorch.org/tutorials/intermediate/model_parallel_tutorial.html, pytorch/pytorch#1500.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.domain.tensor import Tensor
from gpudoctor.lint.events.placement import Crossed
from gpudoctor.lint.questions.names import name_of
from gpudoctor.rule import Findings, Program, Rule


class ActivationCrossesDevices(Rule):
    code = "GPU215"
    severity = Severity.ERROR
    errors = (
        "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and "
        "cuda:1!",
    )
    stops = True
    needs = (Crossed,)

    def in_code(self, program: Program) -> Findings:
        # What comes of it meets the next layer in the same line.
        told: set[tuple[str, int]] = set()
        for event in program.events(Crossed):
            line = (event.location.path, event.location.line)
            if program.managed_by or line in told:
                continue
            told.add(line)
            # Which of the two should move, only the author knows: the layer stays where it is.
            here, there = _gpu(event.tensor), _gpu(event.other)
            # An operation has two tensors, a layer has weights.
            other = f"the weights of {name_of(event.module)}" if event.module is not None else name_of(event.other)
            yield self.found(
                event.location,
                f"{name_of(event.tensor, 'a tensor')} is on {here} and "
                f"meets {other} on {there}: the step ends with an error.",
                remedy=f'Move it between the two: `x = x.to("{there}")`.',
                needs=program.shared_by(event),
            )


def _gpu(tensor: Tensor) -> str:
    device = tensor.device
    return f"cuda:{device.literal_index}" if device is not None and device.is_cuda else "another GPU"
