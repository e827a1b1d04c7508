"""What NCCL refuses and gloo allows, with the texts of PyTorch's ProcessGroupNCCL and of NCCL itself.

The texts are those of the sources, versions 2.6 to 2.13; none of them has been recorded on hardware yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
import torch.distributed as dist

from gpudoctor.virtual.residence import HOST, UNKNOWN, DevicePlace, place_of

NCCL_VERSION = (2, 27, 5)
_DTYPES = frozenset(
    getattr(torch, name)
    for name in (
        "int8 uint8 bool int32 int64 float16 float32 float64 bfloat16 float8_e4m3fn float8_e5m2 float8_e4m3fnuz"
        " float8_e5m2fnuz complex64 complex128"
    ).split()
    if hasattr(torch, name)
)
"""What it exchanges. Complex numbers are taken apart before."""
_SCALAR_NAMES = {
    torch.int16: "Short",
    **{getattr(torch, f"uint{bits}"): f"UInt{bits}" for bits in (16, 32, 64) if hasattr(torch, f"uint{bits}")},
}
_BITWISE = {dist.ReduceOp.BAND: "BAND", dist.ReduceOp.BOR: "BOR", dist.ReduceOp.BXOR: "BXOR"}


def no_backend_for_cpu() -> RuntimeError:
    """A tensor of the host, in a group that only NCCL serves."""
    return RuntimeError("No backend type associated with device type cpu")


def not_on_gpu() -> ValueError:
    """A tensor of the host beside one of a GPU."""
    return ValueError("Tensors must be CUDA and dense")


def refuse_tensor(tensor: torch.Tensor, *, between_two: bool = False) -> None:
    """Raise where NCCL takes no such tensor: sparse, with gaps, or of numbers that it does not know."""
    if tensor.layout != torch.strided:
        raise not_on_gpu()
    if not between_two and not (tensor.is_contiguous() or _in_its_own_format(tensor)):
        raise ValueError("Tensors must be contiguous")
    if tensor.dtype not in _DTYPES:
        name = _SCALAR_NAMES.get(tensor.dtype, str(tensor.dtype).removeprefix("torch."))
        raise TypeError(f"Input tensor data type is not supported for NCCL process group: {name}")


def _in_its_own_format(tensor: torch.Tensor) -> bool:
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    wanted = formats.get(tensor.dim())
    return wanted is not None and tensor.is_contiguous(memory_format=wanted)


def refuse_operation(operation: dist.ReduceOp, tensors: Iterable[torch.Tensor]) -> None:
    """Raise where NCCL has no such way to reduce."""
    for refused, name in _BITWISE.items():
        if operation == refused:
            raise ValueError(f"Cannot use ReduceOp.{name} with NCCL")
    if operation == dist.ReduceOp.AVG and any(each.dtype is torch.bool for each in tensors):
        raise TypeError("Cannot use ReduceOp.AVG with boolean inputs")


def refuse_parts(parts: Sequence[torch.Tensor], whole: torch.Tensor, size: int) -> None:
    """Raise where a list of tensors is not one for each rank, alike and on one GPU."""
    if len(parts) != size:
        raise ValueError("Tensor list input to scatter/gather must match number of collective participants")
    for each in parts:
        if each.dtype != whole.dtype:
            raise TypeError("Tensors must have identical type")
    places = {place for each in parts if (place := place_of(each)) is not UNKNOWN}
    if len(places) > 1:
        raise ValueError("Expected list of tensors on the same device")


def refuse_sizes(large: torch.Tensor, small: torch.Tensor, size: int, *, gathers: bool) -> None:
    """Raise where the tensor of all ranks does not hold that of one rank so many times, or is of another type."""
    if large.dtype != small.dtype:
        if gathers:
            raise TypeError("output tensor must have the same type as input tensor")
        raise TypeError("input tensor must be the same type as the output tensor.")
    if large.numel() != small.numel() * size:
        if gathers:
            raise ValueError("output tensor size must be equal to world_size times input tensor size")
        raise ValueError("input tensor must be the same size as output size times world size")


def elsewhere_than_bound(place: DevicePlace, bound: int) -> Exception | None:
    """The error for a tensor that is not on the GPU that the group was made for; None where it is."""
    if place is UNKNOWN or place in (HOST, bound):
        return None
    return _refused("Attempt to perform collective on tensor not on device passed to init_process_group")


def duplicate_gpu(rank: int, other: int, bus: str) -> Exception:
    """Two ranks of one communicator have the same GPU."""
    version = ".".join(map(str, NCCL_VERSION))
    return _refused(
        "NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:94, invalid usage (run with"
        f" NCCL_DEBUG=WARN for details), NCCL version {version}\n"
        "ncclInvalidUsage: This usually reflects invalid usage of NCCL library.\n"
        "Last error:\n"
        f"Duplicate GPU detected : rank {rank} and rank {other} both on CUDA device {bus}"
    )


def _refused(text: str) -> Exception:
    error: Exception = dist.DistBackendError(text)
    return error
