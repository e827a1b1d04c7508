"""GPUs that are broken, about to break, too hot, or slowed down."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gpudoctor.diagnostic import Severity
from gpudoctor.probe.inventory.facts import Gpu, Inventory
from gpudoctor.probe.inventory.field import Absence, Field
from gpudoctor.probe.inventory.findings.point import WeakPoint, slowed_down, works
from gpudoctor.probe.inventory.slowdown import BY_NAME, REASONS
from gpudoctor.record import fields

_GONE = (Absence.LOST, Absence.TIMED_OUT)
_MEMORY_GUIDE = "NVIDIA's GPU memory error management guide"
_NEAR_LIMIT = 3
"""Degrees below the temperature at which clocks fall."""
_LOWERED = 0.95
_RECOVERY = {
    "reset": "sudo nvidia-smi --gpu-reset -i {ids}   (after all programs on it have ended)",
    "bus-reset": "sudo nvidia-smi --gpu-reset -i {ids}   (after all programs on it have ended)",
    "drain-and-reset": "let running jobs end and start none; then sudo nvidia-smi --gpu-reset -i {ids}",
    "drain": "let running jobs end, then reset the GPUs of this node together",
    "reboot": "sudo reboot",
}


def weak_points(inventory: Inventory) -> Iterator[WeakPoint]:
    """GPU by GPU, what is worst first."""
    for gpu in inventory.gpus:
        if why := _silent(gpu):
            yield _lost(gpu, why)
            continue
        for look in _LOOKS:
            yield from look(gpu)
    yield from _missing(inventory)


def _silent(gpu: Gpu) -> str:
    """Why a GPU does not answer, or answers no longer; nothing if it does."""
    all_fields = [getattr(gpu, each.name) for each in fields(gpu)]
    lost = [each for each in all_fields if isinstance(each, Field) and not each.known and each.absence in _GONE]
    return lost[0].why_not if lost else ""


def _lost(gpu: Gpu, why: str) -> WeakPoint:
    return WeakPoint(
        "gpu-lost",
        Severity.ERROR,
        f"{{gpus}} {{is}} lost to the driver ({why})",
        "CUDA may refuse all GPUs of this node while one is in this state",
        "sudo dmesg | grep -i xid; then reboot; if it comes back, the GPU or its slot is broken",
        gpus=(gpu.index,),
    )


def _missing(inventory: Inventory) -> Iterator[WeakPoint]:
    there, seen = inventory.system.nvidia_pci.or_else(()), inventory.driver.count.or_else(0)
    # A container or a virtual machine may be given some of them only.
    if seen and len(there) > seen and not inventory.system.container.known:
        addresses = {gpu.pci.or_else("")[-12:].lower() for gpu in inventory.gpus}
        missing = [address for address in there if address.lower()[-12:] not in addresses]
        yield WeakPoint(
            "gpu-missing",
            Severity.WARNING,
            f"the machine has {len(there)} NVIDIA GPUs and the driver runs {seen} ({', '.join(missing)} not)",
            "a GPU that has fallen off the bus, or is set aside for virtual machines",
            "sudo dmesg | grep -iE 'xid|nvrm'",
            figure=float(seen),
            unit="GPUs",
            expectation=str(len(there)),
            source="/sys/bus/pci",
        )


def _recovery(gpu: Gpu) -> Iterator[WeakPoint]:
    action = gpu.recovery.or_else("none")
    if action != "none":
        yield WeakPoint(
            "recovery-needed",
            Severity.ERROR,
            f"the driver asks for {action.replace('-', ' ')} of {{gpus}}",
            "it has met an error that it cannot recover from by itself",
            _RECOVERY.get(action, "see NVML's GPU recovery actions"),
            expectation="none",
            source="NVML, GPU recovery action",
            gpus=(gpu.index,),
        )


def _rows(gpu: Gpu) -> Iterator[WeakPoint]:
    rows = gpu.remapped_rows.value
    if rows is None:
        return
    count = rows.corrected + rows.uncorrected
    if rows.failed:
        yield WeakPoint(
            "row-remapping-failed",
            Severity.ERROR,
            f"{{gpus}} {{has}} no spare memory rows left for a bad one ({count} remapped)",
            "more memory errors will end programs",
            "have the GPU replaced",
            figure=float(count),
            unit="rows",
            source=_MEMORY_GUIDE,
            gpus=(gpu.index,),
        )
    elif rows.pending:
        yield WeakPoint(
            "row-remapping-pending",
            Severity.WARNING,
            f"{{gpus}} {{is}} waiting to replace a bad row of memory ({count} remapped so far)",
            "until then the bad row may be used again",
            "sudo nvidia-smi --gpu-reset -i {ids}   (after all programs on it have ended)",
            figure=float(count),
            unit="rows",
            source=_MEMORY_GUIDE,
            gpus=(gpu.index,),
        )


def _pages(gpu: Gpu) -> Iterator[WeakPoint]:
    if gpu.retired_pages_pending.or_else(False):
        yield WeakPoint(
            "page-retirement-pending",
            Severity.WARNING,
            "{gpus} {is} waiting to retire bad memory",
            "until the next reset the bad page may be used again",
            "sudo nvidia-smi --gpu-reset -i {ids}   (after all programs on it have ended)",
            source=_MEMORY_GUIDE,
            gpus=(gpu.index,),
        )


def _ecc(gpu: Gpu) -> Iterator[WeakPoint]:
    errors = gpu.ecc_uncorrected.or_else(0)
    if errors:
        yield WeakPoint(
            "memory-errors",
            Severity.WARNING,
            f"{{gpus}} {{has}} had {errors} memory error{'s' if errors > 1 else ''} beyond correction",
            "each has ended the program that it hit; counted since the driver was loaded",
            "nvidia-smi -q -d ECC,ROW_REMAPPER -i {ids}; reset the GPU; have it replaced if they come back",
            figure=float(errors),
            unit="errors",
            expectation="0",
            source=_MEMORY_GUIDE,
            gpus=(gpu.index,),
        )


def _slowed(gpu: Gpu) -> Iterator[WeakPoint]:
    reasons = gpu.slowed_by.or_else(())
    harmful = [reason for reason in REASONS if reason.name in reasons and reason.harm == "warn"]
    if harmful:
        # At rest clocks are low in any case.
        clock, best = (gpu.clock_sm.value, gpu.clock_sm_max.value) if works(gpu) else (None, None)
        yield slowed_down(gpu, clock, best, f" ({', '.join(BY_NAME[each.name].means for each in harmful)})")


def _hot(gpu: Gpu) -> Iterator[WeakPoint]:
    now, limit = gpu.temperature.value, gpu.temperature_slowdown.value
    if now is not None and limit and now >= limit - _NEAR_LIMIT:
        yield WeakPoint(
            "hot",
            Severity.WARNING,
            f"{{gpus}} {{is}} at {now} °C and slows down at {limit} °C",
            "training will run at lower clocks",
            "look after cooling: air flow, dust, fan control",
            figure=float(now),
            unit="°C",
            expectation=f"below {limit - _NEAR_LIMIT} °C",
            source="the GPU's own slowdown threshold",
            gpus=(gpu.index,),
        )


def _power(gpu: Gpu) -> Iterator[WeakPoint]:
    limit, default = gpu.power_limit.value, gpu.power_limit_default.value
    if limit and default and limit < _LOWERED * default:
        yield WeakPoint(
            "power-limit-lowered",
            Severity.PERF,
            f"{{gpus}} may draw {limit:.0f} W, its default is {default:.0f} W",
            "it is slower under full load than others of its kind",
            f"sudo nvidia-smi -i {{ids}} -pl {default:.0f}",
            figure=limit,
            unit="W",
            expectation=f"{default:.0f} W",
            source="the GPU's own default",
            gpus=(gpu.index,),
        )


def _mode(gpu: Gpu) -> Iterator[WeakPoint]:
    mode = gpu.compute_mode.or_else("default")
    if mode == "default":
        return
    nobody = mode == "prohibited"
    yield WeakPoint(
        "compute-mode",
        Severity.ERROR if nobody else Severity.INFO,
        f"{{gpus}} {{is}} in compute mode {mode}",
        "no program may compute on it"
        if nobody
        else "a second process on it fails with `CUDA-capable device(s) is/are busy`",
        "sudo nvidia-smi -i {ids} -c DEFAULT",
        expectation="default",
        source="NVML",
        gpus=(gpu.index,),
    )


def _mig(gpu: Gpu) -> Iterator[WeakPoint]:
    if not gpu.mig.or_else(False):
        return
    count = len(gpu.mig_instances)
    if not count:
        yield WeakPoint(
            "mig-without-instances",
            Severity.ERROR,
            "{gpus} {is} in MIG mode and has no instance that can be seen",
            "no program can use it",
            "sudo nvidia-smi -i {ids} -mig 0   (or: sudo nvidia-smi mig -i {ids} -cgi 0 -C)",
            source="NVML",
            gpus=(gpu.index,),
        )
        return
    yield WeakPoint(
        "mig",
        Severity.WARNING,
        f"{{gpus}} {{is}} cut into {count} MIG instance{'s' if count > 1 else ''}",
        "a process sees one instance only, and instances cannot train together: NCCL and peer access do not join them",
        "sudo nvidia-smi -i {ids} -mig 0   (for training on whole GPUs)",
        figure=float(count),
        unit="instances",
        source="NVIDIA's MIG user guide",
        gpus=(gpu.index,),
    )


def _persistence(gpu: Gpu) -> Iterator[WeakPoint]:
    if gpu.persistence.value is False:
        yield WeakPoint(
            "persistence-off",
            Severity.INFO,
            "{gpus} {is} put to sleep between programs",
            "each start waits a second or more for it",
            "sudo nvidia-smi -i {ids} -pm 1",
            gpus=(gpu.index,),
        )


_LOOKS: tuple[Callable[[Gpu], Iterator[WeakPoint]], ...] = (
    _recovery,
    _rows,
    _pages,
    _ecc,
    _slowed,
    _hot,
    _power,
    _mode,
    _mig,
    _persistence,
)
