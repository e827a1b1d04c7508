"""The batch is moved to the GPU, and the model that it meets was never moved.

## What goes wrong

The weights of a module are made in the memory of the CPU and stay there until `model.to(device)` or `model.cuda()`.
Called with a tensor on the GPU, the model ends with `RuntimeError: Expected all tensors to be on the same device, but
found at least two devices, cuda:0 and cpu!`; under `DataParallel` the error is `module must have its parameters and
buffers on device cuda:0 (device_ids[0]) but found one of them on device: cpu`. Wrapping moves nothing: neither
`DataParallel` nor `DistributedDataParallel` brings the model to its GPU, except `DataParallel` with a single one.

## Fix

Move the model once, before the loop: `model.to(device)` (a module moves in place). Unsafe: lint has to guess which
name is the right device, and memory on the GPU is taken.

## Silent when

The model moves itself, or its forward its parameters; it was made on the GPU; it comes from code that could not be
read; it was passed to such code; only some paths leave it on the CPU, or a test leads to the call beside a framework; a
framework prepares it, or is told to use the CPU; DDP was given `device_ids` (that is GPU207), or `DataParallel` one
GPU, to which it brings the model.

## Sources

google-research/big_transfer#73, Morizeyao/GPT2-Chinese#165,
https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html.
"""

from __future__ import annotations

from functools import reduce

from gpudoctor.diagnostic import Location, Safety, Severity
from gpudoctor.lint.domain.data import Loader
from gpudoctor.lint.domain.device import Device
from gpudoctor.lint.domain.module import Wrapper, WrapperKind
from gpudoctor.lint.domain.tensor import Tensor, TensorOrigin
from gpudoctor.lint.domain.value import Value
from gpudoctor.lint.events.knowledge import Prepare, UseManaged
from gpudoctor.lint.events.model import Forward, Wrap
from gpudoctor.lint.flow.condition import Condition
from gpudoctor.lint.questions.asked_in_tests import where_something_is_raised
from gpudoctor.lint.questions.devices_compared import device_called
from gpudoctor.lint.repair.repair import Before, Holds, Repair, Replace, Source
from gpudoctor.lint.repair.snippets import moved_to, own
from gpudoctor.rule import Findings, Program, Rule
from gpudoctor_rules._error_texts import TWO_DEVICES
from gpudoctor_rules.device.wrap_before_move import fails_at_wrap


class ModelOffDevice(Rule):
    code = "GPU202"
    severity = Severity.ERROR
    errors = TWO_DEVICES
    stops = True
    fix_safety = Safety.UNSAFE
    needs = (Forward,)
    looks_at = ((Forward, "on_cpu"),)

    def in_code(self, program: Program) -> Findings:
        if program.managed_by - program.leaving("placing"):
            return
        taken = {each.given.core for each in program.events(Prepare)}
        engines = {each.location for each in program.in_charge if each.engine}
        taken |= {wrap.inner.core for wrap in program.events(Wrap) if wrap.location in engines}
        moving = _moving(program)
        # There the constructor of DDP has ended the program before any forward.
        stopped = {wrap.inner.core for wrap in fails_at_wrap(program)}
        told: set[Value] = set()
        for event in program.events(Forward):
            core = event.module.core
            # Unread code that was handed the model may have moved it.
            if core in told or core in program.escaped or core in stopped or not _at_odds(event, moving):
                continue
            # What a framework takes over, it moves itself, with all of its parts.
            if any(core in program.within(each) for each in taken):
                continue
            # Beside a framework it may be another one on the way that is taken, which came where it belongs.
            if program.frameworks and any(each not in program.taken_on for each in event.condition):
                continue
            told.add(core)
            # All inputs are on a GPU here, so any of them shows which.
            where = next((each.device for each in event.inputs), None)
            label = event.module.label or "the model"
            yield self.found(
                at=event.location,
                message=f"`{label}` is on the CPU when it is called{_with(where)}: {_ending(event.module)}",
                remedy=f"Move the model before its first use: `{label}.to({own(program, 'device') or 'device'})`"
                + (", with the device of its inputs." if not program.frameworks else "."),
                because=[
                    ("the model is made here, on the CPU, and never moved", core.place),
                    (_hope(event.module), _wrapped(event.module)),
                    ("the device of the input is chosen here", where.place if where is not None else None),
                ],
                repair=_move(program, event, core, where),
                needs=_shared(program, core, moving),
            )


