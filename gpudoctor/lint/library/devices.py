"""What a program means when it names a device."""

from __future__ import annotations

from collections.abc import Callable

from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.abstract_state import PROCESS, ProcessState
from gpudoctor.lint.domain.constant_folding import whole_number
from gpudoctor.lint.domain.device import CPU, Device
from gpudoctor.lint.domain.function import Library
from gpudoctor.lint.domain.module import Module, Wrapper
from gpudoctor.lint.domain.symbols import Attribute
from gpudoctor.lint.domain.tensor import Tensor
from gpudoctor.lint.domain.value import NONE, Anonymous, Const, Text, Unknown, Value, Values, text_of
from gpudoctor.lint.events.placement import DeviceUsed
from gpudoctor.lint.events.process import RankTextUsed
from gpudoctor.lint.flow.valueset import ValueSet
from gpudoctor.lint.interface.hooks import HOOKS, answers
from gpudoctor.lint.interface.library_call import Call, LibraryContext, singleton
from gpudoctor.lint.library.gpu_switches import take_gpu

TYPES = ("cuda", "cpu", "mps", "xpu", "npu", "meta", "hpu")


def as_device(value: Value, place: Location) -> Value | None:
    """The device that a value names: a Device, an Unknown, or None for a value that names none (a dtype)."""
    match value:
        # `torch.float16` is a name of the library and no device; nor does `mask.to(x.dtype)` name one.
        case Library() | Unknown(Attribute(Tensor(), "dtype")):
            return None
        case Unknown(kind="int"):
            return Device("cuda", value, place)
        case Unknown() | Device():
            return value
        case Const():
            return _from_constant(value, place)
        case Text():
            return _from_text(value, place)
        case Tensor():
            return value.device or Unknown(Attribute(value, "device"), "the device of a tensor", value.label)
        case Module() | Wrapper():
            return Unknown(Attribute(value, "device"), "the device of a module", value.label)
    # `model.to(rank)`: an integer is the index of a GPU.
    return Device("cuda", value, place) if value.is_launched else Unknown(Anonymous("device", value), "a device")


def _from_constant(value: Const, place: Location) -> Value | None:
    # `.to(None)` moves nothing; True is an int to Python and no index to anybody.
    if isinstance(value.value, bool) or value.value is None:
        return None
    if isinstance(value.value, int):
        # Negative: the habit of `--gpu -1` for "no GPU".
        return Device("cuda", value, place) if value.value >= 0 else Device("cpu", None, place)
    if isinstance(value.value, str):
        kind, colon, index = value.value.partition(":")
        number = whole_number(index)
        # No index means the current device, which differs by rank after `set_device`.
        if kind in TYPES and (number is not None or not colon):
            return Device(kind, Const(number) if colon else None, place)
        return Unknown(Anonymous("device", value), "a device", value.value)
    return None


def _from_text(value: Text, place: Location) -> Value:
    # `os.path.join()` has no part at all.
    first = value.parts[0] if value.parts else None
    if (text := text_of(first)) is not None:
        kind = text.partition(":")[0]
        rest = [part for part in value.parts[1:] if not part.is_constant]
        # `f"cuda:{local_rank}"` and `"cuda:" + str(rank)`.
        if kind in TYPES and len(rest) == 1:
            index = rest[0]
            # Within a text, the text of an environment variable is as good as a number.
            return Device(kind, index.as_number(), place)
    return Unknown(Anonymous("device", value), "a device that is put together")


def devices_of(values: Values | None, place: Location) -> Values | None:
    """The devices that these values name, None where they name none."""
    if values is None:
        return None
    found = values.map(lambda value: as_device(value, place) or NONE)
    return found if found.are(Device, Unknown) else None


_ON_CPU = singleton(CPU)


def default_device(do: LibraryContext) -> Values:
    """Where new tensors and modules are made."""
    # CPU unless torch 2.0's `set_default_device` or a `with torch.device(…)` says otherwise.
    return do.state(PROCESS, ProcessState.default_device) or _ON_CPU


@answers(HOOKS.contexts, Device)
def _by_default(do: LibraryContext, managers: Values, run: Callable[[], None]) -> None:
    """`with torch.device("cuda"):` makes new tensors and layers there (torch 2.0)."""
    before = default_device(do)
    # `with torch.device("cuda") if big else nullcontext():` leaves it as it was on the other path.
    devices = managers.map(lambda each: each if isinstance(each, Device) else before.single or each)
    do.set_state(PROCESS, ProcessState.default_device, devices)
    run()
    do.set_state(PROCESS, ProcessState.default_device, before)


