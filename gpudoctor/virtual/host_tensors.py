"""Tensors that are made of memory that is there already, by functions that no mode hears of."""

from __future__ import annotations

import functools
from typing import Any

import torch

from gpudoctor.virtual.residence import HOST, place_of, settle

_MAKERS = ("from_numpy", "frombuffer", "from_file")


def install() -> None:
    """Have what these functions return be known to live on the host."""
    for name in _MAKERS:
        setattr(torch, name, _on_host(getattr(torch, name)))
    share = torch.from_dlpack

    @functools.wraps(share)
    def shared(ext_tensor: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
        made = share(ext_tensor, *args, **kwargs)
        settle(made, place_of(ext_tensor) if isinstance(ext_tensor, torch.Tensor) else HOST)
        return made

    torch.from_dlpack = shared


def _on_host(make: Any) -> Any:
    @functools.wraps(make)
    def watched(*args: Any, **kwargs: Any) -> Any:
        made = make(*args, **kwargs)
        settle(made, HOST)
        return made

    return watched
