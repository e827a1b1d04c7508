"""The machine around the GPUs, read from /proc, /sys and the C library. Nothing is started and nothing is written."""

from __future__ import annotations

import os
import platform
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

from gpudoctor.probe.inventory import cgroup, kernel_log, network, pci_tree
from gpudoctor.probe.inventory.facts import Limit, Memory, Network, System
from gpudoctor.probe.inventory.field import Field, absent, known
from gpudoctor.probe.inventory.system_files import lines_in

SHM = "/dev/shm"
_NODES = Path("/sys/devices/system/node")
_IOMMU = Path("/sys/kernel/iommu_groups")
_MODULE = Path("/proc/driver/nvidia/version")
_GPUS = Path("/proc/driver/nvidia/gpus")
_CONTAINER_SIGNS = {"/.dockerenv": "docker", "/run/.containerenv": "podman", "/.singularity.d": "apptainer"}


def read() -> Iterator[str | System | Network]:
    """The system, then its network, which may have to ask a name server."""
    yield "the system"
    yield system()
    yield "the network"
    yield network.read()


def system() -> System:
    """All but the network."""
    return System(
        host=known(socket.gethostname()),
        os=_os(),
        kernel=known(platform.release()),
        python=known(platform.python_version()),
        container=_container(),
        wsl="microsoft" in platform.release().lower(),
        cpu=_cpu(),
        cpus=_cpus(),
        cpus_usable=_usable(),
        cpu_quota=cgroup.cpu_quota(),
        numa_nodes=_numa_nodes(),
        memory=_memory(),
        memory_limit=cgroup.memory_limit(),
        shm=_shm(),
        memlock=_limit("RLIMIT_MEMLOCK"),
        nofile=_limit("RLIMIT_NOFILE"),
        nproc=_limit("RLIMIT_NPROC"),
        iommu_groups=_count(_IOMMU),
        nvidia_pci=pci_tree.nvidia_gpus(),
        nvidia_nodes=_device_files(),
        nvidia_module=_module(),
        nvidia_models=_models(),
        xids=kernel_log.xids(),
    )


def _os() -> Field[str]:
    try:
        return known(platform.freedesktop_os_release()["PRETTY_NAME"])
    except (OSError, KeyError):
        return known(platform.system()) if platform.system() else absent("nothing tells it")


def _container() -> Field[str]:
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return known("kubernetes")
    for sign, name in _CONTAINER_SIGNS.items():
        if os.path.exists(sign):
            return known(name)
    own = os.environ.get("container", "")  # noqa: SIM112
    return known(own) if own else absent("no sign of one is seen")


def _cpu() -> Field[str]:
    for line in lines_in("/proc/cpuinfo"):
        key, _, value = line.partition(":")
        if key.strip() in ("model name", "Model", "cpu model"):
            return known(value.strip())
    return known(platform.processor()) if platform.processor() else absent("the system does not name it")


def _cpus() -> Field[int]:
    count = os.cpu_count()
    return known(count) if count else absent("the system does not count them")


def _usable() -> Field[tuple[int, ...]]:
    if sys.platform != "linux":
        return absent("only Linux tells it")
    return known(tuple(sorted(os.sched_getaffinity(0))))


def _numa_nodes() -> Field[tuple[tuple[int, ...], ...]]:
    nodes = sorted(_NODES.glob("node[0-9]*"), key=lambda each: int(each.name[4:]))
    if not nodes:
        return absent("the kernel shows no NUMA nodes")
    return known(tuple(cpu_list("".join(lines_in(node / "cpulist"))) for node in nodes))


def cpu_list(text: str) -> tuple[int, ...]:
    """The CPUs of a list as the kernel writes it: `0-3,8`."""
    found: list[int] = []
    for part in text.strip().split(","):
        low, _, high = part.partition("-")
        if low.isdigit():
            found += range(int(low), int(high if high.isdigit() else low) + 1)
    return tuple(found)


def _memory() -> Field[Memory]:
    entries = {key: value.split() for key, _, value in (line.partition(":") for line in lines_in("/proc/meminfo"))}
    try:
        total, free = (1024 * int(entries[name][0]) for name in ("MemTotal", "MemAvailable"))
    except (KeyError, IndexError, ValueError):
        return absent("/proc/meminfo does not tell it")
    return known(Memory(total, free, total - free))


def _shm() -> Field[Memory]:
    try:
        found = os.statvfs(SHM)
    except (OSError, AttributeError) as error:
        return absent(f"{SHM}: {getattr(error, 'strerror', 'not on this system')}")
    total, free = found.f_frsize * found.f_blocks, found.f_frsize * found.f_bavail
    return known(Memory(total, free, total - free)) if total else absent(f"{SHM} is not a file system of its own")


def _limit(name: str) -> Field[Limit]:
    try:
        import resource

        soft, hard = resource.getrlimit(getattr(resource, name))
    except (ImportError, AttributeError, OSError, ValueError):
        return absent("this system has no such limit")
    return known(Limit(*(None if each == resource.RLIM_INFINITY else each for each in (soft, hard))))


def _count(folder: Path) -> Field[int]:
    try:
        return known(len(os.listdir(folder)))
    except OSError:
        return absent("the kernel does not show it")


def _device_files() -> Field[tuple[str, ...]]:
    try:
        return known(tuple(sorted(name for name in os.listdir("/dev") if name.startswith("nvidia"))))
    except OSError as error:
        return absent(f"/dev: {error.strerror}")


def _module() -> Field[str]:
    """Such as 550.54.15, out of `NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue ...`."""
    for line in lines_in(_MODULE):
        words = line.split()
        if line.startswith("NVRM") and (numbers := [word for word in words if word[:1].isdigit() and "." in word]):
            return known(numbers[0])
    return absent("the NVIDIA kernel module is not loaded")


def _models() -> Field[tuple[str, ...]]:
    try:
        folders = sorted(_GPUS.iterdir())
    except OSError:
        return absent("the NVIDIA kernel module is not loaded")
    lines = [line for folder in folders for line in lines_in(folder / "information")]
    return known(tuple(line.partition(":")[2].strip() for line in lines if line.startswith("Model:")))
