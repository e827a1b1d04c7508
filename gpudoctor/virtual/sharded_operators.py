"""Tensors over a mesh that PyTorch's own operators make, as those under `loss_parallel` do.

C++ calls these in the midst of an operation, where the mode is put away.
"""

from __future__ import annotations

import functools
from typing import Any

from gpudoctor.virtual.backward_pass import InMode


def install(in_mode: InMode) -> None:
    """Have the mode in place where they are made; `torch.distributed.tensor` has been imported."""
    from torch.distributed.tensor import DTensor

    make = DTensor.from_local

    @functools.wraps(make)
    def made(*args: Any, **kwargs: Any) -> Any:
        with in_mode():
            return make(*args, **kwargs)

    DTensor.from_local = staticmethod(made)
