"""GPUs that others use: by their processes, or by what they leave to see where the driver does not show those."""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.diagnostic import Severity
from gpudoctor.probe.inventory.facts import Gpu, Inventory
from gpudoctor.probe.inventory.findings.point import CONTEXT, WeakPoint, gib

_TAKEN = 2**30
"""Bytes. A driver at rest holds less."""
_BUSY = 10
"""Percent of the last moment."""


def weak_points(inventory: Inventory) -> Iterator[WeakPoint]:
    """One for each GPU that is in use before anything was started."""
    for gpu in inventory.gpus:
        who = _computing(gpu)
        if who:
            yield _in_use(gpu, who)
            continue
        drawing = [each for each in gpu.processes.or_else(()) if each.graphics]
        if drawing and _taken(gpu) > _TAKEN:
            yield _display(gpu, drawing[0].name.or_else("a program"))


def _computing(gpu: Gpu) -> str:
    """Who, in words that end in the GPU's name; nothing where nobody is seen."""
    processes = [each for each in gpu.processes.or_else(()) if not each.ours and not each.graphics]
    drawing = any(each.graphics for each in gpu.processes.or_else(()))
    if processes:
        first, more = processes[0], len(processes) - 1
        also = f" and {more} more compute" if more else " computes"
        return f"{first.name.or_else('a process')} (PID {first.pid}){also} on {{gpus}}"
    if _taken(gpu) > _TAKEN and not drawing and not gpu.mig.or_else(False):
        # Containers do not see the processes of others.
        return "{gpus} {is} in use by something that cannot be seen from here"
    # A GPU that the driver has just woken up says that it is 100 % busy, and holds no memory.
    if gpu.utilization.or_else(0) >= _BUSY and _taken(gpu) >= CONTEXT and not drawing:
        return f"{{gpus}} {{is}} {gpu.utilization} % busy"
    return ""


def _taken(gpu: Gpu) -> int:
    return gpu.memory.get().used if gpu.memory.known else 0


def _held(gpu: Gpu) -> str:
    return f"{gib(_taken(gpu))} of {gib(gpu.memory.get().total)} taken" if gpu.memory.known else "memory taken"


def _in_use(gpu: Gpu, who: str) -> WeakPoint:
    return WeakPoint(
        "gpu-in-use",
        Severity.WARNING,
        f"{who} ({_held(gpu)})",
        "figures taken now are not this machine's own, and less memory is free",
        "nvidia-smi -i {ids}   (on the host), then end it or leave this GPU out with CUDA_VISIBLE_DEVICES",
        figure=_taken(gpu) / 2**30,
        unit="GiB",
        expectation=f"below {_TAKEN / 2**30:.0f} GiB, no other process",
        source="NVML",
        gpus=(gpu.index,),
    )


def _display(gpu: Gpu, name: str) -> WeakPoint:
    return WeakPoint(
        "gpu-draws",
        Severity.INFO,
        f"{{gpus}} {{is}} used by a display, {name} among others ({_held(gpu)})",
        "less memory is free, and figures vary with what is drawn",
        "log out of the desktop, or attach the display to another GPU",
        gpus=(gpu.index,),
    )
