"""Copies that a kernel of CUDA makes at once, and that count as changes of their targets on the CPU.

`fully_shard` writes gathered parameters into the same memory again while a backward still needs them. Since torch 2.7
it keeps their version counters itself.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any

import torch

_NAMES = ("split_with_sizes_copy", "_chunk_cat")


def install() -> None:
    """Have these copies leave the counters of their targets alone, as CUDA's do."""
    for name in _NAMES:
        setattr(torch, name, _uncounted(getattr(torch, name)))


def _uncounted(copy: Any) -> Any:
    @functools.wraps(copy)
    def copied(*args: Any, **kwargs: Any) -> Any:
        out = kwargs.get("out")
        targets = () if out is None else (out,) if isinstance(out, torch.Tensor) else tuple(out)
        with contextlib.ExitStack() as stack:
            for each in targets:
                if not each.is_inference():
                    stack.enter_context(torch.autograd._unsafe_preserve_version_counter(each))
            return copy(*args, **kwargs)

    return copied
