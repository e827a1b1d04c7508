"""A loss that the model itself returns is backpropagated as `DataParallel` gathers it: one number for each GPU.

## What goes wrong

`DataParallel` runs `forward` once on each GPU and gathers what comes back. A model that returns its loss, a single
number, then gives a vector with one loss for each GPU; PyTorch warns `Was asked to gather along dimension 0, but all
input tensors were scalars; will instead unsqueeze and return a vector.` `backward()` of it ends with `RuntimeError:
grad can be implicitly created only for scalar outputs`. On a single GPU the same program works.

## Fix

`loss = loss.mean()` before `backward()`. Safe: on one GPU, the mean of a single number is that number.

## Silent when

The loss is computed from gathered outputs, outside of the model; it is reduced on the path with several GPUs, as by
`if n_gpu > 1: loss = loss.mean()`; `backward` is given the gradient; whether the model returns a single number is not
known; `device_ids` names one GPU.

## Sources

pytorch/pytorch#9811, Lightning-AI/pytorch-lightning#249, airsplay/lxmert#17, ifzhang/FairMOT#278.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Location, Safety, Severity
from gpudoctor.lint.domain.value import Value
from gpudoctor.lint.events.acting_place import parting
from gpudoctor.lint.events.model import Forward, Wrap
from gpudoctor.lint.events.training_step import Backward
from gpudoctor.lint.repair.repair import Before, Holds, Repair, Replace, Source
from gpudoctor.rule import Findings, Program, Rule
from gpudoctor_rules.wrap._training import is_wrapper_of


class DataParallelLossNotReduced(Rule):
    code = "GPU108"
    severity = Severity.ERROR
    errors = (
        "RuntimeError: grad can be implicitly created only for scalar outputs",
        "UserWarning: Was asked to gather along dimension 0, but all input tensors were scalars; will instead "
        "unsqueeze and return a vector.",
    )
    stops = True
    fix_safety = Safety.SAFE
    needs = (Backward,)
    looks_at = ((Backward, "of_each_gpu"),)

    def in_code(self, program: Program) -> Findings:
        told: set[Location] = set()
        for backward in program.events(Backward):
            if not backward.of_each_gpu or backward.location in told:
                continue
            call, wrap = _gathered_by(program, backward)
            if wrap is None or call is None:
                continue
            told.add(backward.location)
            # What scales and goes backward for everybody takes the loss as it is.
            place = parting(backward, call)
            yield self.found(
                place,
                "What is backpropagated here is one loss for each GPU, because `DataParallel` gathers what `forward` "
                "returns: `grad can be implicitly created only for scalar outputs`.",
                remedy="Take the mean over the GPUs first: `loss = loss.mean()`; on a single one it changes nothing.",
                because=[
                    ("the model returns its loss here", call.location),
                    ("it is wrapped here", wrap.location),
                    ("it is backpropagated here", backward.location),
                ],
                repair=_reduce(backward.location, backward.loss) if place == backward.location else None,
            )


def _reduce(at: Location, loss: Value) -> Repair:
    title = "Take the mean over the GPUs"
    inline = Repair(title, (Replace(at, (Source(at, "receiver"), ".mean()"), part="receiver"),))
    # A name goes on to the log, which wants the mean as well.
    return Repair(title, (Before(at, ((Holds(loss), " = ", Holds(loss), ".mean()"),)),), otherwise=inline)


def _gathered_by(program: Program, backward: Backward) -> tuple[Forward | None, Wrap | None]:
    """The call whose results were gathered, and the wrapper that did it."""
    for call in program.calls_in_graph(backward):
        for wrap in program.events(Wrap):
            if wrap.is_data_parallel and not wrap.on_one_gpu and is_wrapper_of(call.module, wrap):
                return call, wrap
    return None, None
