"""Links that are narrower than they could be, and GPUs that cannot reach each other directly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from gpudoctor.diagnostic import Severity
from gpudoctor.probe.inventory.facts import Gpu, GpuPair, Inventory, PcieLink
from gpudoctor.probe.inventory.findings.point import WeakPoint, named, visible_gpus, works

_FAR = "SYS"


def weak_points(inventory: Inventory) -> Iterator[WeakPoint]:
    """Each GPU's own links, then pairs."""
    for gpu in inventory.gpus:
        yield from _slot(gpu)
        yield from _loaded(gpu)
    yield from _nvlinks(inventory)
    gpus = visible_gpus(inventory)
    chosen = {gpu.index for gpu in gpus}
    pairs = [pair for pair in inventory.pairs if {pair.a, pair.b} <= chosen]
    yield from _mixed(gpus)
    yield from _p2p(inventory, pairs)
    yield from _disagreement(inventory, pairs)
    yield from _far_apart(pairs)


def _slot(gpu: Gpu) -> Iterator[WeakPoint]:
    """What GPU and slot can do together, which does not change with load."""
    lanes, own = gpu.pcie.max_width.value, gpu.pcie.gpu_max_width.value
    if lanes and own and lanes < own:
        yield WeakPoint(
            "slot-narrow",
            Severity.WARNING if lanes <= own // 4 else Severity.PERF,
            f"{{gpus}} {{has}} {own} PCIe lanes and the slot gives {lanes}",
            f"batches, and gradients without NVLink, take {own // lanes} times as long on their way",
            "move it to a wider slot, or look for a riser, a splitter or a BIOS setting that takes lanes away",
            figure=float(lanes),
            unit="lanes",
            expectation=f"{own} lanes",
            source="the GPU's own link capability, from /sys/bus/pci",
            gpus=(gpu.index,),
        )
    best, own_best = gpu.pcie.max_generation.value, gpu.pcie.gpu_max_generation.value
    if best and own_best and best < own_best:
        yield WeakPoint(
            "slot-old",
            Severity.INFO,
            f"{{gpus}} could use PCIe {own_best}, the machine offers PCIe {best}",
            "half the speed on the way to memory for each generation",
            "look whether the BIOS holds the slot back; else the board is of that generation",
            figure=float(best),
            unit="PCIe generation",
            expectation=str(own_best),
            source="NVML",
            gpus=(gpu.index,),
        )


def _loaded(gpu: Gpu) -> Iterator[WeakPoint]:
    if works(gpu):
        yield from link_under_load(gpu.index, gpu.pcie)


def link_under_load(gpu: int, link: PcieLink) -> Iterator[WeakPoint]:
    """Whether the link of a GPU that works is as good as GPU and slot allow."""
    width, lanes = link.width.value, link.max_width.value
    if width and lanes and width < lanes:
        yield WeakPoint(
            "link-narrow",
            Severity.WARNING,
            f"{{gpus}} {{is}} on {width} of {lanes} PCIe lanes, under load",
            f"batches, and gradients without NVLink, take {lanes // width} times as long on their way",
            "reseat the card and its riser; sudo dmesg | grep -i pcieport",
            figure=float(width),
            unit="lanes",
            expectation=f"{lanes} lanes",
            source="NVML: the best that GPU and slot can do",
            gpus=(gpu,),
        )
    generation, best = link.generation.value, link.max_generation.value
    if generation and best and generation < best:
        yield WeakPoint(
            "link-slow",
            Severity.WARNING,
            f"{{gpus}} {{is}} on PCIe {generation} instead of {best}, under load",
            "half the speed on the way to memory for each generation",
            "reseat the card and its riser; set the slot to Auto in the BIOS",
            figure=float(generation),
            unit="PCIe generation",
            expectation=str(best),
            source="NVML: the best that GPU and slot can do",
            gpus=(gpu,),
        )


def _nvlinks(inventory: Inventory) -> Iterator[WeakPoint]:
    """Links that are down where the GPU's twins have them up.

    All down is normal for cards that lie beside others with a bridge; only switches join every GPU.
    """
    best: Counter[str] = Counter()
    addresses = {gpu.pci.or_else("") for gpu in inventory.gpus}
    switched = False
    for gpu in inventory.gpus:
        if gpu.nvlink.value is not None:
            best[gpu.name.or_else("")] = max(best[gpu.name.or_else("")], gpu.nvlink.value.active)
            switched = switched or any(peer not in addresses for peer in gpu.nvlink.value.peers)
    for gpu in inventory.gpus:
        link = gpu.nvlink.value
        expected = best[gpu.name.or_else("")]
        if link is not None and link.active == 0 and not switched:
            continue
        if link is not None and link.active < expected:
            yield WeakPoint(
                "nvlink-down",
                Severity.ERROR if link.active == 0 else Severity.WARNING,
                f"{{gpus}} {{has}} {link.active} NVLinks up, others of the model {expected}",
                "collectives run at the speed of the weakest link",
                "nvidia-smi nvlink -s -i {ids}; nvidia-smi nvlink -e -i {ids}; then have it serviced",
                figure=float(link.active),
                unit="links",
                expectation=str(expected),
                source="the other GPUs of this model in this machine",
                gpus=(gpu.index,),
            )


