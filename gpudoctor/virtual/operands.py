"""What is computed lives where its operands do; operands that live apart are an error of CUDA's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._device import _device_constructors

from gpudoctor.virtual.device_errors import apart, bad_fork
from gpudoctor.virtual.residence import HOST, UNKNOWN, DevicePlace, pin, place_of, settle

if TYPE_CHECKING:
    from gpudoctor.virtual.ordinals import VirtualGpus

_T = torch.Tensor
# Of these only the first operand says where the result lives, and the others may live anywhere.
_FREE_NAMES = (
    "copy_ _foreach_copy_ new_tensor new set_ resize_as_ expand_as view_as reshape_as is_same_size result_type can_cast"
    " _has_compatible_shallow_copy_type broadcast_tensors broadcast_to ctc_loss pack_padded_sequence"
    " _pack_padded_sequence __deepcopy__ __setstate__ __reduce_ex__ backward resolve_conj"
)
_LISTS = (list, tuple)


class Operands:
    """Computes on the CPU and says where the results live."""

    def __init__(self, gpus: VirtualGpus) -> None:
        self._gpus = gpus
        self.default: torch.device | None = None
        """Where tensors are made of which nothing else is said (`torch.set_default_device`)."""
        self._makers = frozenset(_device_constructors())
        self._free = frozenset(_named(_FREE_NAMES.split()))

    def computed(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What a function of torch returns, with each tensor of it marked with its place."""
        tensors: list[torch.Tensor] = []
        _gather(args, tensors)
        wanted = UNKNOWN
        elsewhere = pinned = False
        if kwargs:
            _gather(kwargs.values(), tensors)
            device = kwargs.get("device")
            if device is not None:
                wanted = self._gpus.meant(device)
                elsewhere = wanted is UNKNOWN
                if wanted is not UNKNOWN and wanted >= 0:
                    kwargs = {**kwargs, "device": "cpu"}
            if kwargs.get("pin_memory"):
                pinned = True
                kwargs = {**kwargs, "pin_memory": False}
        if self.default is not None and wanted is UNKNOWN and not elsewhere and func in self._makers:
            return self.computed(func, args, {**kwargs, "device": self.default})
        place = self._place(func, tensors)
        if self._gpus.forked and place is not UNKNOWN and place >= 0:
            raise bad_fork()
        found = func(*args, **kwargs)
        if wanted is not UNKNOWN:
            place = wanted
        if place is not UNKNOWN and not elsewhere:
            settle(found, place)
        return pin(found) if pinned else found

    def _place(self, func: Any, tensors: list[torch.Tensor]) -> DevicePlace:
        """Where the result lives; raises where CUDA would not compute it."""
        if not tensors:
            return HOST
        places = [place_of(each) for each in tensors]
        first = places[0]
        if places.count(first) == len(places) or func in self._free:
            return first
        return self._among(func, tensors, places)

    def _among(self, func: Any, tensors: list[torch.Tensor], places: list[DevicePlace]) -> DevicePlace:
        """The place of operands that do not all live at the same one."""
        gpus = [place for place in places if place is not UNKNOWN and place >= 0]
        if not gpus:
            return UNKNOWN
        if not _is_of_torch(func):
            return gpus[0]
        # A number in a tensor of the host goes along with any operation.
        counted = [
            place
            for tensor, place in zip(tensors, places, strict=True)
            if place is not UNKNOWN and not (place == HOST and tensor.dim() == 0)
        ]
        if func in _INDEXING and counted[0] != HOST:
            counted = [place for place in counted if place != HOST]
        other = next((place for place in counted if place != counted[0]), None)
        if other is not None:
            raise apart(counted[0], other)
        return gpus[0]


def _gather(values: Iterable[Any], found: list[torch.Tensor]) -> None:
    for value in values:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif type(value) in _LISTS:
            _gather(value, found)


def _is_of_torch(func: Any) -> bool:
    """Not an operator that others have registered: who knows where that wants its operands."""
    return getattr(func, "namespace", "aten") == "aten"


def _named(names: Iterable[str]) -> Iterable[Any]:
    """Functions of torch and methods of tensors with these names."""
    for owner in (_T, torch, torch.nn.functional, torch._C._nn, torch._VF):
        for name in names:
            found = getattr(owner, name, None)
            if found is not None:
                yield found


_INDEXING = frozenset(_named(("__getitem__", "__setitem__", "index_put", "index_put_")))
