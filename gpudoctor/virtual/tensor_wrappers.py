"""Tensors that wrap others, as the results of functional collectives do: of the CPU, as those within them.

C++ lets no such tensor of another device stand for the views of one of the CPU.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from gpudoctor.virtual.ordinals import VirtualGpus
from gpudoctor.virtual.residence import UNKNOWN, put


def install(gpus: VirtualGpus) -> None:
    """Have them made on the CPU, with a mark where they say that they are."""
    make: Any = torch.Tensor._make_wrapper_subclass

    @functools.wraps(make)
    def made(kind: Any, *args: Any, **kwargs: Any) -> Any:
        # Some hand the device over by its place among the arguments.
        at = next((number for number, each in enumerate(args) if isinstance(each, torch.device)), None)
        place = gpus.meant(kwargs.get("device") if at is None else args[at])
        if place is UNKNOWN:
            return make(kind, *args, **kwargs)
        if at is None:
            found = make(kind, *args, **{**kwargs, "device": "cpu"})
        else:
            found = make(kind, *args[:at], torch.device("cpu"), *args[at + 1 :], **kwargs)
        # What says of itself which tensor it wraps is where that is.
        return found if hasattr(kind, "__tensor_flatten__") else put(found, place)

    torch.Tensor._make_wrapper_subclass = staticmethod(made)
