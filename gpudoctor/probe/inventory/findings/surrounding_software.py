"""Limits of the machine around the GPUs, and variables that stand in the way."""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.diagnostic import Severity
from gpudoctor.probe.inventory.facts import Inventory
from gpudoctor.probe.inventory.field import Absence
from gpudoctor.probe.inventory.findings.point import WeakPoint, gib, named, visible_gpus

_SMALL_SHM = 512 * 2**20
_CPUS_PER_GPU = 2
_FEW_FILES = 4096


def weak_points(inventory: Inventory) -> Iterator[WeakPoint]:
    """System first, then the environment."""
    yield from _shm(inventory)
    yield from _cpus(inventory)
    yield from _affinity(inventory)
    yield from _memlock(inventory)
    yield from _files(inventory)
    yield from _host(inventory)
    yield from _variables(inventory)


def _shm(inventory: Inventory) -> Iterator[WeakPoint]:
    shm = inventory.system.shm.value
    if shm is None or shm.free >= _SMALL_SHM:
        return
    size = f"{gib(shm.total)}" if shm.total < _SMALL_SHM else f"{gib(shm.free)} of {gib(shm.total)} free"
    yield WeakPoint(
        "shm-small",
        Severity.WARNING,
        f"/dev/shm is small ({size})",
        "DataLoader workers pass batches through it (`Bus error`, `No space left on device`); NCCL needs it as well",
        _bigger_shm(inventory, full=shm.total >= _SMALL_SHM),
        figure=shm.free / 2**20,
        unit="MiB",
        expectation="at least 512 MiB",
        source="the limit of DeepSpeed's ds_report",
    )


def _bigger_shm(inventory: Inventory, *, full: bool) -> str:
    container = inventory.system.container.or_else("")
    if full:
        return "ls -lS /dev/shm   (remove what ended programs have left there)"
    if container == "kubernetes":
        return "mount an emptyDir with `medium: Memory` at /dev/shm"
    if container in ("docker", "podman"):
        return f"{container} run --shm-size=8g ...   (or --ipc=host)"
    return "sudo mount -o remount,size=8G /dev/shm"


def _cpus(inventory: Inventory) -> Iterator[WeakPoint]:
    gpus, system = len(visible_gpus(inventory)), inventory.system
    usable = len(system.cpus_usable.or_else(())) or system.cpus.or_else(0)
    quota = system.cpu_quota.value
    count = min(usable, quota) if quota and usable else usable
    if gpus and count and count < _CPUS_PER_GPU * gpus:
        whose = "its control group allows" if quota and quota < usable else "this process may use"
        yield WeakPoint(
            "cpus-few",
            Severity.WARNING,
            f"{whose} {count:g} CPU{'' if count == 1 else 's'} for {gpus} GPU{'' if gpus == 1 else 's'}",
            "each GPU needs a process that feeds it and at least one worker that loads data",
            "ask for more: docker run --cpus=..., srun --cpus-per-task=..., resources.requests.cpu",
            figure=float(count),
            unit="CPUs",
            expectation=f"at least {_CPUS_PER_GPU * gpus}, two for each GPU",
            source="one rank and one DataLoader worker for each GPU",
        )


def _affinity(inventory: Inventory) -> Iterator[WeakPoint]:
    """A process that was tied to the CPUs of the other socket."""
    usable = set(inventory.system.cpus_usable.or_else(()))
    if not usable:
        return
    far = [gpu for gpu in visible_gpus(inventory) if gpu.cpus.value and not usable & set(gpu.cpus.value)]
    if far:
        node = far[0].numa_node.or_else(0)
        yield WeakPoint(
            "cpus-far",
            Severity.PERF,
            f"this process may only run on CPUs that are far from {named(gpu.index for gpu in far)}",
            "every batch crosses the link between the sockets",
            f"numactl --cpunodebind={node} --membind={node} ...   (or torchrun --numa-binding=node)",
            expectation="CPUs of the GPU's own NUMA node",
            source="NVML, CPU affinity",
            gpus=tuple(gpu.index for gpu in far),
        )


def _memlock(inventory: Inventory) -> Iterator[WeakPoint]:
    limit = inventory.system.memlock.value
    active = [port for port in inventory.network.rdma if port.state == "ACTIVE"]
    if limit is None or limit.soft is None or not active:
        return
    # Any Mellanox card shows itself here; on one node NCCL has no use for it.
    grave = any(port.layer == "InfiniBand" for port in active)
    docker = inventory.system.container.or_else("") in ("docker", "podman")
    yield WeakPoint(
        "memlock-limited",
        Severity.WARNING if grave else Severity.INFO,
        f"only {gib(limit.soft)} of memory may be locked, and there is RDMA ({active[0].device})",
        "NCCL cannot register its buffers with the adapter: `ibv_reg_mr failed`, or TCP instead of InfiniBand",
        "docker run --ulimit memlock=-1 ..." if docker else "ulimit -l unlimited",
        figure=limit.soft / 2**20,
        unit="MiB",
        expectation="unlimited",
        source="NCCL's troubleshooting guide",
    )


def _files(inventory: Inventory) -> Iterator[WeakPoint]:
    limit = inventory.system.nofile.value
    if limit is not None and limit.soft is not None and limit.soft < _FEW_FILES and inventory.gpus:
        higher = min(limit.hard or 65536, 65536)
        yield WeakPoint(
            "files-few",
            Severity.INFO,
            f"a process may open {limit.soft} files",
            "DataLoader workers hold one for each tensor in flight: `Too many open files`",
            f"ulimit -n {higher}",
            figure=float(limit.soft),
            unit="files",
            expectation=f"{_FEW_FILES} or more",
            source="torch.multiprocessing, file_descriptor strategy",
        )


def _host(inventory: Inventory) -> Iterator[WeakPoint]:
    address = inventory.network.host_address
    if address.absence is Absence.FAILED and not address.known:
        yield WeakPoint(
            "host-unresolved",
            Severity.INFO,
            address.why_not,
            "gloo falls back to the loopback address: fine on one node, not on several",
            "add the name to /etc/hosts, or export GLOO_SOCKET_IFNAME=<interface>",
        )


def _variables(inventory: Inventory) -> Iterator[WeakPoint]:
    for variable in inventory.environment:
        if variable.doubt:
            yield WeakPoint(
                f"variable-{variable.name.lower().replace('_', '-')}",
                Severity.WARNING,
                f"{variable.name}={variable.value}",
                variable.doubt,
                variable.remedy,
                source="the environment",
            )
