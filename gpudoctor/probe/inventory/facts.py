"""What an inventory holds, as frozen records. Units stand in the docstrings: bytes, MHz, watts, degrees Celsius.

A `Field` says why it has no value; tuples are empty where there is nothing of the kind.
"""

from __future__ import annotations

from gpudoctor.probe.inventory.field import NOT_ASKED, Field
from gpudoctor.record import dataclass


@dataclass(frozen=True)
class Driver:
    """The NVIDIA driver, as NVML tells. `count` is the number of GPUs that NVML sees."""

    version: Field[str] = NOT_ASKED
    cuda: Field[str] = NOT_ASKED
    """The newest CUDA version that programs may be built with."""
    count: Field[int] = NOT_ASKED


@dataclass(frozen=True)
class Memory:
    """Memory of a GPU or of the machine, in bytes."""

    total: int
    free: int
    used: int


@dataclass(frozen=True)
class RemappedRows:
    """Rows of GPU memory that spare rows stand in for. `pending` waits for a reset, `failed` found no spare row."""

    corrected: int
    uncorrected: int
    pending: bool
    failed: bool


@dataclass(frozen=True)
class PcieLink:
    """A GPU's way to the machine: generation and number of lanes.

    `max_*` is the best of GPU and slot together, `gpu_max_*` what the GPU alone could do. An idle GPU lowers its
    generation to save power, so `generation` alone tells nothing. `replays` counts packets sent again.
    """

    generation: Field[int] = NOT_ASKED
    width: Field[int] = NOT_ASKED
    max_generation: Field[int] = NOT_ASKED
    max_width: Field[int] = NOT_ASKED
    gpu_max_generation: Field[int] = NOT_ASKED
    gpu_max_width: Field[int] = NOT_ASKED
    replays: Field[int] = NOT_ASKED


@dataclass(frozen=True)
class NvLink:
    """The NVLinks of one GPU; `links` counts those it has, `active` those that are up.

    `megabytes_per_second` is the rate of one link in one direction.
    """

    links: int
    active: int
    version: Field[int] = NOT_ASKED
    megabytes_per_second: Field[int] = NOT_ASKED
    peers: tuple[str, ...] = ()
    """What each active link leads to: the PCI address of a GPU or of a switch."""


@dataclass(frozen=True)
class GpuProcess:
    """A process that holds memory on a GPU, in bytes. In a container `pid` is the host's and `name` unknown."""

    pid: int
    memory: Field[int] = NOT_ASKED
    name: Field[str] = NOT_ASKED
    ours: bool = False
    """Whether it belongs to the program that asks."""
    graphics: bool = False
    """Whether it draws on a display, and computes nothing."""


@dataclass(frozen=True)
class MigInstance:
    """A slice of a GPU, which programs see as a device of its own; memory in bytes."""

    uuid: Field[str] = NOT_ASKED
    name: Field[str] = NOT_ASKED
    memory: Field[Memory] = NOT_ASKED


@dataclass(frozen=True)
class Gpu:
    """One GPU as the driver tells. `index` counts in NVML's order, which is that of PCI addresses.

    Clocks are in MHz, temperatures in degrees Celsius, power in watts, `utilization` in percent of the last moment.
    """

    index: int
    uuid: Field[str] = NOT_ASKED
    name: Field[str] = NOT_ASKED
    pci: Field[str] = NOT_ASKED
    capability: Field[str] = NOT_ASKED
    memory: Field[Memory] = NOT_ASKED
    utilization: Field[int] = NOT_ASKED
    ecc: Field[bool] = NOT_ASKED
    ecc_after_reboot: Field[bool] = NOT_ASKED
    ecc_corrected: Field[int] = NOT_ASKED
    ecc_uncorrected: Field[int] = NOT_ASKED
    remapped_rows: Field[RemappedRows] = NOT_ASKED
    retired_pages_pending: Field[bool] = NOT_ASKED
    recovery: Field[str] = NOT_ASKED
    """What the driver itself asks for: `none`, `reset`, `reboot`, `drain` ..."""
    slowed_by: Field[tuple[str, ...]] = NOT_ASKED
    """Why clocks are lower than they could be; see `slowdown.py`."""
    clock_sm: Field[int] = NOT_ASKED
    clock_sm_max: Field[int] = NOT_ASKED
    clock_memory: Field[int] = NOT_ASKED
    clock_memory_max: Field[int] = NOT_ASKED
    temperature: Field[int] = NOT_ASKED
    temperature_slowdown: Field[int] = NOT_ASKED
    power: Field[float] = NOT_ASKED
    power_limit: Field[float] = NOT_ASKED
    power_limit_default: Field[float] = NOT_ASKED
    performance_state: Field[int] = NOT_ASKED
    """0 is full speed, 8 and above idle."""
    compute_mode: Field[str] = NOT_ASKED
    persistence: Field[bool] = NOT_ASKED
    pcie: PcieLink = PcieLink()
    nvlink: Field[NvLink] = NOT_ASKED
    mig: Field[bool] = NOT_ASKED
    mig_instances: tuple[MigInstance, ...] = ()
    processes: Field[tuple[GpuProcess, ...]] = NOT_ASKED
    numa_node: Field[int] = NOT_ASKED
    cpus: Field[tuple[int, ...]] = NOT_ASKED
    """The CPUs that are nearest."""


