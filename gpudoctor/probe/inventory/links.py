"""What a GPU is connected with: PCIe, NVLink, other GPUs, and the nearest CPUs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

from gpudoctor.probe.inventory import pci_tree
from gpudoctor.probe.inventory.facts import GpuPair, NvLink, PcieLink
from gpudoctor.probe.inventory.field import Field, absent, known
from gpudoctor.probe.inventory.nvml_calls import Nvml, first

_PATHS = {0: "SAME", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
# Numbers rather than nvidia-ml-py's names: in 13.615 NVML_P2P_CAPS_INDEX_READ is a tuple by mistake.
_P2P_READ, _P2P_WRITE, _P2P_NVLINK = 0, 1, 2
_P2P = {
    0: "ok",
    1: "the chipset does not support it",
    2: "the GPU does not support it",
    3: "the path through the CPU's I/O hub does not support it",
    4: "disabled by a registry key of the driver",
    5: "not supported",
}
_LINK_COUNT_FIELD, _LINK_SPEED_FIELD = 91, 90
_MOST_LINKS = 36
_MOST_CPUS = 1024


def address(info: Any) -> str:
    """The PCI address in NVML's answer; drivers before 2018 have only the short form."""
    text = info.busId or info.busIdLegacy
    return str(text.decode(errors="replace") if isinstance(text, bytes) else text).lower()


def pcie(nvml: Nvml, handle: Any, pci: Field[str]) -> PcieLink:
    """The link to the machine. What the GPU alone could do, the system's own files know best."""
    return PcieLink(
        generation=nvml.ask("DeviceGetCurrPcieLinkGeneration", handle),
        width=nvml.ask("DeviceGetCurrPcieLinkWidth", handle),
        max_generation=nvml.ask("DeviceGetMaxPcieLinkGeneration", handle),
        max_width=nvml.ask("DeviceGetMaxPcieLinkWidth", handle),
        gpu_max_generation=first(
            lambda: nvml.ask("DeviceGetGpuMaxPcieLinkGeneration", handle), lambda: pci_tree.max_generation(pci)
        ),
        gpu_max_width=pci_tree.max_width(pci),
        replays=nvml.ask("DeviceGetPcieReplayCounter", handle),
    )


def nvlink(nvml: Nvml, handle: Any) -> Field[NvLink]:
    """The NVLinks of a GPU."""
    count = nvml.number(handle, _LINK_COUNT_FIELD)
    if count.value == 0:
        return absent("this GPU has no NVLink")
    states = {link: nvml.ask("DeviceGetNvLinkState", handle, link) for link in range(count.or_else(_MOST_LINKS))}
    there = [link for link, state in states.items() if state.known]
    if not there:
        return Field(None, states[0].why_not, states[0].absence)
    active = [link for link in there if states[link].value]
    first_active = active[0] if active else there[0]
    return known(
        NvLink(
            links=count.or_else(len(there)),
            active=len(active),
            version=nvml.ask("DeviceGetNvLinkVersion", handle, first_active),
            megabytes_per_second=_speed(nvml, handle, first_active) if active else absent("no link is up"),
            peers=tuple(peer for link in active if (peer := _peer(nvml, handle, link))),
        )
    )


def _speed(nvml: Nvml, handle: Any, link: int) -> Field[int]:
    speed = first(lambda: nvml.number(handle, _LINK_SPEED_FIELD), lambda: nvml.number(handle, _LINK_SPEED_FIELD, link))
    return speed if speed.value != 0 else absent("the driver says 0")


def _peer(nvml: Nvml, handle: Any, link: int) -> str:
    peer = nvml.ask("DeviceGetNvLinkRemotePciInfo", handle, link)
    return peer.then(address).or_else("")


def pairs(nvml: Nvml, handles: Mapping[int, Any]) -> Iterator[GpuPair]:
    """Every two GPUs."""
    links = {index: nvlink(nvml, handle) for index, handle in handles.items()}
    addresses = {index: nvml.ask("DeviceGetPciInfo", handle).then(address) for index, handle in handles.items()}
    for a, b in combinations(handles, 2):
        path = nvml.ask("DeviceGetTopologyCommonAncestor", handles[a], handles[b])
        yield GpuPair(
            a,
            b,
            path=path.then(lambda level: _PATHS.get(level, f"level {level}")),
            nvlinks=_between(links[a], links[b], addresses, a, b),
            p2p_read=_p2p(nvml, handles[a], handles[b], _P2P_READ),
            p2p_write=_p2p(nvml, handles[a], handles[b], _P2P_WRITE),
            p2p_nvlink=_p2p(nvml, handles[a], handles[b], _P2P_NVLINK),
        )


def _between(
    ours: Field[NvLink], theirs: Field[NvLink], addresses: Mapping[int, Field[str]], a: int, b: int
) -> Field[int]:
    """The number of links from `a` to `b`: direct ones, or those to the switches where both have such."""
    if ours.value is None or theirs.value is None:
        return Field(None, *((ours.why_not, ours.absence) if ours.value is None else (theirs.why_not, theirs.absence)))
    direct = sum(peer == addresses[b].value for peer in ours.value.peers)
    if direct:
        return known(direct)
    gpus = {address.value for address in addresses.values()}
    switched = [sum(peer not in gpus for peer in one.peers) for one in (ours.value, theirs.value)]
    return known(min(switched))


def _p2p(nvml: Nvml, one: Any, other: Any, what: int) -> Field[str]:
    return nvml.ask("DeviceGetP2PStatus", one, other, what).then(lambda status: _P2P.get(status, "unknown"))


def numa_node(nvml: Nvml, handle: Any, pci: Field[str]) -> Field[int]:
    """The NUMA node that the GPU hangs on."""
    return first(lambda: pci_tree.numa_node(pci), lambda: _nearest_memory(nvml, handle))


def _nearest_memory(nvml: Nvml, handle: Any) -> Field[int]:
    # Not nvmlDeviceGetNumaNodeId: that is the node which a GPU's own memory makes, on Grace for one.
    mask = nvml.ask("DeviceGetMemoryAffinity", handle, 1, 0).then(lambda words: int(words[0]))
    if mask.value is None or mask.value & (mask.value - 1) == 0 < mask.value:
        return mask.then(lambda bits: bits.bit_length() - 1)
    return absent("the driver names no single node")


def nearest_cpus(nvml: Nvml, handle: Any) -> Field[tuple[int, ...]]:
    """The CPUs that the driver would bind a process of this GPU to."""
    mask = nvml.ask("DeviceGetCpuAffinity", handle, _MOST_CPUS // 64)
    return mask.then(lambda words: tuple(cpu for cpu in range(_MOST_CPUS) if words[cpu // 64] >> (cpu % 64) & 1))
