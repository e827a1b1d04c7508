"""The errors that CUDA raises, with its texts.

The texts are those of PyTorch's sources, versions 2.6 to 2.13; none of them has been recorded on hardware yet.
"""

from __future__ import annotations

import torch

from gpudoctor.virtual.residence import HOST, DevicePlace

_HINTS = (
    "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be"
    " incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\nCompile with `TORCH_USE_CUDA_DSA` to enable"
    " device-side assertions.\n"
)
_OUT_OF_RANGE = "GPU device may be out of range, do you have enough GPUs?\n"
# A class of its own since torch 2.8.
_CudaError: type[RuntimeError] = getattr(torch, "AcceleratorError", RuntimeError)


def invalid_ordinal() -> RuntimeError:
    """A device index that there is not."""
    return _CudaError(f"CUDA error: invalid device ordinal\n{_OUT_OF_RANGE}{_HINTS}")


def bad_fork() -> RuntimeError:
    """A process that was forked from one that uses CUDA."""
    return RuntimeError(
        "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn'"
        " start method"
    )


def no_numpy(place: int) -> TypeError:
    """numpy was asked to look at memory of a GPU."""
    return TypeError(
        f"can't convert {name_of(place)} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host"
        " memory first."
    )


def cannot_pin(kind: str) -> RuntimeError:
    """Memory of a GPU was to be pinned."""
    return RuntimeError(f"cannot pin '{kind}' only dense CPU tensors can be pinned")


def name_of(place: DevicePlace) -> str:
    """A place as PyTorch writes a device."""
    return "cpu" if place == HOST else f"cuda:{place}"


def apart(first: DevicePlace, other: DevicePlace) -> RuntimeError:
    """Operands of an elementwise operation that live apart."""
    one, two = sorted((name_of(first), name_of(other)), reverse=True)
    return RuntimeError(
        f"Expected all tensors to be on the same device, but found at least two devices, {one} and {two}!"
    )
