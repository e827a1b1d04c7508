"""`torch.cuda.FloatTensor` and the like: types of old, of which a tensor on a virtual GPU is an instance, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from gpudoctor.virtual.residence import UNKNOWN, place_of, put

_DTYPES = {
    "FloatTensor": torch.float32,
    "DoubleTensor": torch.float64,
    "HalfTensor": torch.float16,
    "BFloat16Tensor": torch.bfloat16,
    "LongTensor": torch.int64,
    "IntTensor": torch.int32,
    "ShortTensor": torch.int16,
    "CharTensor": torch.int8,
    "ByteTensor": torch.uint8,
    "BoolTensor": torch.bool,
}
_ON_GPU = "torch.cuda."


class _CudaType(type):
    """The type of these types: it knows its instances by where they live."""

    dtype: torch.dtype
    current: Callable[[], int]

    def __instancecheck__(cls, instance: Any) -> bool:
        if not isinstance(instance, torch.Tensor) or instance.dtype != cls.dtype:
            return False
        place = place_of(instance)
        return place is not UNKNOWN and place >= 0

    def __call__(cls, *args: Any, **kwargs: Any) -> torch.Tensor:
        if len(args) == 1 and isinstance(args[0], torch.Tensor):
            return args[0].to(device="cuda", dtype=cls.dtype)
        made: torch.Tensor = getattr(torch, cls.__name__)(*args, **kwargs)
        return put(made, cls.current())


def dtype_of(wanted: Any) -> tuple[bool | None, torch.dtype | None]:
    """What an argument of `Tensor.type` asks for: whether to be on a GPU, None where it does not say, and the dtype."""
    if isinstance(wanted, torch.dtype):
        return None, wanted
    if isinstance(wanted, _CudaType):
        return True, wanted.dtype
    name = wanted if isinstance(wanted, str) else f"{wanted.__module__}.{wanted.__name__}"
    return name.startswith(_ON_GPU), _DTYPES.get(name.rpartition(".")[2])


def install(current: Callable[[], int]) -> None:
    """Put the types in the place of those of `torch.cuda`, which need a build with CUDA."""
    for name, dtype in _DTYPES.items():
        made = _CudaType(name, (), {"__module__": "torch.cuda", "dtype": dtype, "current": staticmethod(current)})
        setattr(torch.cuda, name, made)
