"""Lists of tensors are computed at once device by device: by virtual GPUs, which C++ cannot see."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch

from gpudoctor.virtual.residence import HOST, UNKNOWN, place_of


def install() -> None:
    """Group the gradients of a model that is on several GPUs by GPU, as clipping by their norm asks for it."""
    group = torch._C._group_tensors_by_device_and_dtype

    @functools.wraps(group)
    def grouped(lists: Sequence[Sequence[torch.Tensor]], with_indices: bool = False) -> dict[Any, Any]:
        at: dict[int, list[int]] = {}
        # The steps of optimizers see tensors as they are.
        if torch._C._is_torch_function_mode_enabled():
            for index, each in enumerate(lists[0]):
                place = place_of(each)
                at.setdefault(HOST if place is UNKNOWN else place, []).append(index)
        if len(at) < 2:
            found: dict[Any, Any] = group(lists, with_indices)
            return found
        apart = {}
        for place, indices in at.items():
            here = group([[one[index] for index in indices] for one in lists], True)
            for (_, dtype), (parts, places) in here.items():
                device = torch.device("cuda", place) if place >= 0 else torch.device("cpu")
                apart[device, dtype] = parts, [indices[one] for one in places] if with_indices else []
        return apart

    torch._C._group_tensors_by_device_and_dtype = grouped
