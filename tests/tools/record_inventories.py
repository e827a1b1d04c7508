"""Write fixtures/recordings/inventories: typical machines, made up, for the tests of judges and renderers.

The GPUs are what the fake driver of the tests tells; torch and the system are written down here. No figure was taken
from a real machine. Usage: python tests/tools/record_inventories.py
"""

import json
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from gpudoctor.plain import plain  # noqa: E402
from gpudoctor.probe.inventory.facts import (  # noqa: E402
    Interface,
    Inventory,
    Limit,
    Memory,
    Network,
    RdmaPort,
    System,
    TorchDevice,
    TorchView,
    Xid,
)
from gpudoctor.probe.inventory.field import absent, known  # noqa: E402
from gpudoctor.probe.inventory.findings.judge import weak_points  # noqa: E402
from gpudoctor.probe.inventory.visible_gpus import visibility  # noqa: E402
from gpudoctor.record import replace  # noqa: E402
from tests.support.fake_driver import compile_driver, read_all  # noqa: E402
from tests.support.inventories import EIGHT_H100, FOUR_4090, H100, MIG_SLICE, OLD_DRIVER, ONE_GPU  # noqa: E402

FOLDER = ROOT / "fixtures" / "recordings" / "inventories"
SYNTHETIC = "made up: the GPUs by the fake driver of the tests, the rest by tests/tools/record_inventories.py"
GIB = 2**30
_CUDA_12 = ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120", "compute_120")


def main() -> None:
    """Write all recordings."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, inventory in inventories().items():
        names = [point.name for point in weak_points(inventory)]
        document = {"synthetic": SYNTHETIC, "weak_points": names, "inventory": plain(inventory)}
        (FOLDER / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n")


def inventories() -> dict[str, Inventory]:
    """The machines by name."""
    sick = f"{EIGHT_H100}\ngpu.5.nvlinks_up 16\ngpu.2.reasons 0x40\ngpu.2.clock 1095\ngpu.6.rows_pending 1"
    machines = {
        "eight-h100": EIGHT_H100,
        "eight-h100-sick": sick,
        "four-4090": FOUR_4090,
        "one-a6000": ONE_GPU,
        "mig-slice": MIG_SLICE,
        "two-h100-cpu-torch": f"gpus 2\n{H100}",
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "new").mkdir()
        (folder / "old").mkdir()
        found = read_all(machines, compile_driver(folder / "new"), folder)
        found |= read_all({"old-driver": OLD_DRIVER}, compile_driver(folder / "old", old=True), folder)
    return {name: _furnished(name, inventory) for name, inventory in found.items()}


def _furnished(name: str, inventory: Inventory) -> Inventory:
    """The same GPUs in a machine, with a torch."""
    system, network, torch = _SERVER, Network((_ETHERNET, _LOOPBACK), (), known("192.0.2.10")), _torch("2.9.1", "12.8")
    if name.startswith("eight-h100"):
        network = replace(
            network, rdma=tuple(RdmaPort(f"mlx5_{n}", 1, "ACTIVE", "400 Gb/sec (4X NDR)") for n in range(8))
        )
    if name == "eight-h100-sick":
        system = replace(system, xids=known((Xid("fa5e:15:00", 74, "pid='<unknown>', NVLink: fatal error", 1800.0),)))
    if name in ("four-4090", "one-a6000"):
        system = _WORKSTATION
    if name == "four-4090":
        torch = _torch("2.7.1", "12.6")
    if name == "mig-slice":
        system = _POD
    if name == "two-h100-cpu-torch":
        torch = _CPU_TORCH
    if name == "old-driver":
        trouble = "The NVIDIA driver on your system is too old (found version 10010)."
        torch = replace(torch, available=known(False), trouble=trouble)
    devices = _devices(inventory) if torch.available.value else ()
    where = visibility(inventory.gpus, devices, {})
    return replace(
        inventory, system=system, network=network, torch=torch, torch_devices=devices, visibility=where, seconds=4.2
    )


def _torch(version: str, cuda: str) -> TorchView:
    return TorchView(
        version=known(f"{version}+cu{cuda.replace('.', '')}"),
        cuda=known(cuda),
        rocm=absent("this torch was built without ROCm"),
        architectures=known(_CUDA_12),
        cudnn=known("9.10.2"),
        nccl=known("2.27.5"),
        backends=known(("gloo", "nccl")),
        available=known(True),
        other=absent("there is none besides CUDA"),
    )


def _devices(inventory: Inventory) -> tuple[TorchDevice, ...]:
    reach = {pair for pair in inventory.pairs if pair.p2p_read.value == "ok"}
    return tuple(
        TorchDevice(
            gpu.index,
            gpu.name.get(),
            gpu.capability.get(),
            gpu.memory.get().total,
            gpu.mig_instances[0].uuid if gpu.mig_instances else gpu.uuid,
            gpu.pci,
            known(tuple(sorted({pair.a + pair.b - gpu.index for pair in reach if gpu.index in (pair.a, pair.b)}))),
        )
        for gpu in inventory.gpus
    )


_CPU_TORCH = TorchView(
    version=known("2.9.1+cpu"),
    cuda=absent("this torch was built without CUDA"),
    rocm=absent("this torch was built without ROCm"),
    backends=known(("gloo",)),
    available=known(False),
)
_NONE = absent("no limit is set")
_SERVER = System(
    host=known("node-1"),
    os=known("Ubuntu 22.04.5 LTS"),
    kernel=known("5.15.0-130-generic"),
    python=known("3.11.9"),
    container=absent("no sign of one is seen"),
    cpu=known("Intel(R) Xeon(R) Platinum 8480C"),
    cpus=known(192),
    cpus_usable=known(tuple(range(192))),
    cpu_quota=_NONE,
    numa_nodes=known((tuple(range(96)), tuple(range(96, 192)))),
    memory=known(Memory(2015 * GIB, 1900 * GIB, 115 * GIB)),
    memory_limit=_NONE,
    shm=known(Memory(1007 * GIB, 1007 * GIB, 0)),
    memlock=known(Limit(None, None)),
    nofile=known(Limit(1048576, 1048576)),
    nproc=known(Limit(None, None)),
    iommu_groups=known(0),
    nvidia_module=known("570.86.15"),
    xids=known(()),
)
_WORKSTATION = replace(
    _SERVER,
    host=known("workstation"),
    cpu=known("AMD Ryzen Threadripper PRO 5975WX"),
    cpus=known(64),
    cpus_usable=known(tuple(range(64))),
    memory=known(Memory(252 * GIB, 230 * GIB, 22 * GIB)),
    shm=known(Memory(126 * GIB, 126 * GIB, 0)),
    memlock=known(Limit(8 * 2**20, 8 * 2**20)),
    nofile=known(Limit(1024, 1048576)),
)
_POD = replace(
    _SERVER,
    host=known("trainer-0"),
    container=known("kubernetes"),
    cpu_quota=known(8.0),
    memory_limit=known(64 * GIB),
    shm=known(Memory(64 * 2**20, 64 * 2**20, 0)),
)
_ETHERNET = Interface("eth0", True, "ethernet", ("192.0.2.10",), known(25000))
_LOOPBACK = Interface("lo", True, "loopback", ("127.0.0.1",))


if __name__ == "__main__":
    main()
