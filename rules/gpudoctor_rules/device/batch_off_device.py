"""A batch is still on the CPU when it meets a model, or its outputs, on the GPU.

## What goes wrong

A `DataLoader` yields its batches in the memory of the CPU. Where one of their tensors meets the weights or the outputs
of a model on the GPU, the step ends with `RuntimeError: Expected all tensors to be on the same device, but found at
least two devices, cuda:0 and cpu!`, or with `Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor)
should be the same`. With DDP and `device_ids`, and with DataParallel, the wrapper brings the inputs of the model to
the GPU, so that it is the targets that are forgotten most often.

## Fix

Move the tensor to the device of the model at the start of the iteration, `x = x.to(device, non_blocking=True)`.
Unsafe: lint has to guess which name is the right device.

## Silent when

The wrapper moves its inputs; the data set, the collate function or an iterator of the program may move them; a
framework prepares the loader; the tensor was moved on some path, or without effect (that is GPU203).

## Sources

SamLynnEvans/Transformer#27, pxq0312/SFANet#5, hangyu94/Ada-CM#10,
https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html.
"""

from __future__ import annotations

from collections.abc import Hashable

from gpudoctor.diagnostic import Location, Safety, Severity
from gpudoctor.lint.domain.device import Device
from gpudoctor.lint.domain.tensor import Tensor, TensorOrigin
from gpudoctor.lint.domain.value import Value
from gpudoctor.lint.events.collective import Discard
from gpudoctor.lint.events.model import Wrap
from gpudoctor.lint.events.placement import Mixed, Move
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.questions.devices_compared import device_called
from gpudoctor.lint.questions.loop_rounds import batch_loop
from gpudoctor.lint.questions.names import name_of
from gpudoctor.lint.repair.repair import Before, Code, First, Holds, Repair
from gpudoctor.lint.repair.snippets import moved_to
from gpudoctor.rule import Findings, Program, Rule
from gpudoctor_rules._error_texts import TWO_DEVICES
from gpudoctor_rules.device.move_discarded import MOVES


class BatchOffDevice(Rule):
    code = "GPU201"
    severity = Severity.ERROR
    errors = TWO_DEVICES
    stops = True
    fix_safety = Safety.UNSAFE
    needs = (Mixed,)

    def in_code(self, program: Program) -> Findings:
        # `prepare` and trainers wrap loaders so that batches arrive on the device.
        if program.managed_by - program.leaving("batches"):
            return
        # A move whose result was dropped is the cause, and GPU203 names it.
        in_vain, told = _moved_in_vain(program), set[Location]()
        first: dict[Hashable, Location] = {}
        for event in program.events(Mixed):
            # A CPU tensor that is no batch may be a scalar, which PyTorch lets meet a GPU tensor.
            left = next((each for each in map(_batch, event.on_cpu) if each is not None), None)
            if left is None or left.batch_of in in_vain or event.location in told or _may_be_scattered(program, event):
                continue
            if _may_be_any_part(program, event, left):
                continue
            told.add(event.location)
            # To move it once mends all places in its loop that use it.
            loop = batch_loop(event)
            mended = (left.batch_of, left.label, loop and loop.location)
            other = next(iter(event.on_device), None)
            yield self.found(
                at=event.location,
                message=f"`{left.label}` is on the CPU here, as {_source(left)} yields it, and meets "
                f"{_partner(program, event, other)}: the step ends with an error.",
                remedy=_remedy(left),
                because=[
                    # A loss of the project fails in a file of its own.
                    *(
                        ("called from here", call)
                        for call in event.context.calls[-1:]
                        if call.path != event.location.path
                    ),
                    ("the loader is made here", getattr(left.batch_of, "place", None)),
                    ("the GPU is chosen here", _chosen(other)),
                ],
                repair=_move(program, event, left, other),
                cause=first.setdefault(mended, event.location),
                needs=program.shared_by(event),
            )


def _remedy(left: Tensor) -> str:
    # What a call returns has no name to keep it under.
    keep = f"{left.label} = " if left.label[-1:] not in (")", ".") else ""
    moved = f"{left.label}.to(device, non_blocking=True)" if not left.label.endswith("...") else ".to(device)"
    return f"Move it first: `{keep}{moved}`, with the device of the model."


def _may_be_any_part(program: Program, event: Mixed, left: Tensor) -> bool:
    """`part if i == 3 else part.to(device) for i, part in enumerate(batch)`: which ones are moved is not known."""
    counted = event.condition.divergence & Divergence.BATCH_INDEX
    return bool(counted) and any(
        move.condition.excludes(event.condition)
        for move in program.events(Move)
        if isinstance(move.subject, Tensor) and move.subject.batch_of == left.batch_of
    )


def _may_be_scattered(program: Program, event: Mixed) -> bool:
    """The model may be in a DataParallel by now, which brings its inputs to the GPUs, as one of the project may."""
    wraps = (wrap for wrap in program.events(Wrap) if wrap.is_data_parallel)
    return any(wrap.inner == event.module and not wrap.condition.excludes(event.condition) for wrap in wraps)


def _move(program: Program, event: Mixed, left: Tensor, other: Tensor | None) -> Repair | None:
    moves = [move.subject for move in program.events(Move) if isinstance(move.subject, Tensor)]
    # Where it is moved under a test, that test is what to look at.
    if any(each.batch_of == left.batch_of and each.label == left.label for each in moves):
        return None
    target = other.device if other is not None else None
    loop = batch_loop(event)
    if not isinstance(target, Device) or loop is None:
        return None
    line: Code = (Holds(left), " = ", Holds(left), moved_to(target))
    title = "Move the batch to the GPU"
    # What is taken out of a batch further down has no name yet where the loop begins.
    inside = Repair(title, (Before(event.location, (line,)),))
    return Repair(title, (First(loop.location, (line,)),), otherwise=inside)


def _batch(value: Value) -> Tensor | None:
    """The value where it is what a loader yields."""
    # A batch without a loader comes from an iterator of the program, which may move what it yields.
    if isinstance(value, Tensor) and value.origin is TensorOrigin.BATCH and value.batch_of is not None:
        return value
    return None


def _moved_in_vain(program: Program) -> set[Value | None]:
    """Loaders of which some tensor was moved by a statement that drops the result."""
    # Casts such as `.float()` move nothing, so a dropped one explains nothing here.
    dropped = [event.value for event in program.events(Discard) if event.call in MOVES]
    return {value.batch_of for value in dropped} - {None}


def _source(tensor: Tensor) -> str:
    label = tensor.batch_of.label if tensor.batch_of is not None else ""
    # `for batch in batch` would read as if a thing yielded itself.
    return f"`{label}`" if label and label != tensor.label else "its loader"


def _partner(program: Program, event: Mixed, other: Tensor | None) -> str:
    where = (
        f" on {device_called(other.device)}"
        if other is not None and isinstance(other.device, Device)
        else " on the GPU"
    )
    if event.module is not None:
        return f"the weights of {name_of(event.module)}{where}"
    made_by = (program.forwards[each].module for each in other.forwards if each in program.forwards) if other else ()
    # An output is best named by its model: temporaries have no name of their own.
    model = next((module.label for module in made_by), "")
    if model:
        return f"the output of `{model}`{where}"
    return f"`{other.label}`{where}" if other is not None else f"tensors{where}"


def _chosen(other: Tensor | None) -> Location | None:
    return other.device.place if other is not None and other.device is not None else None
