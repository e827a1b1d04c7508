"""`torch.compile` compiles nothing: what it returns is what it would, and runs as it stands in the program."""

from __future__ import annotations

import functools
from typing import Any

import torch


def install() -> None:
    """Tell the compiler to leave everything as it is, as soon as somebody asks for it."""
    compile_with_torch = torch.compile
    asked = False

    @functools.wraps(compile_with_torch)
    def left_as_it_is(*args: Any, **kwargs: Any) -> Any:
        nonlocal asked
        if not asked:
            asked = True
            # It loads the compiler, which takes seconds.
            torch.compiler.set_stance("force_eager")
        return compile_with_torch(*args, **kwargs)

    torch.compile = left_as_it_is
    set_stance = torch.compiler.set_stance
    torch.compiler.set_stance = lambda *_, **__: set_stance("force_eager")
    # No graph of CUDA is recorded of what runs as it stands.
    torch.compiler.cudagraph_mark_step_begin = lambda: None
    # What is reset of them is asked for by name, which a build without CUDA lacks.
    for name in ("_cuda_CUDAAllocator_AllocatorState", "_set_cached_tensors_enabled"):
        if not hasattr(torch._C, name):
            setattr(torch._C, name, lambda *_: None)
