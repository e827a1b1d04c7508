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


def wrong_generator(wanted: str, found: str) -> RuntimeError:
    """A generator of one kind of device for tensors of another."""
    return RuntimeError(f"Expected a '{wanted}' device type for generator but found '{found}'")


def no_tracing(place: int) -> RuntimeError:
    """A tensor without numbers was to be on a GPU: C++ would end the process with the latter half."""
    return RuntimeError(f"FakeTensor on {name_of(place)}: PyTorch is not linked with support for cuda devices")


def state_on_gpu() -> TypeError:
    """The state of a generator is a tensor of the host."""
    return TypeError("RNG state must be a torch.ByteTensor")


def wrong_gradient(tensor: DevicePlace, gradient: DevicePlace) -> RuntimeError:
    """A gradient was assigned that lives elsewhere than its tensor."""
    kind, of_gradient = (name_of(place).partition(":")[0] for place in (tensor, gradient))
    return RuntimeError(
        f"attempting to assign a gradient with device type '{of_gradient}' to a tensor with device type '{kind}'."
        " Please ensure that the gradient and the tensor are on the same device"
    )


def scattered_state() -> RuntimeError:
    """The state of an optimizer lives elsewhere than the parameters."""
    # The words change with the versions: torch says them itself where one of two tensors is on another device.
    apart = [[torch.empty(1)], [torch.empty(1, device="meta")]]
    try:
        torch._C._group_tensors_by_device_and_dtype(apart, False)
    except RuntimeError as error:
        return error
    return RuntimeError("Tensors of the same index must be on the same device and the same dtype")