@dataclass(frozen=True)
class Moment:
    """A GPU at one time (`time.time()`); units as in `Gpu`."""

    uuid: str
    time: float
    utilization: Field[int] = NOT_ASKED
    clock_sm: Field[int] = NOT_ASKED
    temperature: Field[int] = NOT_ASKED
    power: Field[float] = NOT_ASKED
    pcie_generation: Field[int] = NOT_ASKED
    pcie_width: Field[int] = NOT_ASKED
    slowed_by: Field[tuple[str, ...]] = NOT_ASKED


@dataclass(frozen=True)
class Glance:
    """All GPUs at one time."""

    moments: tuple[Moment, ...]


@dataclass(frozen=True)
class GpuPair:
    """How two GPUs, by NVML index, reach each other.

    `path` is PIX, PXB, PHB, NODE or SYS, growing with the distance; `nvlinks` the number of links between the two,
    or to the switch that joins them. `p2p_read`, `p2p_write` are "ok" or what is in the way.
    """

    a: int
    b: int
    path: Field[str] = NOT_ASKED
    nvlinks: Field[int] = NOT_ASKED
    p2p_read: Field[str] = NOT_ASKED
    p2p_write: Field[str] = NOT_ASKED
    p2p_nvlink: Field[str] = NOT_ASKED

    @property
    def kind(self) -> Field[str]:
        """One word, as `nvidia-smi topo -m` has it: NV4, PIX, SYS ..."""
        links = self.nvlinks.or_else(0)
        return self.path if not links else Field(f"NV{links}")


@dataclass(frozen=True)
class TorchDevice:
    """A GPU as torch counts them, after `CUDA_VISIBLE_DEVICES`; memory in bytes."""

    index: int
    name: str
    capability: str = ""
    memory: int = 0
    uuid: Field[str] = NOT_ASKED
    pci: Field[str] = NOT_ASKED
    peers: Field[tuple[int, ...]] = NOT_ASKED
    """The devices whose memory it may read directly."""


@dataclass(frozen=True)
class TorchView:
    """What torch was built with, and what it makes of this machine."""

    version: Field[str] = NOT_ASKED
    cuda: Field[str] = NOT_ASKED
    """The CUDA version it was built with; absent for CPU and ROCm builds."""
    rocm: Field[str] = NOT_ASKED
    architectures: Field[tuple[str, ...]] = NOT_ASKED
    """GPU architectures that its kernels were compiled for: sm_80, compute_90 ..."""
    cudnn: Field[str] = NOT_ASKED
    nccl: Field[str] = NOT_ASKED
    backends: Field[tuple[str, ...]] = NOT_ASKED
    """Backends of torch.distributed in this build."""
    available: Field[bool] = NOT_ASKED
    """`torch.cuda.is_available()`."""
    trouble: str = ""
    """What torch said when it was asked for its GPUs."""
    other: Field[str] = NOT_ASKED
    """An accelerator that is not CUDA's: mps, xpu ..."""


@dataclass(frozen=True)
class Limit:
    """A limit of `ulimit`: None is unlimited."""

    soft: int | None
    hard: int | None


@dataclass(frozen=True)
class Interface:
    """A network interface. `kind` is loopback, ethernet, infiniband or virtual; `speed` in Mbit/s."""

    name: str
    up: bool
    kind: str
    addresses: tuple[str, ...] = ()
    speed: Field[int] = NOT_ASKED


