"""Tensors that are made of memory of the host, by functions that no mode hears of."""

from __future__ import annotations

import functools
from typing import Any

import torch

from gpudoctor.virtual.residence import HOST, settle

_MAKERS = ("from_numpy", "frombuffer", "from_file")


def install() -> None:
    """Have what these functions return be known to live on the host."""
    for name in _MAKERS:
        setattr(torch, name, _on_host(getattr(torch, name)))


def _on_host(make: Any) -> Any:
    @functools.wraps(make)
    def watched(*args: Any, **kwargs: Any) -> Any:
        made = make(*args, **kwargs)
        settle(made, HOST)
        return made

    return watched
