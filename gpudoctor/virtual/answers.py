"""What a tensor says of itself: its device, its text, its memory as numpy sees it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from gpudoctor.virtual.backward_pass import InMode
from gpudoctor.virtual.birthplaces import BIRTH
from gpudoctor.virtual.device_errors import no_numpy, wrong_gradient
from gpudoctor.virtual.ordinals import VirtualGpus
from gpudoctor.virtual.residence import (
    HOST,
    UNKNOWN,
    DevicePlace,
    guessed,
    place_of,
    place_of_storage,
    put,
    put_storage,
)
from gpudoctor.virtual.tensor_mode import TorchAnswer

_T = torch.Tensor
_ASKS = """__format__ tolist item size dim numel __len__ untyped_storage storage _typed_storage data_ptr stride
 is_contiguous __hash__ element_size is_floating_point is_complex is_signed nelement storage_offset requires_grad_
 retain_grad ndimension __bool__ __int__ __float__ __index__ is_inference sym_size is_conj is_neg
 register_post_accumulate_grad_hook has_names _is_view __contains__ is_set_to"""
_PROPERTIES = """shape dtype requires_grad is_leaf grad_fn layout ndim _base is_sparse is_quantized is_nested output_nr
 _version is_meta is_mps is_xla is_xpu is_mkldnn is_vulkan is_ort is_ipu is_maia is_hpu is_mtia is_sparse_csr names
 itemsize nbytes retains_grad _backward_hooks name _grad volatile _cdata"""


class TensorAnswers:
    """The answers to what needs no copy."""

    def __init__(self, gpus: VirtualGpus, in_mode: InMode) -> None:
        self._in_mode = in_mode
        self._devices = [torch.device("cuda", index) for index in range(gpus.machine)]

    def table(self) -> Iterator[tuple[Any, TorchAnswer]]:
        """Functions of torch with their answers."""
        # What returns no new tensor is only called.
        for name in _ASKS.split():
            if hasattr(_T, name):
                yield getattr(_T, name), _plain
        for name in _PROPERTIES.split():
            if hasattr(getattr(_T, name, None), "__get__"):
                yield getattr(_T, name).__get__, _plain
        yield torch._C._set_grad_enabled, _plain
        yield _T.requires_grad.__set__, _plain
        yield _T.data.__set__, _plain
        yield _T.device.__get__, self._device
        yield _T.is_cuda.__get__, lambda _, args, __: _on_gpu(self._seen(args[0]))
        yield _T.is_cpu.__get__, self._is_cpu
        yield _T.get_device, self._get_device
        yield _T.grad.__get__, _grad
        yield _T.grad.__set__, _set_grad
        yield _T.__repr__, self._text
        yield _T.numpy, _numpy
        yield _T.__array__, _numpy
        yield _T.set_, _set
        yield _T.record_stream, lambda *_: None
        # Memory of a GPU can be sent as it is.
        yield _T.is_shared, lambda func, args, __: _on_gpu(self._seen(args[0])) or func(*args)
        yield torch.device, self._make_device
        yield torch._C._nn._parse_to, self._parse_to

    def _seen(self, tensor: torch.Tensor) -> DevicePlace:
        """Where a tensor lives, as far as it is asked."""
        place = place_of(tensor)
        if place is UNKNOWN:
            place = guessed(tensor)
        return BIRTH.place if place is UNKNOWN else place

    def _device(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        place = self._seen(args[0])
        real = func(*args) if not _on_gpu(place) else None
        return self._devices[place] if real is None and place is not None else real

    def _is_cpu(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return False if _on_gpu(self._seen(args[0])) else func(*args)

    def _get_device(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        place = self._seen(args[0])
        return place if _on_gpu(place) else func(*args)

    def _text(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        # As torch writes it, which asks the tensor again.
        with self._in_mode():
            text: str = torch._tensor_str._str(*args, **kwargs)
            return text

    def _make_device(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if args and type(args[0]) is int and len(args) == 1:
            return func("cuda", args[0])
        return func(*args, **kwargs)

    def _parse_to(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if args and type(args[0]) is int:
            args = (torch.device("cuda", args[0]), *args[1:])
        elif type(kwargs.get("device")) is int:
            kwargs = {**kwargs, "device": torch.device("cuda", kwargs["device"])}
        return func(*args, **kwargs)


def _plain(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return func(*args, **kwargs)


def _on_gpu(place: DevicePlace) -> bool:
    return place is not UNKNOWN and place >= 0


def _grad(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A gradient that the engine has made lives where its tensor does."""
    found = func(*args)
    if found is not None and place_of(found) is UNKNOWN:
        put(found, place_of(args[0]))
    return found


def _set_grad(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    tensor, gradient = args
    if gradient is not None:
        place, other = place_of(tensor), place_of(gradient)
        if UNKNOWN not in (place, other) and place != other:
            raise wrong_gradient(place, other)
    return func(*args)


def _numpy(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    place = place_of(args[0])
    if place is not UNKNOWN and place >= 0:
        raise no_numpy(place)
    return func(*args, **kwargs)


def _set(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A tensor made of a storage, as when it is loaded: nobody has said that it lives on a GPU."""
    found = func(*args, **kwargs)
    if len(args) > 1 and not isinstance(args[1], torch.Tensor) and place_of_storage(args[1]) is UNKNOWN:
        put_storage(args[1], HOST)
    return found
