"""The errors of operations whose operands live apart. The texts are those of PyTorch's sources, not yet of hardware.

Two kinds of check say most of them. Elementwise operations name two devices. All other kernels compare their arguments
in the order of their declaration, and name the first one that lives elsewhere than those before it. Some operations
look themselves, with words of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.nn import functional

from gpudoctor.virtual.device_errors import name_of
from gpudoctor.virtual.residence import HOST, UNKNOWN, DevicePlace, place_of

KernelCheck = tuple[str, tuple[tuple[str, Any], ...]]
"""A kernel, and its arguments with their names, in the order in which it compares them."""
_NAMES_ARGUMENT_FIRST = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 9)
_IN_C = (torch, torch._C._nn, torch._VF, torch.Tensor, functional)


def error_of(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], first: DevicePlace, other: DevicePlace
) -> Exception:
    """What CUDA raises when `func` is called with these, of which at least two live at `first` and at `other`."""
    own = _OWN_WORDS.get(func)
    text = own(*args, **kwargs) if own is not None else None
    if text is None:
        kernel = _KERNELS.get(func)
        text = _of_kernel(*kernel(*args, **kwargs)) if kernel is not None else None
    return RuntimeError(text or _of_elements(first, other))


def _of_elements(first: DevicePlace, other: DevicePlace) -> str:
    # The first that is no CPU is the common one.
    one, two = sorted((first, other), key=lambda place: place == HOST)
    return (
        "Expected all tensors to be on the same device, but found at least two devices,"
        f" {name_of(one)} and {name_of(two)}!"
    )


def _of_kernel(kernel: str, arguments: Iterable[tuple[str, Any]]) -> str | None:
    common: DevicePlace = UNKNOWN
    for name, value in arguments:
        for tensor in value if isinstance(value, (list, tuple)) else (value,):
            place = place_of(tensor) if isinstance(tensor, torch.Tensor) else UNKNOWN
            if common is UNKNOWN:
                common = place
            if place is not UNKNOWN and place != common:
                return _of_argument(f"wrapper_CUDA_{kernel}", name, place, common)
    return None


def _of_argument(kernel: str, name: str, place: DevicePlace, common: DevicePlace) -> str:
    begin = "Expected all tensors to be on the same device, but"
    if _NAMES_ARGUMENT_FIRST:
        return (
            f"{begin} got {name} is on {name_of(place)}, different from other tensors on {name_of(common)}"
            f" (when checking argument in method {kernel})"
        )
    return (
        f"{begin} found at least two devices, {name_of(common)} and {name_of(place)}!"
        f" (when checking argument for argument {name} in method {kernel})"
    )


def _linear(input: Any, weight: Any, bias: Any = None) -> KernelCheck:
    if bias is not None and input.dim() > 1:
        return "addmm", (("self", bias), ("mat1", input), ("mat2", weight))
    return _product(input, weight)


def _product(input: Any, other: Any, **_: Any) -> KernelCheck:
    kernel = "bmm" if input.dim() > 2 and other.dim() > 2 else "mm"
    return kernel, (("self", input), ("mat2", other))


def _addmm(input: Any, mat1: Any, mat2: Any, **_: Any) -> KernelCheck:
    return "addmm", (("self", input), ("mat1", mat1), ("mat2", mat2))


def _joined(tensors: Any, *_: Any, **__: Any) -> KernelCheck:
    return "cat", (("tensors", tensors),)


def _embedding(input: Any, weight: Any, *_: Any, **__: Any) -> KernelCheck:
    return "_index_select", (("self", weight), ("index", input))


def _index_select(input: Any, dim: int, index: Any) -> KernelCheck:
    return "_index_select", (("self", input), ("index", index))


def _gather(input: Any, dim: int, index: Any, **_: Any) -> KernelCheck:
    return "gather", (("self", input), ("index", index))


def _scatter(input: Any, dim: int, index: Any, src: Any = None, **_: Any) -> KernelCheck:
    return "scatter__src", (("self", input), ("index", index), ("src", src))


def _nll(input: Any, target: Any, weight: Any = None, *_: Any, **__: Any) -> KernelCheck:
    kernel = "_nll_loss2d_forward" if input.dim() > 2 else "nll_loss_forward"
    return kernel, (("self", input), ("target", target), ("weight", weight))


def _cross_entropy(input: Any, target: Any, weight: Any = None, *_: Any, **__: Any) -> KernelCheck:
    # With probabilities for classes, it is made of elementwise operations.
    return ("", ()) if target.is_floating_point() else _nll(input, target, weight)


def _layer_norm(input: Any, shape: Any, weight: Any = None, bias: Any = None, *_: Any, **__: Any) -> KernelCheck:
    return "_native_layer_norm", (("input", input), ("weight", weight), ("bias", bias))


def _batch_norm(
    input: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    *_: Any,
    **__: Any,
) -> KernelCheck:
    on_host = place_of(input) == HOST
    kernel = "_native_batch_norm" if on_host else "_cudnn_batch_norm"
    own = (("running_mean", running_mean), ("running_var", running_var))
    return kernel, (("input", input), ("weight", weight), ("bias", bias), *own)


def _convolution(input: Any, weight: Any, *_: Any, **__: Any) -> str | None:
    if place_of(input) == place_of(weight):
        return None
    text = f"Input type ({_type_of(input)}) and weight type ({_type_of(weight)}) should be the same"
    by_mkldnn = place_of(input) == HOST and input.dtype == torch.float32
    return f"{text} or input should be a MKLDNN tensor and weight is a dense tensor" if by_mkldnn else text


def _recurrent(input: Any, hidden: Any, weights: Any, *_: Any, **__: Any) -> str | None:
    if not isinstance(weights, (list, tuple)) or place_of(input) == place_of(weights[0]):
        return None
    return (
        "Input and parameter tensors are not at the same device, found input tensor at"
        f" {name_of(place_of(input))} and parameter tensor at {name_of(place_of(weights[0]))}"
    )


def _index(input: Any, *_: Any, **__: Any) -> str:
    return f"indices should be either on cpu or on the same device as the indexed tensor ({name_of(place_of(input))})"


def _equal(input: Any, other: Any) -> str:
    places = f"{name_of(place_of(input))} and {name_of(place_of(other))}"
    return f"Cannot compare two tensors on different devices. Got: {places}"


def _backward(tensor: Any, gradient: Any = None, *_: Any, **__: Any) -> str:
    expected, found = name_of(place_of(tensor)), name_of(place_of(gradient))
    return f"invalid gradient at index 0 - expected device {expected} but got {found}"


def _masked_fill(input: Any, mask: Any, *_: Any, **__: Any) -> str:
    places = f"mask on {name_of(place_of(mask))} and self on {name_of(place_of(input))}"
    return f"expected self and mask to be on the same device, but got {places}"


def _type_of(tensor: torch.Tensor) -> str:
    kind: str = tensor.type()
    return kind if place_of(tensor) == HOST else kind.replace("torch.", "torch.cuda.", 1)


def _everywhere(table: dict[str, Callable[..., Any]]) -> dict[Any, Callable[..., Any]]:
    """By the functions that have a name of the table, wherever torch has one."""
    return {
        getattr(owner, name): say
        for names, say in table.items()
        for name in names.split()
        for owner in _IN_C
        if hasattr(owner, name)
    }


_KERNELS = _everywhere(
    {
        "linear": _linear,
        "matmul mm bmm __matmul__": _product,
        "addmm baddbmm": _addmm,
        "cat concat concatenate stack hstack vstack": _joined,
        "embedding": _embedding,
        "index_select": _index_select,
        "gather": _gather,
        "scatter_ scatter scatter_add scatter_add_": _scatter,
        "nll_loss nll_loss_nd": _nll,
        "cross_entropy cross_entropy_loss": _cross_entropy,
        "layer_norm": _layer_norm,
        "batch_norm": _batch_norm,
    }
)
_OWN_WORDS = _everywhere(
    {
        "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d": _convolution,
        "lstm gru rnn_tanh rnn_relu": _recurrent,
        "__getitem__ __setitem__ index_put index_put_": _index,
        "equal": _equal,
        "backward": _backward,
        "masked_fill masked_fill_": _masked_fill,
    }
)
