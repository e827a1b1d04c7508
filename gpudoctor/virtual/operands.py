"""What is computed lives where its operands do; operands that live apart are an error of CUDA's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch.utils._device import _device_constructors

from gpudoctor.virtual.birthplaces import BIRTH
from gpudoctor.virtual.device_errors import bad_fork, wrong_generator
from gpudoctor.virtual.operand_errors import error_of
from gpudoctor.virtual.ordinals import VirtualGpus
from gpudoctor.virtual.random_streams import DeviceRandom
from gpudoctor.virtual.residence import HOST, UNKNOWN, DevicePlace, pin, place_of, settle

# Of these only the first operand says where the result lives, and the others may live anywhere.
_FREE_NAMES = (
    "copy_ _foreach_copy_ new_tensor new set_ resize_as_ expand_as view_as reshape_as is_same_size result_type can_cast"
    " _has_compatible_shallow_copy_type broadcast_tensors broadcast_to ctc_loss pack_padded_sequence"
    " _pack_padded_sequence __deepcopy__ __setstate__ __reduce_ex__ resolve_conj _nested_view_from_jagged"
)
_DRAWING_NAMES = """rand randn randint randperm normal bernoulli multinomial poisson binomial rand_like randn_like
 randint_like bernoulli_ normal_ uniform_ exponential_ geometric_ cauchy_ log_normal_ random_ dropout dropout_ dropout1d
 dropout2d dropout3d alpha_dropout alpha_dropout_ feature_dropout feature_dropout_ feature_alpha_dropout
 feature_alpha_dropout_ native_dropout rrelu rrelu_ gumbel_softmax scaled_dot_product_attention
 multi_head_attention_forward lstm gru rnn_tanh rnn_relu fractional_max_pool2d fractional_max_pool3d kaiming_uniform_
 kaiming_normal_"""
_LISTS = (list, tuple)


class Operands:
    """Computes on the CPU and says where the results live."""

    def __init__(self, gpus: VirtualGpus, random: DeviceRandom) -> None:
        self._gpus = gpus
        self._random = random
        self.default: torch.device | None = None
        """Where tensors are made of which nothing else is said (`torch.set_default_device`)."""
        self._makers = frozenset(_device_constructors())
        self._free = frozenset(_named(_FREE_NAMES.split()))

    def computed(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What a function of torch returns, with each tensor of it marked with its place."""
        if kwargs or self.default is not None:
            return self._with_options(func, args, kwargs)
        tensors: list[torch.Tensor] = []
        _gather(args, tensors)
        return self._run(func, args, kwargs, self._place(func, args, kwargs, tensors))

    def _with_options(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tensors: list[torch.Tensor] = []
        _gather(args, tensors)
        _gather(kwargs.values(), tensors)
        place = self._place(func, args, kwargs, tensors)
        device = kwargs.get("device")
        if device is None and func in self._makers:
            device = self.default
        if isinstance(func, torch._ops.OpOverload) and device is not None and torch.device(device).type == "cpu":
            # C++ has written its own device down, and a tensor over a mesh hands that on.
            place = place if tensors else UNKNOWN
        elif device is not None:
            place = self._gpus.meant(device)
            # What is to be neither on the host nor on a GPU, as on `meta`, is for torch.
            kwargs = {**kwargs, "device": device if place is UNKNOWN else "cpu"}
        if kwargs.get("generator") is not None and place is not UNKNOWN:
            _check_generator(kwargs["generator"], place)
        if kwargs.get("pin_memory"):
            return pin(func(*args, **{**kwargs, "pin_memory": False}))
        return self._run(func, args, kwargs, place)

    def _run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], place: DevicePlace) -> Any:
        if self._gpus.forked and place is not UNKNOWN and place >= 0:
            raise bad_fork()
        BIRTH.operation = place
        if func in _DRAWING and place is not UNKNOWN and self._random.is_apart(place):
            with self._random.drawing(place):
                found = func(*args, **kwargs)
        else:
            found = func(*args, **kwargs)
        if place is not UNKNOWN:
            settle(found, place)
        return found

    def _place(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], tensors: Sequence[torch.Tensor]
    ) -> DevicePlace:
        """Where the result lives; raises where CUDA would not compute it."""
        if not tensors:
            return HOST
        places = [place_of(each) for each in tensors]
        first = places[0]
        if places.count(first) == len(places) or func in self._free:
            return first
        gpus = [place for place in places if place is not UNKNOWN and place >= 0]
        if not gpus:
            return UNKNOWN
        # Who knows where operators of others want their operands?
        if getattr(func, "namespace", "aten") == "aten":
            counted = _compared(func, args, tensors, places)
            other = next((place for place in counted if place != counted[0]), UNKNOWN)
            if other is not UNKNOWN:
                raise error_of(func, args, kwargs, counted[0], other)
        return first if func in _WRITING else gpus[0]


def _compared(
    func: Any, args: tuple[Any, ...], tensors: Iterable[torch.Tensor], places: Sequence[DevicePlace]
) -> list[DevicePlace]:
    """The places of the operands that must be at one place."""
    # The indices at which a tensor of the host is written are copied there, as is a number; those of a read are not.
    if func in _WRITING and places[0] == HOST:
        tensors = [args[0], *(each for each in args[2:] if isinstance(each, torch.Tensor) and each.dim())]
        places = [place_of(each) for each in tensors]
    # A number in a tensor of the host goes along with any operation.
    counted: list[DevicePlace] = [
        place
        for tensor, place in zip(tensors, places, strict=True)
        if place is not UNKNOWN and not (place == HOST and tensor.dim() == 0)
    ]
    # What is on a GPU is indexed with numbers of the host, too, and takes values from there.
    return [place for place in counted if place != HOST] if func in _INDEXING and counted[0] != HOST else counted


def _check_generator(generator: torch.Generator, place: DevicePlace) -> None:
    kind = "cpu" if place == HOST else "cuda"
    if generator.device.type != kind:
        raise wrong_generator(kind, generator.device.type)


def _gather(values: Iterable[Any], found: list[torch.Tensor]) -> None:
    for value in values:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif type(value) in _LISTS:
            _gather(value, found)


def _named(names: Iterable[str]) -> Iterable[Any]:
    """Functions of torch and methods of tensors with these names."""
    for owner in (torch.Tensor, torch, torch.nn.functional, torch._C._nn, torch._VF, torch.nn.init):
        for name in names:
            found = getattr(owner, name, None)
            if found is not None:
                yield found


_DRAWING = frozenset(_named(_DRAWING_NAMES.split()))
_WRITING = frozenset(_named(("__setitem__", "index_put", "index_put_")))
_INDEXING = _WRITING | frozenset(_named(("__getitem__",)))
