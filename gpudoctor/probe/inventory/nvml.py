"""What the NVIDIA driver tells of each GPU. Every question is asked on its own, with older forms behind newer ones.

`read` tells what it will ask for before it asks: a driver that hangs is known by its last question.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from gpudoctor.probe.inventory import links, tenants
from gpudoctor.probe.inventory.facts import Driver, Gpu, GpuPair, Memory, MigInstance, RemappedRows
from gpudoctor.probe.inventory.field import Absence, Field, absent
from gpudoctor.probe.inventory.nvml_calls import Nvml, first, load
from gpudoctor.probe.inventory.slowdown import in_words

_COMPUTE_MODES = {0: "default", 1: "exclusive-thread", 2: "prohibited", 3: "exclusive-process"}
_RECOVERY = {0: "none", 1: "reset", 2: "reboot", 3: "drain", 4: "drain-and-reset", 6: "bus-reset", 7: "reboot"}
_RECOVERY_FIELD = 230
_MEMORY_V2 = 0x02000028
_CORRECTED, _UNCORRECTED = 0, 1
_VOLATILE = 0
_CLOCK_SM, _CLOCK_MEMORY = 1, 2
_UNKNOWN_STATE = 32


def read() -> Iterator[str | Driver | Gpu | GpuPair]:
    """The driver, each GPU, each pair of GPUs, and before each of them what it will be."""
    yield "the driver"
    try:
        pynvml = load()
    except ImportError:
        missing = absent("nvidia-ml-py is not installed (pip install nvidia-ml-py)", Absence.NOT_INSTALLED)
        yield Driver(missing, missing, missing)
        return
    nvml = Nvml(pynvml)
    started = nvml.ask("Init")
    # `nvmlInit` answers None, which is no value; only its failure is told.
    if started.why_not:
        yield Driver(started, started, started)
        return
    driver = _driver(nvml)
    yield driver
    handles: dict[int, Any] = {}
    for index in range(driver.count.or_else(0)):
        yield f"GPU {index}"
        handle = nvml.ask("DeviceGetHandleByIndex", index)
        if handle.known:
            handles[index] = handle.value
            yield _gpu(nvml, index, handle.value)
        else:
            yield _lost(index, handle)
    yield "how the GPUs are connected"
    yield from links.pairs(nvml, handles)
    with contextlib.suppress(pynvml.NVMLError):
        pynvml.nvmlShutdown()


def _driver(nvml: Nvml) -> Driver:
    cuda = first(lambda: nvml.ask("SystemGetCudaDriverVersion_v2"), lambda: nvml.ask("SystemGetCudaDriverVersion"))
    return Driver(
        nvml.ask("SystemGetDriverVersion"),
        cuda.then(lambda number: f"{number // 1000}.{number % 1000 // 10}"),
        nvml.ask("DeviceGetCount"),
    )


def _lost(index: int, why: Field[Any]) -> Gpu:
    """A GPU that is counted and does not answer: every field has the one reason."""
    return Gpu(index, uuid=why, name=why, pci=why, memory=why, recovery=why)


def _gpu(nvml: Nvml, index: int, handle: Any) -> Gpu:
    pci = nvml.ask("DeviceGetPciInfo", handle).then(links.address)
    mig = nvml.ask("DeviceGetMigMode", handle).then(lambda modes: bool(modes[0]))
    return Gpu(
        index=index,
        uuid=nvml.ask("DeviceGetUUID", handle),
        name=nvml.ask("DeviceGetName", handle),
        pci=pci,
        capability=nvml.ask("DeviceGetCudaComputeCapability", handle).then(lambda pair: f"{pair[0]}.{pair[1]}"),
        memory=_memory(nvml, handle),
        utilization=nvml.ask("DeviceGetUtilizationRates", handle).then(lambda rates: int(rates.gpu)),
        compute_mode=nvml.ask("DeviceGetComputeMode", handle).then(lambda mode: _COMPUTE_MODES.get(mode, str(mode))),
        persistence=nvml.ask("DeviceGetPersistenceMode", handle).then(bool),
        pcie=links.pcie(nvml, handle, pci),
        nvlink=links.nvlink(nvml, handle),
        mig=mig,
        mig_instances=tuple(_mig_instances(nvml, handle)) if mig.or_else(False) else (),
        processes=tenants.processes(nvml, handle),
        numa_node=links.numa_node(nvml, handle, pci),
        cpus=links.nearest_cpus(nvml, handle),
        **_health(nvml, handle),
        **_speed(nvml, handle),
    )


def _memory(nvml: Nvml, handle: Any) -> Field[Memory]:
    # The newer form keeps apart what the driver has reserved, which the older one counts as used.
    answer = first(
        lambda: nvml.ask("DeviceGetMemoryInfo", handle, _MEMORY_V2), lambda: nvml.ask("DeviceGetMemoryInfo", handle)
    )
    return answer.then(lambda info: Memory(int(info.total), int(info.free), int(info.used)))


def _health(nvml: Nvml, handle: Any) -> dict[str, Any]:
    ecc = nvml.ask("DeviceGetEccMode", handle)
    return {
        "ecc": ecc.then(lambda modes: bool(modes[0])),
        "ecc_after_reboot": ecc.then(lambda modes: bool(modes[1])),
        "ecc_corrected": nvml.ask("DeviceGetTotalEccErrors", handle, _CORRECTED, _VOLATILE),
        "ecc_uncorrected": nvml.ask("DeviceGetTotalEccErrors", handle, _UNCORRECTED, _VOLATILE),
        "remapped_rows": nvml.ask("DeviceGetRemappedRows", handle).then(
            lambda rows: RemappedRows(rows[0], rows[1], bool(rows[2]), bool(rows[3]))
        ),
        "retired_pages_pending": nvml.ask("DeviceGetRetiredPagesPendingStatus", handle).then(bool),
        "recovery": nvml.number(handle, _RECOVERY_FIELD).then(lambda action: _RECOVERY.get(action, f"action {action}")),
    }


def _speed(nvml: Nvml, handle: Any) -> dict[str, Any]:
    reasons = first(
        lambda: nvml.ask("DeviceGetCurrentClocksEventReasons", handle),
        lambda: nvml.ask("DeviceGetCurrentClocksThrottleReasons", handle),
    )
    return {
        "slowed_by": reasons.then(in_words),
        "clock_sm": nvml.ask("DeviceGetClockInfo", handle, _CLOCK_SM),
        "clock_sm_max": nvml.ask("DeviceGetMaxClockInfo", handle, _CLOCK_SM),
        "clock_memory": nvml.ask("DeviceGetClockInfo", handle, _CLOCK_MEMORY),
        "clock_memory_max": nvml.ask("DeviceGetMaxClockInfo", handle, _CLOCK_MEMORY),
        "temperature": first(
            lambda: nvml.ask("DeviceGetTemperatureV", handle, 0), lambda: nvml.ask("DeviceGetTemperature", handle, 0)
        ),
        "temperature_slowdown": nvml.ask("DeviceGetTemperatureThreshold", handle, 1),
        "power": _watts(nvml.ask("DeviceGetPowerUsage", handle)),
        "power_limit": _watts(nvml.ask("DeviceGetEnforcedPowerLimit", handle)),
        "power_limit_default": _watts(nvml.ask("DeviceGetPowerManagementDefaultLimit", handle)),
        "performance_state": _state(nvml.ask("DeviceGetPerformanceState", handle)),
    }


def _watts(milliwatts: Field[int]) -> Field[float]:
    return milliwatts.then(lambda each: each / 1000)


def _state(answer: Field[int]) -> Field[int]:
    return absent("the driver does not know it") if answer.value == _UNKNOWN_STATE else answer


def _mig_instances(nvml: Nvml, handle: Any) -> Iterator[MigInstance]:
    for index in range(nvml.ask("DeviceGetMaxMigDeviceCount", handle).or_else(0)):
        # Most of the possible slices do not exist.
        instance = nvml.ask("DeviceGetMigDeviceHandleByIndex", handle, index)
        if instance.known:
            yield MigInstance(
                nvml.ask("DeviceGetUUID", instance.value),
                nvml.ask("DeviceGetName", instance.value),
                _memory(nvml, instance.value),
            )
