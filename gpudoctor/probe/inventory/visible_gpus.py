"""Which GPUs a program may use, in its order: `CUDA_VISIBLE_DEVICES` as CUDA reads it, and torch's word on it.

NVML counts GPUs by PCI address and knows nothing of the variable; CUDA puts the fastest first unless
`CUDA_DEVICE_ORDER=PCI_BUS_ID` is set. Only the UUID is the same everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from gpudoctor.probe.inventory.facts import Gpu, TorchDevice, Visibility, Visible
from gpudoctor.probe.inventory.field import Absence, Field, absent, known
from gpudoctor.record import dataclass

VARIABLE = "CUDA_VISIBLE_DEVICES"
_NUMBER = re.compile(r"\s*([+-]?\d+)")


@dataclass(frozen=True)
class Choice:
    """The entries of the variable that CUDA takes, in order: indices or UUIDs; `doubt` is what it stumbled over."""

    entries: tuple[int | str, ...]
    doubt: str = ""
    twice: bool = False
    """Whether an entry stands there twice, which hides even good ones."""


def parse(value: str) -> Choice:
    """What CUDA makes of a value: it stops at the first entry that it cannot read, and a double one hides all."""
    if not value.strip():
        return Choice((), "it is empty: no GPU is visible")
    entries: list[int | str] = []
    by_name = value.startswith(("GPU-", "MIG-"))
    for text in value.split(","):
        entry = (text.strip() if text.strip().startswith(value[:4]) else None) if by_name else _index(text)
        if entry is None or (isinstance(entry, int) and entry < 0):
            return Choice(tuple(entries), _stopped(text, len(entries)))
        if entry in entries:
            return Choice((), f"{text.strip()!r} stands there twice: CUDA then shows no GPU at all", twice=True)
        entries.append(entry)
    return Choice(tuple(entries))


def _index(text: str) -> int | None:
    match = _NUMBER.match(text)
    return int(match[1]) if match else None


def _stopped(text: str, before: int) -> str:
    entry = text.strip()
    if entry == "-1" and not before:
        return "-1 hides all GPUs"
    rest = (
        "no GPU is visible" if not before else f"only the {before} before it {'is' if before == 1 else 'are'} visible"
    )
    return f"CUDA stops reading at {entry!r}: {rest}"


def visibility(gpus: Sequence[Gpu], torch_devices: Sequence[TorchDevice], environment: Mapping[str, str]) -> Visibility:
    """What programs may use. Torch's devices are the truth where it was asked; else the variable is read."""
    value = environment.get(VARIABLE)
    choice = parse(value) if value is not None else Choice(tuple(range(len(gpus))))
    if not gpus and not torch_devices:
        # Where no GPU is, it matters to nobody what the variable says.
        return Visibility((), value, "", "NVML")
    chosen = [_chosen(entry, gpus) for entry in choice.entries]
    good = chosen.index(None) if None in chosen else len(chosen)
    doubt = choice.doubt or ("" if good == len(chosen) or not gpus else _nobody(choice.entries[good], gpus, good))
    if torch_devices:
        return Visibility(tuple(_seen(device, gpus) for device in torch_devices), value, doubt, "torch")
    devices = [
        _visible(position, entry, gpu, gpus, environment)
        for position, (entry, gpu) in enumerate(zip(choice.entries, chosen[:good], strict=False))
        if gpu is not None
    ]
    return Visibility(tuple(devices), value, doubt, "the variable and NVML")


def _seen(device: TorchDevice, gpus: Sequence[Gpu]) -> Visible:
    for gpu in gpus:
        same = gpu.uuid.known and device.uuid.known and _bare(gpu.uuid.get()) == _bare(device.uuid.get())
        # Older torch tells no UUID, and a MIG instance has one that no GPU has.
        same_place = gpu.pci.known and device.pci.known and _short(gpu.pci.get()) == _short(device.pci.get())
        if same or same_place:
            return Visible(device.index, device.uuid if device.uuid.known else gpu.uuid, known(gpu.index))
    unseen: Field[int] = absent("NVML tells no GPU with this UUID", Absence.FAILED)
    return Visible(device.index, device.uuid, unseen)


def _chosen(entry: int | str, gpus: Sequence[Gpu]) -> Gpu | None:
    if isinstance(entry, int):
        return gpus[entry] if entry < len(gpus) else None
    if entry.startswith("MIG-"):
        # Drivers before 470 wrote MIG-GPU-<uuid>/<instance>/<instance>.
        parent = entry[4:].partition("/")[0]
        own = [gpu for gpu in gpus if any(each.uuid.or_else("") == entry for each in gpu.mig_instances)]
        return next(iter([*own, *(gpu for gpu in gpus if gpu.uuid.or_else("") == parent)]), None)
    # CUDA takes the beginning of a UUID, if only one GPU's begins so.
    begun = [gpu for gpu in gpus if gpu.uuid.or_else("").startswith(entry)]
    return begun[0] if len(begun) == 1 else None


def _nobody(entry: int | str, gpus: Sequence[Gpu], before: int) -> str:
    rest = (
        "no GPU is visible" if before == 0 else f"only the {before} before it {'is' if before == 1 else 'are'} visible"
    )
    if isinstance(entry, int):
        there = "the driver shows no GPU" if not gpus else f"there are GPUs 0 to {len(gpus) - 1}"
        return f"there is no GPU {entry} ({there}): {rest}"
    return f"no GPU, or more than one, has a UUID that begins with {entry}: {rest}"


def _visible(position: int, entry: int | str, gpu: Gpu, gpus: Sequence[Gpu], environment: Mapping[str, str]) -> Visible:
    by_address = environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    alike = len({each.name.or_else("") for each in gpus}) <= 1
    if isinstance(entry, int) and not by_address and not alike:
        why = "CUDA counts the fastest GPU first, and nobody asked CUDA (CUDA_DEVICE_ORDER=PCI_BUS_ID settles it)"
        return Visible(position, absent(why, Absence.NOT_ASKED), absent(why, Absence.NOT_ASKED))
    uuid = known(entry) if isinstance(entry, str) and entry.startswith("MIG-") else gpu.uuid
    return Visible(position, uuid, known(gpu.index))


def _bare(uuid: str) -> str:
    return uuid.removeprefix("GPU-").removeprefix("MIG-").lower()


def _short(pci: str) -> str:
    """Domains are written with four digits or with eight."""
    domain, _, rest = pci.lower().partition(":")
    return f"{domain[-4:]}:{rest}"