def made_on(call: Call) -> Values:
    """Where a new layer lies: `nn.Linear(8, 1, device="cuda")` needs no move."""
    given = call.keywords.get("device") or next(filter(_names_device, call.args), None)
    # `nn.Linear(8, 1, **factory_kwargs)` may name a device.
    if given is None and call.open_ended:
        return singleton(
            Unknown(Anonymous("device", call.allocation_site()), "a device among arguments that are not known")
        )
    if given is None or given.single == Const(None):
        return default_device(call.do)
    devices = devices_of(given, call.place)
    take_gpu(call.do, devices)
    return devices or singleton(Unknown(Anonymous("device", call.allocation_site()), "a device"))


def _names_device(values: Values) -> bool:
    only = values.single
    return isinstance(only, Device) or (text_of(only) or "").startswith("cuda")


def use(call: Call, values: Values | None, purpose: str, place: Location | None = None) -> None:
    """Log that devices are chosen."""
    if values is None:
        return
    for value in values:
        if isinstance(value, Device) and value.type != "cpu":
            # `f"cuda:{os.environ['LOCAL_RANK']}"` is fine; the bare text as an index is not.
            if value.index is not None:
                note_text(call, singleton(value.index), "given as the index of a device", place)
            call.do.emit(
                DeviceUsed, at=place or call.place, device=value, purpose=purpose, certain=values.single is not None
            )  # fmt: skip
        # That a device was chosen counts, also where which one is not known.
        elif purpose in ("set_device", "context"):
            call.do.emit(DeviceUsed, at=place or call.place, device=value, purpose=purpose, certain=False)


def note_text(call: Call, values: Values | None, use: str, place: Location | None = None) -> None:
    """Log the text of a rank variable that is given where a number is needed."""
    for value in values or ():
        if value.as_text:
            call.do.emit(RankTextUsed, at=place or call.place, rank=value, use=use)


def moved_to(call: Call) -> tuple[Values | None, bool]:
    """What `.to(…)`, `.cuda(…)` and `.cpu()` name: the devices (None: not a device), and whether a dtype changes."""
    if call.name == "cpu":
        return singleton(Device("cpu", None, call.place)), False
    if call.name == "cuda":
        given = call.arg(0, "device")
        # `.cuda()` and `.cuda(None)`: the current device, GPU 0 on all ranks without `set_device`.
        if given is None or given.single == Const(None):
            return singleton(Device("cuda", None, call.place)), False
        return devices_of(given.map(lambda v: v if v != Const(None) else Const("cuda")), call.place), False
    given = call.arg(0, "device")
    # `.to(device, torch.bfloat16)` moves and casts at once.
    dtype = "dtype" in call.keywords or len(call.args) > 1
    if given is None:
        return None, dtype
    # `None` moves nothing: of several answers it is the one that was meant for another way through the program.
    named = ValueSet([each for each in given.bindings if each.value != NONE])
    found = devices_of(named if named.bindings else given, call.place)
    take_gpu(call.do, found)
    return found, dtype or found is None


def moved_by_type(call: Call) -> Values | None:
    """Where `.type(torch.cuda.FloatTensor)` brings a tensor; None where it only converts, as with `torch.float32`."""
    given = call.arg(0, "dtype")
    return devices_of(given.map(lambda each: _of_type(each, call.place)), call.place) if given is not None else None


def _of_type(value: Value, place: Location) -> Value:
    name = value.name if isinstance(value, Library) else text_of(value)
    if name is None or not name.startswith("torch.") or not name.endswith("Tensor"):
        return value
    return Device("cuda" if name.startswith("torch.cuda.") else "cpu", None, place)


def named_dtype(call: Call) -> str:
    """The floating type that `.to(…)` surely changes to, an empty text where there is none."""
    given = [call.keywords.get("dtype"), *call.args[:2]]
    # A setting may hold any type.
    names = [values.single.name for values in given if values is not None and isinstance(values.single, Library)]
    last = names[0].rpartition(".")[2] if len(names) == 1 and names[0].startswith("torch.") else ""
    return {"half": "float16", "float": "float32", "double": "float64"}.get(last, last)
