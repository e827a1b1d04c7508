"""The inventory on one screen: equal GPUs share a line, and only what matters for training is told."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator

from gpudoctor.diagnostic import Severity
from gpudoctor.probe.inventory.facts import Gpu, Inventory
from gpudoctor.probe.inventory.field import Absence, Field
from gpudoctor.probe.inventory.findings.judge import weak_points
from gpudoctor.probe.inventory.findings.point import WeakPoint, gib, named
from gpudoctor.probe.inventory.meanings import counted

_LABEL = 11
_MOST_POINTS = 4
_MOST_NOTES = 2
_MARKS = {Severity.ERROR: "✗", Severity.WARNING: "!", Severity.PERF: "!"}


def summary(inventory: Inventory, width: int = 80) -> list[str]:
    """Lines of at most `width` columns: the machine, its GPUs, and what is weak about it."""
    rows = [*_machine(inventory), *_software(inventory), *_gpus(inventory), *_links(inventory)]
    lines = [line for label, text in rows for line in _row(label, text, width)]
    points = weak_points(inventory)
    grave = [point for point in points if point.severity is not Severity.INFO]
    lines += ["", f"Weak points: {len(grave)}" if grave else _none_found(inventory)]
    lines += [line for point in grave[:_MOST_POINTS] for line in _point(point, width)]
    if len(grave) > _MOST_POINTS:
        lines.append(f"  and {len(grave) - _MOST_POINTS} more")
    notes = [point for point in points if point.severity is Severity.INFO]
    lines += ["  · " + textwrap.shorten(note.what, width - 4, placeholder=" ...") for note in notes[:_MOST_NOTES]]
    return lines


def _none_found(inventory: Inventory) -> str:
    if inventory.driver.version.known:
        return "No weak point was found."
    return "No weak point was found. GPUs and links were not looked at: there is no driver."


def _row(label: str, text: str, width: int) -> list[str]:
    first, later = f"{label:<{_LABEL}}", " " * _LABEL
    return textwrap.wrap(text, width, initial_indent=first, subsequent_indent=later, break_on_hyphens=False)


def _point(point: WeakPoint, width: int) -> list[str]:
    mark = f"  {_MARKS[point.severity]} "
    told = textwrap.wrap(point.message, width, initial_indent=mark, subsequent_indent="    ", break_on_hyphens=False)
    # Not wrapped: it is there to be copied.
    return [*told, *([f"    -> {point.remedy}"] if point.remedy else [])]


def _machine(inventory: Inventory) -> Iterator[tuple[str, str]]:
    system = inventory.system
    place = f"in {system.container}" if system.container.known else ""
    yield "machine", _joined(system.host.or_else(""), system.os.or_else(""), place, "WSL" if system.wsl else "")
    memory = gib(system.memory.get().total) if system.memory.known else ""
    limit = f"limited to {gib(system.memory_limit.get())}" if system.memory_limit.known else ""
    shm = f"/dev/shm {gib(system.shm.get().total)}" if system.shm.known else f"/dev/shm {system.shm}"
    yield "CPUs", _joined(_cpus(inventory), f"memory {memory} {limit}".strip() if memory else "", shm)


def _cpus(inventory: Inventory) -> str:
    system = inventory.system
    usable = system.cpus_usable.or_else(())
    count = f"{len(usable) or system.cpus.or_else(0)}"
    if usable and len(usable) < system.cpus.or_else(0):
        count += f" of {system.cpus}"
    if system.cpu_quota.known:
        count += f", limited to {system.cpu_quota.get():g}"
    nodes = len(system.numa_nodes.or_else(()))
    return f"{count} on {nodes} NUMA nodes" if nodes > 1 else count


def _software(inventory: Inventory) -> Iterator[tuple[str, str]]:
    driver, torch = inventory.driver, inventory.torch
    if driver.version.known:
        yield "driver", f"NVIDIA {driver.version}, for CUDA up to {driver.cuda.or_else('?')}"
    else:
        yield "driver", str(driver.version)
    if not torch.version.known:
        yield "torch", str(torch.version)
        return
    built = "for the CPU"
    if torch.cuda.known or torch.rocm.known:
        built = f"with CUDA {torch.cuda}" if torch.cuda.known else f"with ROCm {torch.rocm}"
    nccl = f"NCCL {torch.nccl}" if torch.nccl.known else ""
    backends = ", ".join(torch.backends.or_else(())) or "no backend of torch.distributed"
    yield "torch", _joined(f"{torch.version}", f"built {built}", nccl, backends)


def _gpus(inventory: Inventory) -> Iterator[tuple[str, str]]:
    if not inventory.gpus:
        yield "GPUs", _no_gpus(inventory)
        return
    kinds = Counter((gpu.name.or_else("?"), _size(gpu)) for gpu in inventory.gpus)
    for number, ((name, size), count) in enumerate(kinds.items()):
        alike = [gpu for gpu in inventory.gpus if (gpu.name.or_else("?"), _size(gpu)) == (name, size)]
        label = "GPUs" if number == 0 else ""
        which = f"{named(gpu.index for gpu in alike)}: " if len(kinds) > 1 else ""
        yield label, _joined(f"{which}{count} x {name}", size, f"capability {alike[0].capability.or_else('?')}")
    states: dict[str, list[int]] = {}
    for gpu in inventory.gpus:
        states.setdefault(_state(gpu), []).append(gpu.index)
    for state, indices in states.items():
        yield "", f"{named(indices)}: {state}" if len(states) > 1 else state
    yield from _visible(inventory)


def _no_gpus(inventory: Inventory) -> str:
    """What is known where the driver names none: that there are none, or why nobody can tell."""
    others, driver, models = inventory.torch_devices, inventory.driver, inventory.system.nvidia_models.or_else(())
    if others:
        return f"{len(others)} x {others[0].name}, as torch sees them"
    if driver.count.known:
        return "none: the driver was asked, and knows of no GPU"
    if models:
        return f"{counted(len(models), 'GPU')} in this machine ({models[0]}), and no driver that a program could use"
    if driver.count.absence is Absence.NO_DRIVER:
        return "none that a program could use: there is no NVIDIA driver"
    return f"not known: {driver.count.why_not}"


def _size(gpu: Gpu) -> str:
    return gib(gpu.memory.get().total) if gpu.memory.known else ""


def _state(gpu: Gpu) -> str:
    """What is shown of each GPU; coarse, so that equal ones look equal."""
    if not gpu.name.known:
        return gpu.name.why_not
    reasons = [reason for reason in gpu.slowed_by.or_else(()) if reason != "idle"]
    link = gpu.pcie
    lanes = f"PCIe {link.max_generation} x{link.max_width}" if link.max_width.known else ""
    nvlink = gpu.nvlink.value
    links = f"{nvlink.active} of {nvlink.links} NVLinks up" if nvlink is not None else ""
    mig = counted(len(gpu.mig_instances), "MIG instance") if gpu.mig.or_else(False) else ""
    ecc = "ECC on" if gpu.ecc.or_else(False) else ""
    busy = f"{gpu.utilization} % busy" if gpu.utilization.or_else(0) else ""
    return _joined(busy, ", ".join(reasons), lanes, links, ecc, mig) or "nothing to tell"


def _visible(inventory: Inventory) -> Iterator[tuple[str, str]]:
    where = inventory.visibility
    if where.variable is None and len(where.devices) == len(inventory.gpus):
        return
    order = ", ".join(str(each.gpu.or_else("?")) for each in where.devices)
    which = f": {order}" if order else ""
    yield "visible", f"{len(where.devices)} of {len(inventory.gpus)} (CUDA_VISIBLE_DEVICES={where.variable}){which}"


def _links(inventory: Inventory) -> Iterator[tuple[str, str]]:
    if inventory.pairs:
        kinds = _counted([pair.kind for pair in inventory.pairs])
        reach = _counted([pair.p2p_read for pair in inventory.pairs])
        yield "links", f"{counted(len(inventory.pairs), 'pair')}: {kinds}; peer access: {reach}"


def _counted(fields: list[Field[str]]) -> str:
    counts = Counter(str(field) for field in fields)
    return ", ".join(name if len(counts) == 1 else f"{count} {name}" for name, count in counts.most_common())


def _joined(*parts: str) -> str:
    return ", ".join(part for part in parts if part)
