"""Who else uses a GPU: the processes that hold memory on it.

In a container the driver tells the PIDs of the host, or none: memory that is taken is the surer sign.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

from gpudoctor.probe.inventory.facts import GpuProcess
from gpudoctor.probe.inventory.field import Field, absent, known
from gpudoctor.probe.inventory.nvml_calls import Nvml, first

_INSUFFICIENT_SIZE = 7
_NO_FIGURE = 2**64 - 1
_MOST = 256


class _ProcessV1(ctypes.Structure):
    """What drivers before 2020 write; nvidia-ml-py no longer has it."""

    _fields_ = (("pid", ctypes.c_uint), ("usedGpuMemory", ctypes.c_ulonglong))


def processes(nvml: Nvml, handle: Any) -> Field[tuple[GpuProcess, ...]]:
    """The processes that compute or draw on a GPU, by their memory."""
    answer = first(
        lambda: nvml.ask("DeviceGetComputeRunningProcesses_v3", handle),
        lambda: nvml.ask("DeviceGetComputeRunningProcesses_v2", handle),
        lambda: nvml.call(lambda: _processes_v1(nvml, handle)),
    )
    drawing = first(
        lambda: nvml.ask("DeviceGetGraphicsRunningProcesses_v3", handle),
        lambda: nvml.ask("DeviceGetGraphicsRunningProcesses_v2", handle),
    )
    return answer.then(lambda found: _described(found, drawing.or_else([])))


def _processes_v1(nvml: Nvml, handle: Any) -> list[Any]:
    module = nvml.pynvml
    function = module._nvmlGetFunctionPointer("nvmlDeviceGetComputeRunningProcesses")
    count = ctypes.c_uint(_MOST)
    found = (_ProcessV1 * _MOST)()
    code = function(handle, ctypes.byref(count), ctypes.byref(found))
    if code not in (0, _INSUFFICIENT_SIZE):
        raise module.NVMLError(code)
    return list(found[: min(count.value, _MOST)])


def _described(computing: list[Any], drawing: list[Any]) -> tuple[GpuProcess, ...]:
    entries = [
        GpuProcess(each.pid, _memory(each.usedGpuMemory), _name(each.pid), _ours(each.pid), graphics=graphics)
        for found, graphics in ((computing, False), (drawing, True))
        for each in found
    ]
    return tuple(sorted(entries, key=lambda each: -each.memory.or_else(0)))


def _memory(figure: int | None) -> Field[int]:
    if figure is None or figure == _NO_FIGURE:
        return absent("the driver does not tell it for this process")
    return known(int(figure))


def _name(pid: int) -> Field[str]:
    """The command's name. Never its arguments: reports are pasted into public places."""
    try:
        return known(Path(f"/proc/{pid}/comm").read_text(errors="replace").strip())
    except OSError:
        return absent("no such process is seen from here (another user's, or outside of this container)")


def _ours(pid: int) -> bool:
    """Whether it is what started this process, or was started by it."""
    return os.getppid() in _line_of(pid) or pid in _line_of(os.getpid())


def _line_of(pid: int) -> list[int]:
    """A process and those it descends from, itself first."""
    line: list[int] = []
    while pid > 1 and pid not in line:
        line.append(pid)
        try:
            # The name in brackets may hold spaces; the parent is the second word after it.
            pid = int(Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            break
    return line
