"""Where things are: devices as rules compare and as messages name them."""

from __future__ import annotations

from gpudoctor.lint.domain.device import Device
from gpudoctor.lint.domain.rank import Rank
from gpudoctor.lint.domain.value import Const, Value, Values, single_of
from gpudoctor.lint.events.event_context import Event
from gpudoctor.lint.events.placement import DeviceUsed, Move
from gpudoctor.lint.flow.condition import complement
from gpudoctor.lint.flow.valueset import ValueSet
from gpudoctor.lint.program import Program
from gpudoctor.record import replace


def certain_device(values: Values | None) -> Device | None:
    """The device where it is surely this one."""
    # `only` is None for two values too: a device that depends on a path is no basis for a claim.
    return single_of(values, Device)


def unless_on_cpu(values: Values | None) -> Values | None:
    """The one GPU that it is where settings do not ask for the CPU: `"cuda" if settings["gpus"] else "cpu"`."""
    gpus = [each for each in values.bindings if not each.value.is_cpu] if values is not None else []
    if values is None or len(gpus) != 1 or any(each.condition.divergence for each in values.bindings):
        return values
    return ValueSet(gpus)


def one_gpu(device: Value) -> bool:
    """The same GPU on every rank, because the program wrote its number."""
    # `cuda:0` means one card to all; an index that is computed may differ from rank to rank.
    return device.is_cuda and device.literal_index is not None


def asked_gpu(device: Values | None, *, counted: bool) -> Device | None:
    """The GPU that an option names, as `cuda:{args.gpu}` does; a bare number of it does where GPUs are `counted`."""
    only = single_of(device)
    number = only.index if only is not None and only.is_cuda else only if counted else None
    if number is None or not number.config:
        return None
    return only if isinstance(only, Device) else Device("cuda", number)


def current_gpu(device: Value) -> bool:
    """`cuda` without a number: the current device of the process."""
    return device.is_cuda and device.index is None


def first_gpu(named: Device | None = None) -> Device:
    """The first GPU, which is what was named there."""
    return Device("cuda", Const(0), named.place if named is not None else None)


def device_choices(program: Program) -> list[DeviceUsed]:
    """The calls that make a GPU the current one."""
    return [used for used in program.events(DeviceUsed) if used.purpose in ("set_device", "context")]


def with_number(program: Program, event: Event, device: Device | None) -> Device | None:
    """The device at an event with its number: `cuda` is the first GPU as long as nobody chooses another."""
    if device is None or device.index is not None or device.type != "cuda":
        return device
    chosen = device_choices(program)
    if not chosen:
        return first_gpu(device)
    # Chosen once and for all before anything is moved: each `cuda` means that one.
    first = chosen[0].device
    settled = all(used.purpose == "set_device" and used.device == first and used.certain for used in chosen)
    moves = (move.order for move in program.events(Move))
    if not settled or not isinstance(first, Device) or min(moves, default=0) < chosen[-1].order:
        return None
    # `begin_by_slurm() if args.slurm else begin_by_torchrun()`: each of the ways to come here chooses it.
    if complement(event.condition, [used.condition for used in chosen]):
        return None
    return Device("cuda", first.index, device.place)


def as_text(device: Device) -> Value:
    """The text that names it, where its number is written in the program."""
    return Const(f"{device.type}:{device.literal_index}")


def devices_differ(one: Device, other: Device) -> bool:
    """Surely not the same device on all ranks: another type, another number, or a number beside a rank."""
    if one.type != other.type:
        return True
    numbers = [isinstance(device.index, Const) for device in (one, other)]
    ranks = [isinstance(device.index, Rank) for device in (one, other)]
    # Two ranks of different kinds agree on one node.
    return one.index != other.index and any(numbers) and all(n or r for n, r in zip(numbers, ranks, strict=True))


def on_first_rank(device: Device, event: Event) -> Device:
    """The device, as the ranks see it that come to an event: where that is rank 0 alone, its GPU is the first one."""
    first = any(guard.holds and guard.atom.ranks in ("rank 0", "local rank 0") for guard in event.rank_guards)
    return replace(device, index=Const(0)) if first and isinstance(device.index, Rank) else device


def device_called(device: Device) -> str:
    """The device as a reader would write it."""
    index = device.index
    if index is None:
        return f"`{device.type}`"
    if isinstance(index, Const):
        return f"`{device.type}:{index.value!r}`"
    if isinstance(index, Rank):
        return f"`{device.type}:<{index.kind.value}>`"
    label = index.label
    return f"`{device.type}:<{label}>`" if label else f"some `{device.type}` device"


def devices_managed(program: Program) -> bool:
    """A framework decides what is where."""
    return bool(program.managed_by - program.leaving("devices"))


def several_choose(program: Program) -> bool:
    """Processes train together, each of which chooses its GPU itself."""
    return not devices_managed(program) and train_together(program)


def train_together(program: Program) -> bool:
    """Several processes train together, whoever starts them."""
    return program.launched_in_several if program.frameworks else program.distributed
