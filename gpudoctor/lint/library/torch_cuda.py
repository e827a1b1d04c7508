"""`torch.cuda`: devices, synchronisation, memory."""

from __future__ import annotations

from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.abstract_state import NO, PROCESS, ProcessState
from gpudoctor.lint.domain.device import Device
from gpudoctor.lint.domain.function import ContextManager, Library
from gpudoctor.lint.domain.value import FALSE, NONE, TRUE, Const, Value, Values, text_of
from gpudoctor.lint.events.host_waits import DebugFlag, HostSync
from gpudoctor.lint.events.placement import ContextMade, CudaStarted
from gpudoctor.lint.flow.valueset import union
from gpudoctor.lint.interface.library_call import MODELS, Call, LibraryContext, logs, singleton
from gpudoctor.lint.library.devices import devices_of, use
from gpudoctor.lint.library.stub_models import returns_kind
from gpudoctor.manifest.effects import AskGpuEffect, WaitForGpuEffect


def start(call: Call) -> None:
    """The driver reads `CUDA_VISIBLE_DEVICES` when it is asked for the first time."""
    # Only the first time: later calls settle nothing.
    if call.do.flag(PROCESS, ProcessState.cuda_started) is NO:
        call.do.set_flag(PROCESS, ProcessState.cuda_started)
        call.emit(CudaStarted, call=call.name)


@MODELS.callable("torch.cuda.is_available")
def _asks_the_driver(call: Call) -> Values:
    start(call)
    return singleton(TRUE)


@MODELS.callable("torch.cuda.device_count")
def _count(call: Call) -> Values:
    """The program may have left one in sight before: `os.environ["CUDA_VISIBLE_DEVICES"] = "0"`."""
    counted = returns_kind(call)
    written = call.do.entry(PROCESS, ProcessState.environment, "CUDA_VISIBLE_DEVICES")
    # Several processes see one each, which is for them to say.
    if written is None or call.do.several_processes or call.do.flag(PROCESS, ProcessState.cuda_started) is not NO:
        return counted
    return union(
        [
            (singleton(Const(1)) if _is_one(each.value) else counted).guarded_by(each.condition)
            for each in written.bindings
        ]
    )


def _is_one(visible: Value) -> bool:
    text = text_of(visible)
    return text is not None and text.strip().isdigit()


@MODELS.setter(Library)
def _set_of_library(do: LibraryContext, owner: Value, name: str, values: Values, place: Location) -> None:
    """`cudnn.enabled = False`; what the user decides is his."""
    if owner == Library("torch.backends.cudnn") and name == "enabled" and values.single in (TRUE, FALSE):
        do.emit(DebugFlag, at=place, flag="cudnn", on=values.single == FALSE)


@MODELS.callable("torch.cuda.set_device", "torch.accelerator.set_device_index", "torch.cuda.device")
def _set_device(call: Call) -> Values:
    given = call.arg(0, "device")
    # `set_device(os.environ["LOCAL_RANK"])`: text is kept, to be reported.
    devices = devices_of(given, call.place) or given
    purpose = "context" if call.name.endswith(".device") else "set_device"
    use(call, devices, purpose)
    # From here on a bare "cuda" is this rank's own GPU.
    if purpose == "set_device" and devices is not None:
        call.do.set_state(PROCESS, ProcessState.current_gpu, devices)
        return singleton(NONE)
    return singleton(ContextManager("torch.cuda.device"))


@MODELS.callable("torch.cuda.current_device", "torch.accelerator.current_device_index")
def _current(call: Call) -> Values:
    start(call)
    chosen = call.do.state(PROCESS, ProcessState.current_gpu)
    # torch returns the index as an int, not a device.
    if chosen is not None:
        return chosen.map(lambda value: value.index or value)
    return singleton(Device("cuda", None, call.place))


MODELS.callable("torch.accelerator.current_accelerator")(lambda call: singleton(Device("cuda", None, call.place)))


@MODELS.effect(AskGpuEffect)
def _asks_gpu(call: Call, effect: AskGpuEffect) -> Values:
    start(call)
    if effect.context:
        call.emit(ContextMade, call=call.name)
    return singleton(call.result())


MODELS.effect(WaitForGpuEffect)(logs(HostSync, call="name", for_all=True))


@MODELS.callable("torch.cuda.*")
def _other(call: Call) -> Values:
    return singleton(ContextManager(call.name) if call.name.startswith("torch.cuda.amp") else call.result())


@MODELS.attribute(Device, "type", "index")
def _device_attribute(call: Call[Device]) -> Values:
    device = call.receiver
    return singleton(Const(device.type) if call.name == "type" else device.index or NONE)