def _mixed(gpus: Sequence[Gpu]) -> Iterator[WeakPoint]:
    names = Counter(gpu.name.get() for gpu in gpus if gpu.name.known)
    if len(names) > 1:
        listed = ", ".join(f"{count} x {name}" for name, count in names.most_common())
        fewer = [gpu.index for gpu in gpus if gpu.name.value != names.most_common(1)[0][0]]
        yield WeakPoint(
            "mixed-models",
            Severity.PERF,
            f"the GPUs are of different models ({listed})",
            "with equal batches the fast ones wait for the slow ones, and the smallest memory sets the batch",
            "export CUDA_VISIBLE_DEVICES to GPUs of one model, or give each rank a batch that fits its GPU",
            figure=float(len(names)),
            unit="models",
            expectation="1",
            source="DistributedDataParallel waits for all ranks at each step",
            gpus=tuple(fewer),
        )


def _p2p(inventory: Inventory, pairs: Sequence[GpuPair]) -> Iterator[WeakPoint]:
    refused = [pair for pair in pairs if pair.p2p_read.value not in (None, "ok")]
    if not refused:
        return
    indices = tuple(sorted({index for pair in refused for index in (pair.a, pair.b)}))
    why = Counter(pair.p2p_read.get() for pair in refused).most_common(1)[0][0]
    linked = any(pair.nvlinks.or_else(0) for pair in refused)
    iommu = (
        " (an IOMMU is on: with ACS it may be what is in the way)" if inventory.system.iommu_groups.or_else(0) else ""
    )
    yield WeakPoint(
        "p2p-off",
        Severity.ERROR if linked else Severity.PERF,
        f"{named(indices)} cannot read each other's memory in {len(refused)} of {len(pairs)} pairs ({why}{iommu})",
        "NCCL sends gradients through the machine's memory: expect far from full speed with several GPUs",
        _p2p_remedy(inventory, indices, linked=linked),
        figure=float(len(refused)),
        unit="pairs",
        expectation="0",
        source="NVML, P2P status",
        gpus=indices,
    )


def _p2p_remedy(inventory: Inventory, indices: Sequence[int], *, linked: bool) -> str:
    if linked:
        return "nvidia-smi topo -p2p n; sudo systemctl restart nvidia-fabricmanager"
    names = [gpu.name.or_else("") for gpu in inventory.gpus if gpu.index in indices]
    if all("GeForce" in name for name in names):
        return "none for GeForce cards: exchange less often, with larger batches or accumulation under no_sync()"
    return "switch ACS off in the BIOS, or pass iommu=pt to the kernel; nvidia-smi topo -p2p r shows the pairs"


def _disagreement(inventory: Inventory, pairs: Sequence[GpuPair]) -> Iterator[WeakPoint]:
    """The driver says yes and CUDA says no."""
    by_gpu = {each.gpu.value: each.cuda_index for each in inventory.visibility.devices}
    peers = {device.index: device.peers.value for device in inventory.torch_devices}
    wrong = []
    for pair in pairs:
        reach = peers.get(by_gpu.get(pair.a, -1))
        if pair.p2p_read.value == "ok" and reach is not None and by_gpu.get(pair.b, -1) not in reach:
            wrong.append(pair)
    if wrong:
        indices = tuple(sorted({index for pair in wrong for index in (pair.a, pair.b)}))
        yield WeakPoint(
            "p2p-refused-by-cuda",
            Severity.WARNING,
            f"the driver offers peer access between {named(indices)}, and CUDA refuses it in {len(wrong)} pairs",
            "NCCL sends gradients through the machine's memory",
            "look at IOMMU and ACS in the BIOS; in a virtual machine ask the provider",
            figure=float(len(wrong)),
            unit="pairs",
            expectation="0",
            source="torch.cuda.can_device_access_peer",
            gpus=indices,
        )


def _far_apart(pairs: Sequence[GpuPair]) -> Iterator[WeakPoint]:
    far = [pair for pair in pairs if pair.path.value == _FAR and not pair.nvlinks.or_else(0)]
    if far:
        indices = tuple(sorted({index for pair in far for index in (pair.a, pair.b)}))
        yield WeakPoint(
            "numa-apart",
            Severity.PERF,
            f"{named(indices)} hang on different CPUs: {len(far)} of {len(pairs)} pairs meet only between the sockets",
            "what they exchange crosses the link between the CPUs, several times slower than a common switch",
            "for jobs on fewer GPUs choose those of one socket (nvidia-smi topo -m) with CUDA_VISIBLE_DEVICES",
            figure=float(len(far)),
            unit="pairs",
            expectation="0",
            source="NVML, topology",
            gpus=indices,
        )
