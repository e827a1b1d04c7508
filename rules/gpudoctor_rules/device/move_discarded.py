"""A tensor is moved by a statement that drops the result, so the tensor stays where it was.

## What goes wrong

`Tensor.to`, `.cuda()`, `.half()` and the like return a new tensor; only modules move in place. A bare statement
`x.to(device)` copies the data to the GPU and throws the copy away. What follows either ends with `RuntimeError:
Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!`, or runs on the CPU and
is merely slow.

## Fix

Assign the result: `x = x.to(device)`. Safe where the statement stands on a plain name, an entry or an attribute: the
copy was made for nothing else. Unsafe where it is not known that the model which uses it is on that device, and left to
you where the model is on the CPU.

## Silent when

The object is a module, a criterion or a metric; it may be of a class whose `to` works in place (a batch of
torch_geometric, a `BatchEncoding`, a class of the program); it is not known; it was on that device already;
its type was to change, and no module is called with it any more.

## Sources

https://docs.pytorch.org/docs/stable/generated/torch.Tensor.to.html,
https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.to.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.diagnostic import Safety, Severity
from gpudoctor.lint.domain.device import Device
from gpudoctor.lint.domain.module import Module, Wrapper
from gpudoctor.lint.domain.tensor import Tensor, TensorOrigin
from gpudoctor.lint.domain.value import Value
from gpudoctor.lint.events.collective import Discard
from gpudoctor.lint.events.model import Forward, Wrap
from gpudoctor.lint.events.placement import Move
from gpudoctor.lint.questions.devices_compared import certain_device, device_called
from gpudoctor.lint.questions.names import name_of
from gpudoctor.lint.repair.repair import Assign, Repair, Source
from gpudoctor.rule import Findings, Program, Rule
from gpudoctor_rules._error_texts import TWO_DEVICES

MOVES = frozenset({"to", "cuda", "cpu"})
# Copies as well; but what stays wrong is the type, and the message has to say so.
CASTS = frozenset({"half", "float", "double", "bfloat16", "long", "int"})


class MoveDiscarded(Rule):
    code = "GPU203"
    severity = Severity.ERROR
    errors = TWO_DEVICES
    stops = True
    fix_safety = Safety.SAFE
    needs = (Discard,)
    looks_at = ((Discard, "of_tensor"),)

    def in_code(self, program: Program) -> Findings:
        for event in program.events(Discard):
            # Only what is known to be a tensor: `module.to(...)` as a statement is right, and common.
            tensor = event.receiver
            if event.call not in MOVES | CASTS or not isinstance(tensor, Tensor):
                continue
            target = _target(program, event)
            # A tensor that is there already comes back itself, so nothing was lost.
            if _may_move_in_place(tensor) or (target is not None and target == tensor.device):
                continue
            # The type matters where something computes with it, and to a model that is given for it in other runs.
            of_data = event.call in CASTS and tensor.origin is not TensorOrigin.PARAMETER
            if of_data and not any(_users(program, event, tensor)):
                continue
            stays = _stays(program, event, tensor)
            # A parameter's name takes parameters alone; what it holds is exchanged.
            parameter = tensor.origin is TensorOrigin.PARAMETER
            name = event.written or tensor.label
            kept = f"{name}.data" if parameter else name
            # A model that stays on the CPU takes it as it is: kept, the copy would be what fails.
            users = list(_users(program, event, tensor)) if target is not None and target.type != "cpu" else []
            on_cpu = bool(users) and all(_on_cpu(program, each) for each in users)
            with_model = f", and move {name_of(users[0].module)} there as well" if on_cpu else ""
            yield self.found(
                at=event.location,
                message=f"`{name}` {stays}: `.{event.call}(...)` returns a copy, and nobody keeps it. Only "
                f"modules change in place.{' All of it runs on the CPU.' if on_cpu else ''}",
                remedy=f"Keep the result: `{kept} = {kept}.{event.call}(...)`{with_model}.",
                severity=Severity.WARNING if on_cpu else None,
                repair=None
                if parameter or on_cpu
                else Repair(
                    "Keep the result",
                    (Assign(event.location, (Source(event.location, "receiver"),)),),
                    safety=Safety.UNSAFE if target is not None and not _meets(users, target) else None,
                ),
            )


def _stays(program: Program, event: Discard, tensor: Tensor) -> str:
    moved = any(isinstance(each, Move) and each.subject == tensor for each in program.at(event.location))
    # `x.to(torch.half)` names no device.
    if event.call in CASTS or (event.call == "to" and not moved):
        return "keeps its type"
    return f"stays on {device_called(tensor.device)}" if isinstance(tensor.device, Device) else "stays where it was"


def _users(program: Program, event: Discard, tensor: Tensor) -> Iterator[Forward]:
    """The calls of models that come to use it."""
    later = [each for each in program.events(Forward) if each.order > event.order]
    given = [each for each in later if tensor in each.inputs]
    # Under another name, or as a part of something, it goes to what is called where it is moved.
    return iter(given or [each for each in later if each.context.frames == event.context.frames])


def _meets(users: list[Forward], target: Device) -> bool:
    """All that use it are known to lie where it was to go."""
    return bool(users) and all(certain_device(each.device) == target for each in users)


def _on_cpu(program: Program, call: Forward) -> bool:
    """The model lies on the CPU, and no wrapper around it brings its inputs to a GPU."""
    if isinstance(call.module, Wrapper):
        return False
    where = certain_device(call.device)
    return _never_moved(program, call.module) if where is None else where.type == "cpu"


def _never_moved(program: Program, model: Value) -> bool:
    """A model of which not all is known stays where models are made, if nothing and nobody moves it."""
    if program.cut_short or program.managed_by or program.has(Wrap):
        return False
    moved = (move.subject for move in program.events(Move))
    return (
        isinstance(model, Module) and all(isinstance(each, Tensor) for each in moved) and model not in program.escaped
    )


def _may_move_in_place(tensor: Tensor) -> bool:
    """What a loader yields as a whole may be an object of a class whose `to` works in place."""
    # `PackedSequence`, graph batches and `BatchEncoding` come from loaders; their parts are plain tensors.
    return tensor.origin is TensorOrigin.BATCH and not tensor.part


def _target(program: Program, event: Discard) -> Device | None:
    """Where the statement moves the tensor, if it names a device at all."""
    moves = (
        # The log holds what is dropped and what is moved apart: the place joins the two.
        each
        for each in program.events(Move)
        if each.subject == event.receiver and each.location == event.location
    )
    # `x.to(torch.half)` names no device.
    return next((certain_device(each.device) for each in moves if not each.dtype), None)
