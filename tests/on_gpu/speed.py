"""How fast the GPU is, and what the probe makes of it: products, copies, the sizing of the transformer, compile."""

import time
from typing import Any

from gpudoctor.probe.workloads import transformer
from tests.on_gpu.part import Here, Step, Tell, seconds_of

ASKS = "products, copies, repeated results, the size of the transformer, torch.compile"
SECONDS = 75.0
GPUS = 1
_REPEATS = 100


def _products(tell: Tell, here: Here) -> None:
    """TFLOP/s of a large product in each type: the ceiling that steps are held against."""
    import torch

    if not here.rehearsal:
        tell("gpu", name=torch.cuda.get_device_name(), bfloat16=torch.cuda.is_bf16_supported())
    side = 128 if here.rehearsal else 8192
    found = {}
    for name in ("float32", "float16", "bfloat16"):
        a, b = (torch.randn(side, side, device=here.device, dtype=getattr(torch, name)) for _ in range(2))
        found[name] = 2 * side**3 / seconds_of(lambda a=a, b=b: a @ b, here) / 1e12
    torch.backends.cuda.matmul.allow_tf32 = True
    a, b = (torch.randn(side, side, device=here.device) for _ in range(2))
    found["tf32"] = 2 * side**3 / seconds_of(lambda: a @ b, here) / 1e12
    torch.backends.cuda.matmul.allow_tf32 = False
    tell("products", side=side, tflops=found)


def _copies(tell: Tell, here: Here) -> None:
    """GB/s to the GPU and back, from memory that is pinned and from such that is not, and within the GPU."""
    import torch

    size = 1 << (20 if here.rehearsal else 29)
    pageable = torch.empty(size, dtype=torch.uint8)
    pinned = pageable if here.rehearsal else pageable.pin_memory()
    there = torch.empty(size, dtype=torch.uint8, device=here.device)
    other = torch.empty_like(there)
    ways = {
        "pageable to gpu": lambda: there.copy_(pageable),
        "pinned to gpu": lambda: there.copy_(pinned, non_blocking=True),
        "gpu to pinned": lambda: pinned.copy_(there, non_blocking=True),
        "within gpu, read and written": lambda: other.copy_(there),
    }
    rates = {name: size / seconds_of(way, here) / 1e9 for name, way in ways.items()}
    rates["within gpu, read and written"] *= 2
    tell("copies", bytes=size, gigabytes_per_second=rates)


def _repeats(tell: Tell, here: Here) -> None:
    """The same product of the same numbers, bit by bit."""
    import torch

    side = 64 if here.rehearsal else 2048
    found = {}
    for name in ("float32", "bfloat16"):
        a, b = (torch.randn(side, side, device=here.device, dtype=getattr(torch, name)) for _ in range(2))
        first = a @ b
        found[name] = sum(not torch.equal(first, a @ b) for _ in range(_REPEATS))
    tell("repeats", products=_REPEATS, differ=found)


def _sized(tell: Tell, here: Here) -> None:
    """What a step of the transformer really takes, against what its size was chosen by."""
    import torch

    free = None if here.rehearsal else torch.cuda.mem_get_info()[0]
    size = transformer.size_for(free)
    workload = transformer.workload(size)
    model = workload.model().to(here.device)
    inputs, labels = (each.to(here.device) for each in workload.batch(workload.samples, 0))
    optimizer = torch.optim.Adam(model.parameters(), lr=workload.rate)

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast(here.device, dtype=torch.bfloat16):
            loss = workload.loss(model, inputs, labels)
        loss.backward()
        optimizer.step()

    if not here.rehearsal:
        torch.cuda.reset_peak_memory_stats()
    seconds = seconds_of(step, here)
    peak = None if here.rehearsal else torch.cuda.max_memory_allocated()
    tell(
        "transformer", width=size.width, blocks=size.blocks, seconds=seconds, estimated=size.bytes, peak=peak, free=free
    )


def _compiled(tell: Tell, here: Here) -> None:
    """Seconds of a step with and without torch.compile, or why it cannot be had."""
    import torch
    from torch import nn

    width = 64 if here.rehearsal else 2048
    model = nn.Sequential(*[layer for _ in range(4) for layer in (nn.Linear(width, width), nn.GELU())]).to(here.device)
    inputs = torch.randn(width, width, device=here.device)

    def step(which: Any) -> None:
        which(inputs).sum().backward()
        model.zero_grad()

    eager = seconds_of(lambda: step(model), here)
    try:
        # A rehearsal is not to wait for a compiler of C++.
        fast = torch.compile(model, backend="eager" if here.rehearsal else "inductor")
        began = time.perf_counter()
        step(fast)
        first = time.perf_counter() - began
        tell("compile", eager=eager, compiled=seconds_of(lambda: step(fast), here), first=first)
    except Exception as error:
        tell("compile", eager=eager, error=f"{type(error).__name__}: {str(error)[:600]}")


STEPS = (
    Step("products", 8.0, _products),
    Step("copies", 5.0, _copies),
    Step("repeated results", 5.0, _repeats),
    Step("the transformer's size", 10.0, _sized),
    Step("torch.compile", 30.0, _compiled),
)
