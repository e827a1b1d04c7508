"""What moves tensors: a copy on another place is another tensor of the CPU, with its own mark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from gpudoctor.virtual.device_errors import cannot_pin
from gpudoctor.virtual.legacy_types import dtype_of
from gpudoctor.virtual.operands import Operands
from gpudoctor.virtual.ordinals import VirtualGpus
from gpudoctor.virtual.residence import HOST, UNKNOWN, DevicePlace, is_pinned, pin, place_of, put
from gpudoctor.virtual.tensor_mode import TorchAnswer

_T = torch.Tensor
_to = _T.to


class Transfers:
    """The answers to what copies a tensor to another place."""

    def __init__(self, gpus: VirtualGpus, operands: Operands) -> None:
        self._gpus = gpus
        self._operands = operands

    def table(self) -> Iterator[tuple[Any, TorchAnswer]]:
        """Functions of torch with their answers."""
        yield _T.to, self._answer_to
        yield _T.cuda, self._cuda
        yield _T.cpu, self._cpu
        yield _T.type, self._type
        yield _T.type_as, lambda _, args, __: self._moved(args[0], place_of(args[1]), {"dtype": args[1].dtype})
        yield _T.pin_memory, self._pin_memory
        yield _T.is_pinned, lambda _, args, __: is_pinned(args[0])
        yield torch.tensor, self._tensor
        yield torch.as_tensor, self._as_tensor
        yield torch.asarray, self._as_tensor

    def _answer_to(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tensor, *rest = args
        options = dict(kwargs)
        names: tuple[str, ...] = ("non_blocking", "copy")
        if rest:
            first = rest.pop(0)
            if isinstance(first, torch.Tensor):
                options["other"] = first
            elif isinstance(first, torch.dtype):
                options["dtype"] = first
            else:
                options["device"] = first
                names = ("dtype", *names)
            options.update(zip(names, rest, strict=False))
        place = UNKNOWN
        other = options.pop("other", None)
        if other is not None:
            options["dtype"], place = other.dtype, place_of(other)
        device = options.pop("device", None)
        if device is not None:
            place = self._gpus.meant(device)
            # Neither the host nor a GPU, as `meta`.
            if place is UNKNOWN:
                return func(*args, **kwargs)
        return self._moved(tensor, place, options)

    def _moved(self, tensor: torch.Tensor, place: DevicePlace, options: dict[str, Any]) -> torch.Tensor:
        here = place_of(tensor)
        options.pop("non_blocking", None)
        if place is UNKNOWN or place == here:
            if options.get("dtype") is None:
                options.pop("dtype", None)
            found = _to(tensor, **options) if options else tensor
            if found is not tensor and here is not UNKNOWN and place_of(found) is UNKNOWN:
                put(found, here)
            return found
        options["copy"] = True
        if options.get("dtype") is None:
            options["dtype"] = tensor.dtype
        return put(_to(tensor, **options), place)

    def _cuda(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        device = args[1] if len(args) > 1 else kwargs.get("device")
        place = self._gpus.current if device is None else self._gpus.meant(device)
        if place is UNKNOWN or place == HOST:
            raise RuntimeError("Invalid device, must be cuda device")
        return self._moved(args[0], place, _format(kwargs))

    def _cpu(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self._moved(args[0], HOST, _format(kwargs))

    def _type(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tensor, *rest = args
        wanted = rest[0] if rest else kwargs.get("dtype")
        here = place_of(tensor)
        if wanted is None:
            name: str = func(tensor)
            return name.replace("torch.", "torch.cuda.", 1) if here is not UNKNOWN and here >= 0 else name
        on_gpu, dtype = dtype_of(wanted)
        if dtype is None:
            return func(*args, **kwargs)
        place = here if on_gpu is None else HOST if not on_gpu else here
        if on_gpu and (here is UNKNOWN or here == HOST):
            place = self._gpus.current
        return self._moved(tensor, place, {"dtype": dtype})

    def _pin_memory(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tensor = args[0]
        here = place_of(tensor)
        if here is not UNKNOWN and here >= 0:
            raise cannot_pin(_T.type(tensor).replace("torch.", "torch.cuda.", 1))
        return tensor if is_pinned(tensor) else pin(tensor.clone())

    def _tensor(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Copies what it is given; of numbers that live on GPUs it makes a tensor of the host."""
        data = args[0] if args else kwargs.get("data")
        if isinstance(data, torch.Tensor) and kwargs.get("device") is None:
            return put(func(*args, **kwargs), place_of(data))
        options = {**kwargs, "device": self._target(kwargs.get("device"))}
        device = options["device"]
        place = self._gpus.meant(device)
        if place is not UNKNOWN:
            options["device"] = "cpu"
        found = func(*args, **options)
        return found if place is UNKNOWN and device is not None else put(found, HOST if place is UNKNOWN else place)

    def _as_tensor(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        data, *rest = args if args else (kwargs.get("data"),)
        options = {**dict(zip(("dtype", "device"), rest, strict=False)), **kwargs}
        options.pop("data", None)
        if not isinstance(data, torch.Tensor):
            return self._operands.computed(func, (data,), {**options, "device": self._target(options.get("device"))})
        device = options.pop("device", None)
        place = self._gpus.meant(device)
        if device is not None and place is UNKNOWN:
            return func(*args, **kwargs)
        return self._moved(data, place, {name: value for name, value in options.items() if name in ("dtype", "copy")})

    def _target(self, device: Any) -> Any:
        return self._operands.default if device is None else device


def _format(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {"memory_format": kwargs["memory_format"]} if "memory_format" in kwargs else {}
