"""What torch was built with and what it sees. It runs in a process of its own: asking for GPUs initialises CUDA.

What needs no GPU is told first, so that it is known even if CUDA then hangs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

from gpudoctor.probe.inventory.facts import TorchDevice, TorchView
from gpudoctor.probe.inventory.field import Absence, Field, absent, known
from gpudoctor.record import replace


def read() -> Iterator[str | TorchView | TorchDevice]:
    """Torch without its GPUs, then with them, then each of them; before each, what it will be."""
    yield "import torch"
    try:
        with warnings.catch_warnings():
            # It is not for us to fail where somebody has made warnings errors.
            warnings.simplefilter("ignore")
            import torch
    except (ImportError, OSError) as error:
        yield _missing(error)
        return
    view = _build(torch)
    yield view
    yield "torch: whether CUDA starts"
    view = _started(torch, view)
    yield view
    if view.available.value:
        yield "torch: its devices"
        yield from _devices(torch)


def _missing(error: Exception) -> TorchView:
    if isinstance(error, ModuleNotFoundError) and error.name == "torch":
        why: Field[Any] = absent("torch is not installed", Absence.NOT_INSTALLED)
    else:
        # A wheel whose libraries do not fit: the last words are the linker's, and name the one that is missing.
        why = absent(f"torch cannot be imported: {_first_line(error)}", Absence.FAILED)
    return TorchView(version=why, cuda=why, nccl=why, architectures=why, available=why)


def _build(torch: Any) -> TorchView:
    cuda, rocm = torch.version.cuda, getattr(torch.version, "hip", None)
    return TorchView(
        version=known(str(torch.__version__)),
        cuda=known(cuda) if cuda else absent("this torch was built without CUDA"),
        rocm=known(rocm) if rocm else absent("this torch was built without ROCm"),
        architectures=_architectures(torch),
        cudnn=_cudnn(torch) if cuda or rocm else absent("this torch was built without CUDA"),
        nccl=_nccl(torch) if cuda or rocm else absent("this torch was built without CUDA"),
        backends=_backends(torch),
    )


def _architectures(torch: Any) -> Field[tuple[str, ...]]:
    # `torch.cuda.get_arch_list` is empty where no GPU is available, which tells nothing about the wheel.
    flags = getattr(torch._C, "_cuda_getArchFlags", lambda: None)()
    return known(tuple(flags.split())) if flags else absent("this torch was built without CUDA")


def _cudnn(torch: Any) -> Field[str]:
    return _tried(torch.backends.cudnn.version).then(_dotted)


def _dotted(number: int) -> str:
    """90100 is 9.1.0; before version 9 there was a digit less: 8902 is 8.9.2."""
    major = 10000 if number >= 90000 else 1000
    return f"{number // major}.{number % major // 100}.{number % 100}"


def _nccl(torch: Any) -> Field[str]:
    return _tried(lambda: torch.cuda.nccl.version()).then(
        lambda version: ".".join(map(str, version)) if isinstance(version, tuple) else str(version)
    )


def _backends(torch: Any) -> Field[tuple[str, ...]]:
    distributed = torch.distributed
    if not distributed.is_available():
        return absent("this torch was built without torch.distributed")
    names = ("gloo", "nccl", "mpi", "ucc", "xccl")
    return known(tuple(each for each in names if getattr(distributed, f"is_{each}_available", lambda: False)()))


def _started(torch: Any, view: TorchView) -> TorchView:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        available = bool(torch.cuda.is_available())
        trouble = " ".join(str(each.message) for each in caught)
        if not available and (view.cuda.known or view.rocm.known):
            # The exception says more than the answer.
            trouble = trouble or _tried(torch.cuda.init).why_not
    return replace(view, available=known(available), trouble=_first_line(trouble), other=_other(torch))


def _other(torch: Any) -> Field[str]:
    current = _tried(lambda: torch.accelerator.current_accelerator())
    if current.value is None:
        return absent("there is none")
    kind = str(current.value.type)
    return absent("there is none besides CUDA") if kind == "cuda" else known(kind)


def _devices(torch: Any) -> Iterator[TorchDevice]:
    count = torch.cuda.device_count()
    for index in range(count):
        properties = torch.cuda.get_device_properties(index)
        yield TorchDevice(
            index=index,
            name=str(properties.name),
            capability=f"{properties.major}.{properties.minor}",
            memory=int(properties.total_memory),
            uuid=_uuid(properties),
            pci=_pci(properties),
            peers=_tried(_peers(torch, index, count)),
        )


def _peers(torch: Any, index: int, count: int) -> Callable[[], tuple[int, ...]]:
    others = [other for other in range(count) if other != index]
    return lambda: tuple(other for other in others if torch.cuda.can_device_access_peer(index, other))


def _uuid(properties: Any) -> Field[str]:
    uuid = getattr(properties, "uuid", None)
    if uuid is None:
        return absent("this torch does not tell it", Absence.NOT_INSTALLED)
    text = str(uuid)
    return known(text if text.startswith(("GPU-", "MIG-")) else f"GPU-{text}")


def _pci(properties: Any) -> Field[str]:
    parts: list[Any] = [getattr(properties, name, None) for name in ("pci_domain_id", "pci_bus_id", "pci_device_id")]
    if None in parts:
        return absent("this torch does not tell it", Absence.NOT_INSTALLED)
    return known("{:08x}:{:02x}:{:02x}.0".format(*parts))


def _tried(question: Callable[[], Any]) -> Field[Any]:
    try:
        answer = question()
    except (RuntimeError, AssertionError, AttributeError, OSError, ValueError, TypeError) as error:
        return absent(_first_line(error), Absence.FAILED)
    return absent("torch has no answer") if answer is None else known(answer)


def _first_line(what: object) -> str:
    lines = str(what).strip().splitlines()
    return lines[0].strip() if lines else ""
