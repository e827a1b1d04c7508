"""Machines as the fake driver knows them: none of these figures was taken from a real one."""

H100 = """
gpu.name NVIDIA H100 80GB HBM3
gpu.ecc 1
gpu.mig 0
gpu.recovery 0
gpu.nvlinks 18
gpu.nvlink_speed 26562
gpu.clock 1980
"""
EIGHT_H100 = f"""
gpus 8
{H100}
gpu.4.numa 1
gpu.5.numa 1
gpu.6.numa 1
gpu.7.numa 1
"""
FOUR_4090 = """
gpus 4
driver 560.35.03
cuda 12060
gpu.name NVIDIA GeForce RTX 4090
gpu.capability 89
gpu.memory 24564
gpu.path 30
gpu.p2p 2
gpu.pcie 1
gpu.pcie_max 4
gpu.pcie_own 4
gpu.persistence 0
gpu.power 21000
gpu.power_limit 450000
gpu.power_default 450000
gpu.2.numa 1
gpu.3.numa 1
"""
ONE_GPU = """
gpus 1
gpu.name NVIDIA RTX A6000
gpu.capability 86
gpu.memory 49140
gpu.ecc 0
gpu.nvlinks 4
gpu.nvlinks_up 0
gpu.pcie 4
gpu.pcie_max 4
gpu.pcie_own 4
gpu.power_limit 300000
gpu.power_default 300000
"""
MIG_SLICE = """
gpus 1
gpu.name NVIDIA A100-SXM4-80GB
gpu.capability 80
gpu.ecc 1
gpu.mig 1
gpu.mig_instances 1
gpu.power_limit 400000
gpu.power_default 400000
"""
OLD_DRIVER = """
gpus 2
driver 418.226.00
cuda 10010
gpu.name Tesla V100-SXM2-16GB
gpu.capability 70
gpu.memory 16160
gpu.ecc 1
gpu.retiring 0
gpu.nvlinks 6
gpu.0.nvlink_peer 1
gpu.1.nvlink_peer 0
gpu.nvlink_version 2
gpu.pcie 3
gpu.pcie_max 3
gpu.power_limit 300000
gpu.power_default 300000
gpu.1.pid 4194303
gpu.1.used 3000
"""

_FORBIDDEN = """
    UUID Name PciInfo MemoryInfo MemoryInfo_v2 UtilizationRates EccMode TotalEccErrors FieldValues
    CurrentClocksEventReasons ClockInfo PowerUsage MigMode NvLinkState ComputeRunningProcesses_v3 P2PStatus
    TopologyCommonAncestor CpuAffinity MemoryAffinity
"""


def failing(names: str, code: int, where: str = "") -> str:
    """Lines that make functions fail."""
    return "\n".join(f"{where}error.DeviceGet{name} {code}" for name in names.split())


MACHINES = {
    "eight-h100": EIGHT_H100,
    "four-4090": FOUR_4090,
    "one-gpu": ONE_GPU,
    "mig-slice": MIG_SLICE,
    "consumer": "gpus 1\ngpu.name NVIDIA GeForce RTX 4090",
    "bridged": "gpus 3\ngpu.nvlinks 4\ngpu.0.nvlink_peer 1\ngpu.1.nvlink_peer 0\ngpu.2.nvlink_peer 2",
    "newer-binding": ONE_GPU + failing("MemoryInfo_v2 TemperatureV", 25),
    "bad-rows": "gpus 2\ngpu.ecc 1\ngpu.rows_uncorrected 2\ngpu.0.rows_pending 1\ngpu.1.rows_failed 1",
    "slowed": "gpus 5\n"
    + "\n".join(f"gpu.{gpu}.reasons {bits}" for gpu, bits in enumerate(("0x0", "0x1", "0x44", "0x80", "0x400"))),
    "no-permission": "error.Init 4",
    "no-module": "error.Init 9",
    "mismatch": "error.Init 18",
    "unknown-error": "error.Init 999",
    "no-gpu": "gpus 0",
    "one-lost": "gpus 4\ngpu.2.error.* 15",
    "lost-later": "gpus 2\n" + failing("TemperatureV PowerUsage MemoryInfo_v2", 15, "gpu.1."),
    "forbidden": f"gpus 2\n{H100}\n" + failing(_FORBIDDEN, 4),
    "strangers": "gpus 2\ngpu.0.pid 4194303\ngpu.0.used 600\ngpu.1.used 12000",
    "mixed": "gpus 3\ngpu.name NVIDIA RTX A6000\ngpu.2.name NVIDIA GeForce RTX 3090",
    "narrow": "gpus 2\ngpu.lanes_max 16\ngpu.1.lanes 4\ngpu.1.busy 97\ngpu.1.used 20000\n"
    "gpu.0.lanes 4\ngpu.pcie_max 4\ngpu.pcie 1",
    "woken-up": "gpus 2\ngpu.busy 100\ngpu.pcie 1\ngpu.lanes 4",
    "desktop": "gpus 1\ngpu.drawing_pid 4194303\ngpu.used 1500\ngpu.busy 20",
    "one-bridge": f"gpus 3\n{H100}\ngpu.0.nvlink_peer 1\ngpu.1.nvlink_peer 0\ngpu.2.nvlinks_up 0",
    "switch-lost": f"gpus 3\n{H100}\ngpu.2.nvlinks_up 0",
    "link-down": f"gpus 4\n{H100}\ngpu.3.nvlinks_up 16",
    "reset-needed": "gpus 1\ngpu.recovery 1",
    "prohibited": "gpus 1\ngpu.compute_mode 2",
    "exclusive": "gpus 1\ngpu.compute_mode 3",
    "capped": "gpus 1\ngpu.power_limit 400000\ngpu.power_default 700000\ngpu.temperature 89",
    "mig-empty": "gpus 1\ngpu.mig 1\ngpu.mig_instances 0",
    "p2p-broken": f"gpus 2\n{H100}\ngpu.p2p 5",
}
OLD_MACHINES = {"old-driver": OLD_DRIVER}