@dataclass(frozen=True)
class RdmaPort:
    """A port of an InfiniBand or RoCE adapter, with its state as the kernel words it and its rate."""

    device: str
    port: int
    state: str
    rate: str
    layer: str = ""


@dataclass(frozen=True)
class Network:
    """What NCCL and gloo could talk over. `host_address` is what this host's own name resolves to."""

    interfaces: tuple[Interface, ...] = ()
    rdma: tuple[RdmaPort, ...] = ()
    host_address: Field[str] = NOT_ASKED


@dataclass(frozen=True)
class Xid:
    """An error that the driver has written to the kernel's log, `age` seconds ago; `pci` is the GPU's address."""

    pci: str
    code: int
    text: str = ""
    age: float = 0.0


@dataclass(frozen=True)
class System:
    """The machine around the GPUs. Memory in bytes; `cpu_quota` is in CPUs and may be a fraction."""

    host: Field[str] = NOT_ASKED
    os: Field[str] = NOT_ASKED
    kernel: Field[str] = NOT_ASKED
    python: Field[str] = NOT_ASKED
    container: Field[str] = NOT_ASKED
    wsl: bool = False
    cpu: Field[str] = NOT_ASKED
    cpus: Field[int] = NOT_ASKED
    cpus_usable: Field[tuple[int, ...]] = NOT_ASKED
    """Those that this process may run on."""
    cpu_quota: Field[float] = NOT_ASKED
    numa_nodes: Field[tuple[tuple[int, ...], ...]] = NOT_ASKED
    """The CPUs of each node."""
    memory: Field[Memory] = NOT_ASKED
    memory_limit: Field[int] = NOT_ASKED
    shm: Field[Memory] = NOT_ASKED
    """/dev/shm."""
    memlock: Field[Limit] = NOT_ASKED
    """Bytes."""
    nofile: Field[Limit] = NOT_ASKED
    nproc: Field[Limit] = NOT_ASKED
    iommu_groups: Field[int] = NOT_ASKED
    """More than 0 where an IOMMU stands between the devices."""
    nvidia_pci: Field[tuple[str, ...]] = NOT_ASKED
    """PCI addresses of NVIDIA GPUs, whether or not a driver runs."""
    nvidia_nodes: Field[tuple[str, ...]] = NOT_ASKED
    """Device files below /dev."""
    nvidia_module: Field[str] = NOT_ASKED
    """Version of the loaded kernel module."""
    xids: Field[tuple[Xid, ...]] = NOT_ASKED
    nvidia_models: Field[tuple[str, ...]] = NOT_ASKED
    """GPUs by model, as the kernel module names them without being asked through NVML."""


@dataclass(frozen=True)
class Variable:
    """An environment variable that matters for training, and what it does here.

    `doubt` says what is wrong with it and `remedy` what to type; both are empty where nothing is.
    """

    name: str
    value: str
    effect: str
    doubt: str = ""
    remedy: str = ""


@dataclass(frozen=True)
class Visible:
    """A GPU that programs may use: CUDA's index, and which one that is."""

    cuda_index: int
    uuid: Field[str] = NOT_ASKED
    gpu: Field[int] = NOT_ASKED
    """The NVML index."""


@dataclass(frozen=True)
class Visibility:
    """What `CUDA_VISIBLE_DEVICES` leaves of the GPUs, in CUDA's order. `doubt` says what is wrong with the value."""

    devices: tuple[Visible, ...] = ()
    variable: str | None = None
    doubt: str = ""
    source: str = ""
    """Where this is known from: torch, or the variable alone."""


@dataclass(frozen=True)
class Inventory:
    """One node: what it has, and what its programs may use."""

    driver: Driver = Driver()
    gpus: tuple[Gpu, ...] = ()
    pairs: tuple[GpuPair, ...] = ()
    torch: TorchView = TorchView()
    torch_devices: tuple[TorchDevice, ...] = ()
    visibility: Visibility = Visibility()
    system: System = System()
    network: Network = Network()
    environment: tuple[Variable, ...] = ()
    trouble: tuple[str, ...] = ()
    """Parts that could not be finished, each with the reason."""
    seconds: float = 0.0
    """How long it took."""
