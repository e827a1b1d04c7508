"""The inventory in the words of the report: a `ProbedMachine` for each node, named facts, and weak points as checks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gpudoctor.diagnostic import Severity
from gpudoctor.plain import plain
from gpudoctor.probe.inventory import facts as own
from gpudoctor.probe.inventory.field import Absence, Field, absent, known
from gpudoctor.probe.inventory.findings.judge import weak_points
from gpudoctor.probe.inventory.findings.point import WeakPoint
from gpudoctor.probe.results import Check, Fact, Link, ProbedGpu, ProbedMachine, ProbedVariable, Verdict
from gpudoctor.record import fields

_VERDICTS = {Severity.ERROR: Verdict.FAIL, Severity.WARNING: Verdict.WARN, Severity.PERF: Verdict.WARN}
_ITSELF = ("index", "uuid", "pcie", "nvlink", "memory", "remapped_rows", "mig_instances", "processes")


def machine(inventory: own.Inventory) -> ProbedMachine:
    """The node as the report shows it; its weak points stand in `weak`."""
    host = inventory.system.host.or_else("this machine")
    return ProbedMachine(
        host=host,
        gpus=tuple(_gpus(inventory)),
        links=tuple(_links(inventory)),
        system=dict(_system(inventory)),
        torch=dict(_torch(inventory)),
        environment=tuple(
            ProbedVariable(each.name, each.value, f"{each.effect}; but {each.doubt}" if each.doubt else each.effect)
            for each in inventory.environment
        ),
        weak=checks(weak_points(inventory), host),
    )


def checks(points: Sequence[WeakPoint], host: str = "") -> tuple[Check, ...]:
    """Weak points as verdicts, one for each name; mere notes are left out."""
    by_name: dict[str, list[WeakPoint]] = {}
    for point in points:
        if point.severity in _VERDICTS:
            by_name.setdefault(point.name, []).append(point)
    return tuple(_check(alike, host) for alike in by_name.values())


def _check(alike: Sequence[WeakPoint], host: str) -> Check:
    """The gravest comes first, and speaks for the others."""
    first = alike[0]
    return Check(
        first.name,
        _VERDICTS[first.severity],
        first.figure,
        first.unit,
        first.expectation,
        first.source,
        f"{'; '.join(point.what for point in alike)}: {first.why}",
        "; ".join(dict.fromkeys(point.remedy for point in alike if point.remedy)),
        host,
    )


def gpus_of(machine: ProbedMachine) -> tuple[own.Gpu, ...]:
    """The GPUs of a report, with what is needed to judge them under load."""
    return tuple(
        own.Gpu(
            gpu.index,
            uuid=known(gpu.uuid),
            clock_sm_max=_number(gpu, "clock_sm_max"),
            pcie=own.PcieLink(
                max_generation=_number(gpu, "pcie_max_generation"), max_width=_number(gpu, "pcie_max_width")
            ),
        )
        for gpu in machine.gpus
    )


def _number(gpu: ProbedGpu, name: str) -> Field[int]:
    found = gpu.facts.get(name, Fact(None, "it was not recorded"))
    return known(int(found.value)) if isinstance(found.value, int | float) else absent(found.because)


def fact(field: Field[Any]) -> Fact:
    """A field in the report's form: records and sequences become lists of words."""
    if field.value is None:
        return Fact(None, field.why_not)
    value = plain(field.value)
    if isinstance(value, list):
        return Fact([str(each) for each in value])
    return Fact(value if isinstance(value, (str, int, float, bool)) else str(value))


def _gpus(inventory: own.Inventory) -> Iterator[ProbedGpu]:
    """Those that the driver tells; where it tells nothing (AMD, WSL, some containers), those that torch sees."""
    for gpu in inventory.gpus:
        yield ProbedGpu(gpu.index, _key(gpu), dict(_gpu(gpu)))
    if inventory.gpus:
        return
    for device in inventory.torch_devices:
        unknown = fact(inventory.driver.count)
        facts = {"name": Fact(device.name), "capability": Fact(device.capability), "memory_total": Fact(device.memory)}
        yield ProbedGpu(device.index, device.uuid.or_else(f"cuda:{device.index}"), {**facts, "utilization": unknown})


def _key(gpu: own.Gpu) -> str:
    return gpu.uuid.or_else(f"NVML {gpu.index}")


