"""The `device_ids` of a wrapper do not go with the GPU that the model is on.

## What goes wrong

`DataParallel` copies the model from the first of its `device_ids`; a model on another GPU ends with `RuntimeError:
module must have its parameters and buffers on device cuda:1 (device_ids[0]) but found one of them on device: cuda:0`.
`DistributedDataParallel` is one process for one GPU: more than one id ends with `ValueError: device_ids can only be
None or contain a single element.`, and an id other than the GPU of the model sends the inputs to the wrong place:
`Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cuda:1!`.

## Fix

No automatic fix: which of the two was meant is for the author to say. DataParallel wants the model on `device_ids[0]`,
DDP wants `device_ids=[local_rank]` and the model on that GPU.

## Silent when

The ids or the device of the model are not known; DataParallel's model is moved after the wrap and before the first
call; both are the current device in different words; only rank 0 calls the model, whose own GPU is the first one; a
framework starts the processes, which may be a single one; a single process makes no group, and DDP ends without one.

## Sources

google-research/big_transfer#73, otenim/GLCIC#8, mit-han-lab/temporal-shift-module#24,
https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Finding, Location, Severity
from gpudoctor.lint.domain.device import Device
from gpudoctor.lint.domain.module import WrapperKind, chain_of
from gpudoctor.lint.domain.value import Value
from gpudoctor.lint.events.launch_world import LaunchWorld
from gpudoctor.lint.events.model import Forward, Wrap
from gpudoctor.lint.events.process import InitGroup
from gpudoctor.lint.questions.devices_compared import (
    certain_device,
    device_called,
    devices_differ,
    first_gpu,
    on_first_rank,
    one_gpu,
    with_number,
)
from gpudoctor.rule import CrashText, Findings, Program, Rule
from gpudoctor_rules._error_texts import TWO_DEVICES


class DeviceIdsMismatch(Rule):
    code = "GPU208"
    severity = Severity.ERROR
    errors = (
        "RuntimeError: module must have its parameters and buffers on device cuda:0 (device_ids[0]) but found one of "
        "them on device: cuda:1",
        "ValueError: device_ids can only be None or contain a single element.",
        *TWO_DEVICES,
    )
    shows_when = ("ended_well",)
    needs = (Forward, Wrap)
    crash = CrashText(
        "device_ids can only be None or contain a single element",
        remedy="Give each rank its own GPU alone: `device_ids=[local_rank]`.",
    )

    def in_code(self, program: Program) -> Findings:
        for wrap in program.events(Wrap):
            if wrap.is_ddp and (found := self._of_ddp(program, wrap)):
                yield found
        # `DataParallel` checks at the call, not in its constructor: the model may be moved in between.
        wraps: dict[Value | None, Wrap] = {wrap.wrapper: wrap for wrap in program.events(Wrap) if wrap.is_data_parallel}
        told: set[Location] = set()
        for call in program.events(Forward):
            wrapped = wraps.get(_only_wrapper(call.module))
            if wrapped is None or wrapped.location in told or not (found := self._of_parallel(program, wrapped, call)):
                continue
            told.add(wrapped.location)
            yield found

    def _of_ddp(self, program: Program, wrap: Wrap) -> Finding | None:
        # DDP refuses this before it looks at the model, so where that is does not matter.
        if wrap.ids is not None and len(wrap.ids) > 1:
            return self.found(
                at=wrap.location,
                message=f"One process of DistributedDataParallel drives one GPU, and is given {len(wrap.ids)} "
                "`device_ids` here: every rank ends with an error.",
                remedy="Give each rank its own GPU: `device_ids=[local_rank]`.",
            )
        # A single process that makes no group ends before, with GPU401.
        if program.world is LaunchWorld.SINGLE and not program.has(InitGroup):
            return None
        # A model on the CPU ends in another error, which is GPU207.
        wanted, actual = _first_id(wrap), with_number(program, wrap, certain_device(wrap.model_device))
        # A model that all ranks put on one GPU by its number is GPU204.
        if wanted is None or actual is None or actual.is_cpu or (one_gpu(actual) and not one_gpu(wanted)):
            return None
        if not devices_differ(wanted, actual):
            return None
        return self.found(
            at=wrap.location,
            message=f"DistributedDataParallel sends the inputs to {device_called(wanted)}, its `device_ids`, and the "
            f"model is on {device_called(actual)}: where the two are not the same GPU, the forward ends with an error.",
            remedy="Use the GPU of the model: `device_ids=[local_rank]`.",
            because=[("the device of the model is named here", actual.place)],
        )

    def _of_parallel(self, program: Program, wrap: Wrap, call: Forward) -> Finding | None:
        # `accelerate launch --num_processes 1` is how such a program is started.
        if program.managed_by or _for_one_process(program, wrap):
            return None
        # Left out, `device_ids` means all GPUs, and the copy on the first of them is the original.
        wanted = _first_id(wrap) or (first_gpu() if wrap.names_ids is False else None)
        actual = with_number(program, call, certain_device(call.device))
        if wanted is None or actual is None or actual.is_cpu:
            return None
        if not devices_differ(on_first_rank(wanted, call), on_first_rank(actual, call)):
            return None
        return self.found(
            at=call.location,
            message=f"DataParallel copies the model from {device_called(wanted)}, the first of its `device_ids`, but "
            f"the model is on {device_called(actual)}: the call ends with an error.",
            remedy=f"Move the model to {device_called(wanted)} before this call, or begin `device_ids` with its GPU.",
            because=[("the model is wrapped here", wrap.location), ("its device is named here", actual.place)],
        )


def _for_one_process(program: Program, wrap: Wrap) -> bool:
    """`if distributed: DDP(model) else: DataParallel(model)`: of several processes none comes here."""
    ddp = (each for each in program.events(Wrap) if each.is_ddp and each.inner == wrap.inner)
    return program.world.several_processes and any(each.condition.excludes(wrap.condition) for each in ddp)


def _only_wrapper(module: Value) -> Value:
    """The wrapper around a model; the module itself where there are several, which is a mistake of its own."""
    chain = chain_of(module)
    # `torch.compile` around or inside changes nothing about devices.
    around = [wrapper for wrapper in chain if wrapper.kind is not WrapperKind.COMPILED]
    return around[0] if len(around) == 1 else module


def _first_id(wrap: Wrap) -> Device | None:
    return wrap.ids[0] if wrap.ids else None
