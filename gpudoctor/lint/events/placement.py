"""Events of where things lie: devices that are chosen, moves, and tensors of two devices that meet."""

from __future__ import annotations

from gpudoctor.lint.domain.data import Loader
from gpudoctor.lint.domain.device import Device, Devices, on_cpu, on_gpu
from gpudoctor.lint.domain.module import Module, Wrapper
from gpudoctor.lint.domain.tensor import Tensor
from gpudoctor.lint.domain.value import Unknown
from gpudoctor.lint.events.event_context import Event
from gpudoctor.record import dataclass


@dataclass(frozen=True, kw_only=True)
class ContextMade(Event):
    """A call that makes a context on a GPU without choosing a device: `torch.cuda.get_device_name()`."""

    call: str


@dataclass(frozen=True, kw_only=True)
class Move(Event):
    """`x.to(device)`, `x.cuda()`: of a module (in place) or a tensor (a copy). `device` None: unknown."""

    subject: Tensor | Module | Wrapper
    device: Devices | None
    call: str
    dtype: bool = False
    to_dtype: str = ""
    """The type that it surely changes to: `float16`; empty where none is named or known."""
    unpinned_async: bool = False
    """`non_blocking=True`, and the program has not pinned this very tensor."""
    waits: bool = False
    """A copy from the CPU that is done when the program goes on, and all that the GPU had to do before it."""

    @property
    def to_gpu(self) -> bool:
        """The device surely is a GPU or the like."""
        return on_gpu(self.device)

    @property
    def to_cpu(self) -> bool:
        """The device surely is the CPU."""
        return on_cpu(self.device)


@dataclass(frozen=True, kw_only=True)
class DeviceUsed(Event):
    """A device with an index is chosen. `purpose`: `set_device`, `move`, `device_ids`, `map_location`, `factory`,
    `output_device`, `context`, `process group`."""

    device: Device | Unknown
    purpose: str
    certain: bool = True
    """It can be no other device."""


@dataclass(frozen=True, kw_only=True)
class CudaStarted(Event):
    """The driver is asked for the first time, on this path: which GPUs the process sees is settled from here on."""

    call: str


@dataclass(frozen=True, kw_only=True)
class Mixed(Event):
    """Tensors that lie on different devices meet: in a module, a loss function or an operation (`by`)."""

    by: str
    on_cpu: tuple[Tensor, ...]
    on_device: tuple[Tensor, ...]
    module: Module | None = None


@dataclass(frozen=True, kw_only=True)
class ConstantMixed(Event):
    """A tensor that the program made on the CPU meets one on a GPU, in an operation or a module (`by`)."""

    by: str
    constant: Tensor
    other: Tensor
    module: Module | None = None


@dataclass(frozen=True, kw_only=True)
class Crossed(Event):
    """Tensors on two GPUs meet, in an operation or a module (`by`)."""

    by: str
    tensor: Tensor
    other: Tensor
    module: Module | None = None


@dataclass(frozen=True, kw_only=True)
class TensorKept(Event):
    """The constructor of a module keeps a tensor that it made on the CPU, or on one GPU, as a plain attribute."""

    module: Module
    name: str
    tensor: Tensor
    taken_along: bool = False
    """The class has a move of its own, which may take it along."""


@dataclass(frozen=True, kw_only=True)
class FixedMet(Event):
    """In the copies of a model that `wrapper` runs, a tensor that the program made on one GPU (`fixed`) meets what lies
    on the GPU of each copy."""

    by: str
    wrapper: Wrapper
    fixed: Tensor
    other: Tensor


@dataclass(frozen=True, kw_only=True)
class ItemOnGpu(Event):
    """A data set of the project puts each item on a GPU, here, or the function does that makes batches of a loader."""

    loader: Loader


@dataclass(frozen=True, kw_only=True)
class SpreadByMap(Event):
    """A model is loaded by `device_map`: spread over all GPUs of this node (`over_all`), or put on the first one in
    each process. `quantized` where its weights are loaded in 4 or 8 bits."""

    model: Module
    over_all: bool
    quantized: bool = False
