"""Errors that the driver has written to the kernel's log, and which of them speak of the hardware."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpudoctor.diagnostic import Severity
from gpudoctor.probe.inventory.facts import Inventory, Xid
from gpudoctor.probe.inventory.findings.point import WeakPoint, named

# Those that Azure's node health checks take a node out for, in the words of NVIDIA's catalogue. What programs cause
# themselves (13, 31, 43, 45 ...) is left out.
_MEANS = {
    48: "a memory error beyond correction",
    56: "an error of the display engine",
    57: "an error of the interface to its memory",
    58: "an unstable interface to its memory",
    62: "its internal controller has stopped",
    63: "a bad row of memory was remapped",
    64: "a bad row of memory could not be remapped",
    65: "an error of the video engine",
    68: "an error of the video engine",
    69: "an error of the graphics engine",
    73: "an error of the video engine",
    74: "an NVLink error",
    79: "it has fallen off the bus",
    80: "corrupted data on the way to it",
    81: "an error of the VGA engine",
    92: "many memory errors that could be corrected",
    119: "its system processor no longer answers",
    120: "an error of its system processor",
}
_SOURCE = "the Xids that Azure's node health checks take a node out for"
_RECENT = 24 * 3600.0


def weak_points(inventory: Inventory) -> Iterator[WeakPoint]:
    """One for each GPU that has had such errors within a day."""
    by_gpu: dict[str, list[Xid]] = {}
    for xid in inventory.system.xids.or_else(()):
        if xid.code in _MEANS and xid.age <= _RECENT:
            by_gpu.setdefault(xid.pci, []).append(xid)
    for pci, xids in by_gpu.items():
        yield _point(inventory, pci, xids)


def _point(inventory: Inventory, pci: str, xids: Sequence[Xid]) -> WeakPoint:
    gpus = [gpu.index for gpu in inventory.gpus if _same(gpu.pci.or_else(""), pci)]
    last = xids[-1]
    again = f", {len(xids)} such errors in all" if len(xids) > 1 else ""
    where = named(gpus) if gpus else f"the GPU at {pci}"
    return WeakPoint(
        "xid",
        Severity.WARNING,
        f"the driver has reported Xid {last.code} of {where} {_ago(last.age)} ago ({_MEANS[last.code]}{again})",
        "programs that used it then have failed, and it may happen again",
        "sudo dmesg | grep -i xid; reset or reboot; if it comes back, have the GPU, its seat and its power looked at",
        figure=float(last.code),
        unit="Xid",
        expectation="none within a day",
        source=_SOURCE,
        gpus=tuple(gpus),
    )


def _same(nvml: str, logged: str) -> bool:
    """The log leaves out the function, and writes domains with four digits."""
    domain, _, rest = nvml.partition(":")
    return bool(nvml) and f"{domain[-4:]}:{rest.partition('.')[0]}" == logged.partition(".")[0]


def _ago(seconds: float) -> str:
    if seconds < 7200:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3600:.0f} hours"