def _moving(program: Program) -> frozenset[str]:
    """The frameworks that move each batch to the GPU of its rank: they were told nothing else."""
    alone = (each for each in program.in_charge if not _on_gpus(each))
    return frozenset() if any(alone) or not program.launched_in_several else program.leaving("placing")


def _on_gpus(charge: UseManaged) -> bool:
    given = ((charge.setting(name), usual) for name, usual in _USUAL.items())
    return all(values is None or all(value.in_python in usual for value in values) for values, usual in given)


_USUAL = {"accelerator": ("gpu", "cuda", "auto"), "cpu": (False,), "device_placement": (True,)}
"""With these settings batches go to GPUs."""


def _shared(program: Program, core: Value, moving: frozenset[str]) -> Condition:
    """What had to hold for all calls in which the model is at odds with its inputs: they are told as one."""
    calls = (each for each in program.events(Forward) if each.module.core == core and _at_odds(each, moving))
    return reduce(Condition.intersection, (each.condition for each in calls))


def _move(program: Program, event: Forward, core: Value, where: Value | None) -> Repair | None:
    # A part of a model goes where the model goes.
    if any(core in parts for parts in program.parts.values()):
        return None
    made = core.place
    if not isinstance(where, Device) or made is None:
        return None
    title = "Move the model to the GPU"
    # Where the device is chosen only later, before the first loop is early enough.
    loops = [Before(loop.location, ((Holds(event.module), moved_to(where)),)) for loop in event.loops[:1]]
    later = Repair(title, tuple(loops)) if loops else None
    return Repair(title, (Replace(made, (Source(made), moved_to(where))),), otherwise=later)


def _at_odds(event: Forward, moving: frozenset[str]) -> bool:
    """The weights are surely on the CPU and all inputs surely on a GPU."""
    # `nn.Sequential(RandomCrop(32), Normalize(mean, std))` has no weights, and takes what it gets.
    # `try: model.cuda() except AttributeError: pass` moves each model that there is.
    if event.unseen or event.brings_own or where_something_is_raised(event.condition):
        return False
    # With one input on the CPU, that may be the one which meets the weights, and all is well.
    here = event.on_cpu and bool(event.inputs)
    # It brings the inputs to its GPUs itself, wherever they are; all on the CPU may be what an option wants.
    if here and event.module.wrapped_by(WrapperKind.DATA_PARALLEL):
        return not any(each.on_cpu for each in event.inputs)
    return here and all(each.on_accelerator or _is_moved(each, moving) for each in event.inputs)


def _is_moved(tensor: Tensor, moving: frozenset[str]) -> bool:
    """A batch of a loader that a framework has taken over, which moves it."""
    loaders = [each for each in tensor.shards if isinstance(each, Loader)]
    batch = tensor.origin is TensorOrigin.BATCH and not isinstance(tensor.device, Device)
    return batch and bool(loaders) and all(each.managed in moving for each in loaders)


def _with(where: Value | None) -> str:
    # DataParallel takes any input.
    if where is None or not where.is_accelerator:
        return ""
    return f" with a tensor on {device_called(where) if isinstance(where, Device) else 'the GPU'}"


def _ending(module: Value) -> str:
    # It checks the model before it spreads the batch, with a text of its own.
    if module.wrapped_by(WrapperKind.DATA_PARALLEL):
        return "where it has several GPUs, DataParallel wants it on `device_ids[0]`, and ends with an error."
    return "the call ends with an error."


def _hope(module: Value) -> str:
    alone = module.wrapped_by(WrapperKind.DATA_PARALLEL)
    return "wrapping it moves it only where it is given one GPU" if alone else "wrapping it moves nothing"


def _wrapped(module: Value) -> Location | None:
    # Many expect the wrapper to move the model, so the story shows where that hope was.
    return module.place if isinstance(module, Wrapper) else None