def _gpu(gpu: own.Gpu) -> Iterator[tuple[str, Fact]]:
    for each in fields(gpu):
        if each.name not in _ITSELF:
            yield each.name, fact(getattr(gpu, each.name))
    for name in ("total", "free", "used"):
        yield f"memory_{name}", fact(_part(gpu.memory, name))
    for name in ("corrected", "uncorrected", "pending", "failed"):
        yield f"remapped_rows_{name}", fact(_part(gpu.remapped_rows, name))
    for each in fields(gpu.pcie):
        yield f"pcie_{each.name}", fact(getattr(gpu.pcie, each.name))
    for name in ("links", "active", "version", "megabytes_per_second"):
        yield f"nvlink_{name}", fact(_part(gpu.nvlink, name))
    yield "processes", fact(gpu.processes.then(lambda found: tuple(f"{each.pid} {each.name}" for each in found)))
    yield "mig_instances", Fact([str(each.uuid) for each in gpu.mig_instances])


def _part(field: Field[Any], name: str) -> Field[Any]:
    if field.value is None:
        return field
    part = getattr(field.value, name)
    return part if isinstance(part, Field) else known(part)


def _links(inventory: own.Inventory) -> Iterator[Link]:
    """The pairs that programs may use."""
    keys = {gpu.index: _key(gpu) for gpu in inventory.gpus}
    chosen = {each.gpu.value for each in inventory.visibility.devices}
    for pair in inventory.pairs:
        if {pair.a, pair.b} <= chosen:
            yield Link(keys[pair.a], keys[pair.b], fact(pair.kind), fact(pair.p2p_read))


def _system(inventory: own.Inventory) -> Iterator[tuple[str, Fact]]:
    system = inventory.system
    for name in ("version", "cuda", "count"):
        yield f"driver_{name}", fact(getattr(inventory.driver, name))
    for each in fields(system):
        value = getattr(system, each.name)
        if each.name in ("memory", "shm"):
            yield f"{each.name}_total", fact(_part(value, "total"))
            yield f"{each.name}_free", fact(_part(value, "free"))
        elif each.name == "xids":
            yield each.name, fact(value.then(lambda found: tuple(f"{xid.pci}: {xid.code} {xid.text}" for xid in found)))
        elif each.name in ("memlock", "nofile", "nproc"):
            yield each.name, fact(value.then(lambda limit: "unlimited" if limit.soft is None else limit.soft))
        else:
            yield each.name, fact(value) if isinstance(value, Field) else Fact(value)
    yield "interfaces", Fact([_interface(each) for each in inventory.network.interfaces])
    yield (
        "rdma",
        Fact([f"{each.device} port {each.port}: {each.state}, {each.rate}" for each in inventory.network.rdma]),
    )
    yield "host_address", fact(inventory.network.host_address)
    yield "not_finished", Fact(list(inventory.trouble))


def _interface(each: own.Interface) -> str:
    return f"{each.name}: {each.kind}, {'up' if each.up else 'down'}"


def _port(each: own.RdmaPort) -> str:
    return f"{each.device} port {each.port}: {each.state}, {each.rate}"


def _torch(inventory: own.Inventory) -> Iterator[tuple[str, Fact]]:
    torch = inventory.torch
    for each in fields(torch):
        value = getattr(torch, each.name)
        yield each.name, fact(value) if isinstance(value, Field) else Fact(value)
    yield (
        "visible_gpus",
        Fact([_visible(each, inventory) for each in inventory.visibility.devices if inventory.torch_devices]),
    )
    yield "nvml_indices", fact(_nvml_indices(inventory))


def _visible(each: own.Visible, inventory: own.Inventory) -> str:
    """NVML's UUID where it knows the GPU: torch's may be written otherwise, and older torch has none."""
    index = each.gpu.value
    keys = [_key(gpu) for gpu in inventory.gpus if gpu.index == index]
    return keys[0] if keys else each.uuid.or_else(f"cuda:{each.cuda_index}")


def _nvml_indices(inventory: own.Inventory) -> Field[tuple[int, ...]]:
    indices = [each.gpu.value for each in inventory.visibility.devices]
    found = tuple(index for index in indices if index is not None)
    return known(found) if len(found) == len(indices) else absent("NVML does not know all of them", Absence.FAILED)
