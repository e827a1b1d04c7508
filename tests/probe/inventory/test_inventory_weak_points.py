"""What is said to be weak about a machine, and that healthy machines are left in peace."""

from collections.abc import Mapping

import pytest

from gpudoctor.diagnostic import Severity
from gpudoctor.probe.inventory import contract, weak_points_under_load
from gpudoctor.probe.inventory.architectures import Support, is_older, support
from gpudoctor.probe.inventory.facts import (
    Driver,
    Gpu,
    GpuPair,
    Interface,
    Inventory,
    Limit,
    Memory,
    Moment,
    Network,
    PcieLink,
    RdmaPort,
    System,
    TorchDevice,
    TorchView,
    Variable,
    Visibility,
    Visible,
    Xid,
)
from gpudoctor.probe.inventory.field import Absence, Field, absent, known
from gpudoctor.probe.inventory.findings.judge import weak_points
from gpudoctor.probe.inventory.findings.load import weak_under_load
from gpudoctor.probe.inventory.findings.point import WeakPoint, gib, named
from gpudoctor.probe.results import Verdict
from gpudoctor.record import replace

Fleet = Mapping[str, Inventory]
GIB = 2**30
TORCH = TorchView(
    version=known("2.13.0+cu126"),
    cuda=known("12.6"),
    rocm=absent("this torch was built without ROCm"),
    architectures=known(("sm_75", "sm_80", "sm_86", "sm_90", "compute_90")),
    backends=known(("gloo", "nccl")),
    available=known(True),
)
SYSTEM = System(
    cpus=known(64),
    cpus_usable=known(tuple(range(64))),
    shm=known(Memory(64 * GIB, 64 * GIB, 0)),
    memlock=known(Limit(None, None)),
    nofile=known(Limit(1 << 20, 1 << 20)),
    container=absent("no sign of one is seen"),
    nvidia_pci=known(("0000:10:00.0",)),
)
HEALTHY = Inventory(
    driver=Driver(known("560.35.03"), known("12.6"), known(1)),
    gpus=(Gpu(0, uuid=known("GPU-0"), name=known("NVIDIA L4"), capability=known("8.9")),),
    torch=TORCH,
    torch_devices=(TorchDevice(0, "NVIDIA L4"),),
    visibility=Visibility((Visible(0, known("GPU-0"), known(0)),)),
    system=SYSTEM,
)
CPU_BUILD = TorchView(version=known("2.13.0+cpu"), cuda=absent("CPU"), rocm=absent("CPU"), available=known(False))


def found(inventory: Inventory) -> dict[str, WeakPoint]:
    points = weak_points(inventory)
    assert len({point.name for point in points}) == len(points), points
    return {point.name: point for point in points}


@pytest.mark.parametrize(
    "machine", ["eight-h100", "one-gpu", "bridged", "one-bridge", "consumer", "newer-binding", "woken-up"]
)
def test_healthy_machines_have_no_weak_points(fleet: Fleet, machine: str) -> None:
    inventory = replace(fleet[machine], system=SYSTEM, torch=replace(TORCH, architectures=known(("sm_80", "sm_90"))))
    inventory = replace(inventory, system=replace(SYSTEM, nvidia_pci=absent("")))
    assert weak_points(inventory) == ()


def test_a_healthy_machine_by_hand() -> None:
    assert weak_points(HEALTHY) == ()


def test_a_machine_without_gpus_is_none_of_our_concern() -> None:
    none = absent("libnvidia-ml.so.1 is not there", Absence.NO_DRIVER)
    system = replace(SYSTEM, nvidia_pci=known(()), nvidia_nodes=known(()), nvidia_module=absent(""), cpus=known(1))
    assert weak_points(Inventory(Driver(none, none, none), torch=CPU_BUILD, system=system)) == ()


@pytest.mark.parametrize(
    ("machine", "name", "severity", "words"),
    [
        ("four-4090", "p2p-off", Severity.PERF, "GPUs 0-3 cannot read each other's memory in 6 of 6 pairs"),
        ("four-4090", "numa-apart", Severity.PERF, "4 of 6 pairs"),
        ("four-4090", "persistence-off", Severity.INFO, "GPUs 0-3 are put to sleep"),
        ("mig-slice", "mig", Severity.WARNING, "1 MIG instance"),
        ("mig-empty", "mig-without-instances", Severity.ERROR, "no instance"),
        ("old-driver", "gpu-in-use", Severity.WARNING, "computes on GPU 1"),
        ("bad-rows", "row-remapping-pending", Severity.WARNING, "GPU 0"),
        ("bad-rows", "row-remapping-failed", Severity.ERROR, "GPU 1"),
        ("slowed", "slowed-down", Severity.WARNING, "GPU 2 is slowed down ("),
        ("mismatch", "driver-mismatch", Severity.ERROR, "different versions"),
        ("no-permission", "driver-forbidden", Severity.ERROR, "permissions"),
        ("one-lost", "gpu-lost", Severity.ERROR, "GPU 2 is lost"),
        ("lost-later", "gpu-lost", Severity.ERROR, "GPU 1 is lost"),
        ("strangers", "gpu-in-use", Severity.WARNING, "cannot be seen from here"),
        ("mixed", "mixed-models", Severity.PERF, "2 x NVIDIA RTX A6000, 1 x NVIDIA GeForce RTX 3090"),
        ("narrow", "link-narrow", Severity.WARNING, "GPU 1 is on 4 of 16 PCIe lanes"),
        ("narrow", "link-slow", Severity.WARNING, "PCIe 1 instead of 4"),
        ("switch-lost", "nvlink-down", Severity.ERROR, "GPU 2 has 0 NVLinks up"),
        ("desktop", "gpu-draws", Severity.INFO, "GPU 0 is used by a display"),
        ("narrow", "gpu-in-use", Severity.WARNING, "GPU 1"),
        ("link-down", "nvlink-down", Severity.WARNING, "GPU 3 has 16 NVLinks up"),
        ("reset-needed", "recovery-needed", Severity.ERROR, "reset"),
        ("prohibited", "compute-mode", Severity.ERROR, "prohibited"),
        ("exclusive", "compute-mode", Severity.INFO, "exclusive-process"),
        ("capped", "power-limit-lowered", Severity.PERF, "400 W"),
        ("capped", "hot", Severity.WARNING, "89 °C"),
        ("p2p-broken", "p2p-off", Severity.ERROR, "not supported"),
    ],
)
def test_sick_machines(fleet: Fleet, machine: str, name: str, severity: Severity, words: str) -> None:
    points = [point for point in weak_points(fleet[machine]) if point.name == name]
    assert [point.severity for point in points] == [severity] * len(points)
    assert any(words in point.message for point in points), points
    for point in points:
        assert point.remedy, "always something to do"
        assert "{" not in point.message + point.remedy


def test_an_idle_link_is_not_judged(fleet: Fleet) -> None:
    points = [point for point in weak_points(fleet["narrow"]) if point.name.startswith("link-")]
    assert {point.gpus for point in points} == {(1,)}, "GPU 0 has turned its link down because nothing runs on it"


def test_a_narrow_slot_is_judged_by_what_the_gpu_could_do() -> None:
    slot = PcieLink(max_width=known(4), gpu_max_width=known(16))
    point = found(replace(HEALTHY, gpus=(replace(HEALTHY.gpus[0], pcie=slot),)))["slot-narrow"]
    assert (point.figure, point.expectation, point.severity) == (4.0, "16 lanes", Severity.WARNING)
    narrow_by_design = PcieLink(max_width=known(8), gpu_max_width=known(8))
    assert not found(replace(HEALTHY, gpus=(replace(HEALTHY.gpus[0], pcie=narrow_by_design),)))


class TestTorch:
    """Wheels that do not fit."""

    def test_cpu_only(self) -> None:
        point = found(replace(HEALTHY, torch=CPU_BUILD, torch_devices=()))["cpu-only-torch"]
        assert "1 x NVIDIA L4" in point.what
        assert point.remedy.endswith("torch --index-url https://download.pytorch.org/whl/cu126")

    def test_cpu_only_in_a_container_without_gpus(self) -> None:
        none = absent("", Absence.NO_DRIVER)
        system = replace(SYSTEM, container=known("docker"), nvidia_nodes=known(()))
        inventory = Inventory(Driver(none, none, none), torch=CPU_BUILD, system=system)
        assert set(found(inventory)) == {"container-without-gpus"}

    def test_a_driver_that_is_too_old(self) -> None:
        old = Driver(known("470.57.02"), known("11.4"), known(1))
        torch = replace(TORCH, available=known(False), trouble="The NVIDIA driver on your system is too old")
        point = found(replace(HEALTHY, driver=old, torch=torch, torch_devices=()))["driver-too-old"]
        assert "525.60.13" in point.remedy
        assert (point.figure, point.expectation) == (11.4, "at least 12.0")

    def test_a_driver_of_the_same_major_version_is_fine(self) -> None:
        older = Driver(known("525.60.13"), known("12.0"), known(1))
        assert {each.severity for each in weak_points(replace(HEALTHY, driver=older))} == {Severity.INFO}

    def test_the_fabric_manager(self) -> None:
        torch = replace(TORCH, available=known(False), trouble="Error 802: system not yet initialized")
        assert "fabricmanager" in found(replace(HEALTHY, torch=torch, torch_devices=()))["fabric-manager"].remedy

    def test_cuda_that_fails_with_its_own_words(self) -> None:
        torch = replace(TORCH, available=known(False), trouble="CUDA unknown error")
        assert "CUDA unknown error" in found(replace(HEALTHY, torch=torch, torch_devices=()))["cuda-fails"].what

    def test_hidden_gpus_are_no_failure_of_cuda(self) -> None:
        hidden = Visibility((), "", "it is empty: no GPU is visible")
        torch = replace(TORCH, available=known(False))
        assert not found(replace(HEALTHY, torch=torch, torch_devices=(), visibility=hidden))

    def test_an_old_gpu_needs_an_old_wheel(self) -> None:
        torch = replace(TORCH, cuda=known("13.0"), architectures=known(("sm_75", "sm_80", "compute_120")))
        old = replace(HEALTHY.gpus[0], capability=known("6.1"))
        driver = Driver(known("580.65.06"), known("13.0"), known(1))
        point = found(replace(HEALTHY, driver=driver, torch=torch, gpus=(old,)))["architecture-missing"]
        assert point.remedy.endswith("/cu126")
        assert "no kernel image is available" in point.why

    def test_a_new_gpu_needs_a_new_wheel(self) -> None:
        new = replace(HEALTHY.gpus[0], capability=known("12.0"))
        driver = Driver(known("570.86.15"), known("12.8"), known(1))
        torch = replace(TORCH, architectures=known(("sm_80", "sm_90")))
        point = found(replace(HEALTHY, driver=driver, torch=torch, gpus=(new,)))["architecture-missing"]
        assert point.remedy.endswith("/cu128")

    def test_not_installed(self) -> None:
        missing = absent("torch is not installed", Absence.NOT_INSTALLED)
        point = found(replace(HEALTHY, torch=TorchView(missing, missing), torch_devices=()))["torch-missing"]
        assert point.remedy.startswith("pip install")

    def test_broken(self) -> None:
        broken = absent("torch cannot be imported: libcudart.so.12: cannot open shared object file", Absence.FAILED)
        assert (
            "libcudart"
            in found(replace(HEALTHY, torch=TorchView(broken, broken), torch_devices=()))["torch-broken"].what
        )

    def test_without_nccl(self) -> None:
        two = (HEALTHY.gpus[0], replace(HEALTHY.gpus[0], index=1, uuid=known("GPU-1")))
        torch = replace(TORCH, backends=known(("gloo",)))
        assert "nccl-missing" in found(replace(HEALTHY, gpus=two, torch=torch))


class TestDriver:
    """GPUs that nobody answers for."""

    @pytest.mark.parametrize(
        ("why", "container", "name"),
        [
            (Absence.NO_DRIVER, Field(None, "no sign"), "driver-missing"),
            (Absence.NO_DRIVER, known("docker"), "container-without-gpus"),
            (Absence.FAILED, known("docker"), "container-lost-gpus"),
            (Absence.NOT_INSTALLED, Field(None, "no sign"), "nvml-missing"),
            (Absence.TIMED_OUT, Field(None, "no sign"), "driver-hangs"),
        ],
    )
    def test_no_answer(self, why: Absence, container: Field[str], name: str) -> None:
        none = absent("no answer", why)
        system = replace(SYSTEM, container=container, nvidia_nodes=known(()))
        inventory = Inventory(Driver(none, none, none), torch=replace(TORCH, available=known(False)), system=system)
        assert set(found(inventory)) == {name}

    def test_torch_sees_what_nvml_does_not(self) -> None:
        none = absent("libnvidia-ml.so.1 is not there", Absence.NO_DRIVER)
        point = found(replace(HEALTHY, driver=Driver(none, none, none), gpus=()))["nvml-missing"]
        assert "NVIDIA_DRIVER_CAPABILITIES" in point.remedy

    def test_amd_has_no_nvml(self) -> None:
        none = absent("libnvidia-ml.so.1 is not there", Absence.NO_DRIVER)
        rocm = replace(TORCH, cuda=absent("ROCm"), rocm=known("6.3"), architectures=known(("gfx942",)))
        system = replace(SYSTEM, nvidia_pci=known(()))
        devices = (TorchDevice(0, "AMD Instinct MI300X", memory=192 << 30),)
        where = Visibility((Visible(0, known("GPU-amd")),))
        inventory = Inventory(
            Driver(none, none, none), torch=rocm, torch_devices=devices, system=system, visibility=where
        )
        assert not found(inventory)
        machine = contract.machine(inventory)
        assert [gpu.facts["name"].value for gpu in machine.gpus] == ["AMD Instinct MI300X"]
        assert "libnvidia-ml" in machine.gpus[0].facts["utilization"].because
        assert machine.visible == 1

    def test_a_gpu_fewer_than_the_machine_has(self) -> None:
        system = replace(SYSTEM, nvidia_pci=known(("0000:10:00.0", "0000:20:00.0")))
        one = replace(HEALTHY.gpus[0], pci=known("00000000:10:00.0"))
        assert "0000:20:00.0 not" in found(replace(HEALTHY, gpus=(one,), system=system))["gpu-missing"].what
        inside = replace(system, container=known("docker"))
        assert not found(replace(HEALTHY, gpus=(one,), system=inside)), "a container may be given some only"


class TestSurroundings:
    """Limits of the machine."""

    @pytest.mark.parametrize(
        ("container", "remedy"),
        [
            (known("docker"), "--shm-size=8g"),
            (known("kubernetes"), "emptyDir"),
            (absent("no sign"), "mount -o remount"),
        ],
    )
    def test_small_shm(self, container: Field[str], remedy: str) -> None:
        system = replace(SYSTEM, shm=known(Memory(64 * 2**20, 64 * 2**20, 0)), container=container)
        point = found(replace(HEALTHY, system=system))["shm-small"]
        assert remedy in point.remedy
        assert (point.figure, point.unit) == (64.0, "MiB")

    def test_full_shm(self) -> None:
        system = replace(SYSTEM, shm=known(Memory(8 * GIB, 100 * 2**20, 8 * GIB)))
        assert "remove" in found(replace(HEALTHY, system=system))["shm-small"].remedy

    def test_few_cpus(self) -> None:
        limited = replace(SYSTEM, cpu_quota=known(1.5))
        assert "its control group allows 1.5 CPUs for 1 GPU" in found(replace(HEALTHY, system=limited))["cpus-few"].what
        tied = replace(SYSTEM, cpus_usable=known((3,)))
        assert "this process may use 1 CPU for 1 GPU" in found(replace(HEALTHY, system=tied))["cpus-few"].what

    def test_cpus_of_the_other_socket(self) -> None:
        gpu = replace(HEALTHY.gpus[0], cpus=known(tuple(range(32, 64))), numa_node=known(1))
        tied = replace(SYSTEM, cpus_usable=known(tuple(range(8))))
        assert "--cpunodebind=1" in found(replace(HEALTHY, gpus=(gpu,), system=tied))["cpus-far"].remedy
        assert not found(replace(HEALTHY, gpus=(gpu,)))

    def test_memlock_matters_with_rdma_only(self) -> None:
        system = replace(SYSTEM, memlock=known(Limit(8 * 2**20, 8 * 2**20)))
        assert not found(replace(HEALTHY, system=system))
        roce = Network(rdma=(RdmaPort("mlx5_0", 1, "ACTIVE", "25 Gb/sec", "Ethernet"),))
        assert found(replace(HEALTHY, system=system, network=roce))["memlock-limited"].severity is Severity.INFO
        network = Network(rdma=(RdmaPort("mlx5_0", 1, "ACTIVE", "200 Gb/sec", "InfiniBand"),))
        assert (
            found(replace(HEALTHY, system=system, network=network))["memlock-limited"].remedy == "ulimit -l unlimited"
        )

    def test_an_unresolved_name_is_a_note(self) -> None:
        network = Network((Interface("lo", True, "loopback"),), (), absent("the name 'a' ...", Absence.FAILED))
        assert found(replace(HEALTHY, network=network))["host-unresolved"].severity is Severity.INFO

    def test_variables(self) -> None:
        doubtful = Variable(
            "NCCL_P2P_DISABLE", "1", "by way of memory", "several times slower", "unset NCCL_P2P_DISABLE"
        )
        point = found(replace(HEALTHY, environment=(doubtful, Variable("RANK", "0", "rank 0"))))
        assert point["variable-nccl-p2p-disable"].message == "NCCL_P2P_DISABLE=1: several times slower"


def test_cuda_may_refuse_what_the_driver_offers() -> None:
    two = (HEALTHY.gpus[0], replace(HEALTHY.gpus[0], index=1, uuid=known("GPU-1")))
    devices = tuple(TorchDevice(index, "NVIDIA L4", peers=known(())) for index in range(2))
    where = Visibility(tuple(Visible(index, gpu=known(index)) for index in range(2)))
    pair = GpuPair(0, 1, path=known("PHB"), p2p_read=known("ok"))
    inventory = replace(HEALTHY, gpus=two, torch_devices=devices, visibility=where, pairs=(pair,))
    assert "p2p-refused-by-cuda" in found(inventory)
    willing = tuple(replace(each, peers=known((1 - each.index,))) for each in devices)
    assert not found(replace(inventory, torch_devices=willing))


def test_only_visible_gpus_are_compared(fleet: Fleet) -> None:
    mixed = fleet["mixed"]
    first_two = Visibility(tuple(Visible(index, gpu=known(index)) for index in (0, 1)), "0,1")
    assert "mixed-models" not in found(replace(mixed, visibility=first_two))


@pytest.mark.parametrize(
    ("capability", "built", "answer"),
    [
        ("9.0", ("sm_80", "sm_90"), Support.READY),
        ("8.6", ("sm_80",), Support.READY),
        ("8.0", ("sm_86",), Support.NONE),
        ("9.0", ("sm_80", "compute_80"), Support.COMPILED_LATE),
        ("6.1", ("sm_75", "compute_75"), Support.NONE),
        ("12.0", ("sm_100", "sm_120"), Support.READY),
        ("12.1", ("sm_120",), Support.READY),
        ("9.0", ("sm_90a",), Support.READY),
        ("10.3", ("sm_100a",), Support.NONE),
        ("10.3", ("compute_100f",), Support.COMPILED_LATE),
        ("9.4", ("gfx942",), Support.READY),
    ],
)
def test_architectures(capability: str, built: tuple[str, ...], answer: Support) -> None:
    assert support(capability, built) is answer


def test_older_than_all() -> None:
    assert is_older("6.1", ("sm_75", "sm_80"))
    assert not is_older("8.0", ("sm_75", "sm_80"))


def test_words() -> None:
    assert named([3]) == "GPU 3"
    assert named([0, 1, 2, 3]) == "GPUs 0-3"
    assert named([7, 0, 1]) == "GPUs 0-1 and 7"
    assert (gib(64 * 2**20), gib(79.6 * GIB), gib(1008 * GIB)) == ("64 MiB", "79.6 GiB", "1008 GiB")


def test_errors_in_the_kernel_log() -> None:
    gpu = replace(HEALTHY.gpus[0], pci=known("00000000:65:00.0"))
    xids = (Xid("0000:65:00", 48, "", 7000.0), Xid("0000:65:00", 79, "", 600.0), Xid("0000:65:00", 31, "", 60.0))
    point = found(replace(HEALTHY, gpus=(gpu,), system=replace(SYSTEM, xids=known(xids))))["xid"]
    assert point.what.startswith(
        "the driver has reported Xid 79 of GPU 0 10 minutes ago (it has fallen off the bus, 2 "
    )
    programs_own = (Xid("0000:65:00", 31, "", 60.0), Xid("0000:65:00", 79, "", 90000.0))
    assert not found(replace(HEALTHY, gpus=(gpu,), system=replace(SYSTEM, xids=known(programs_own))))


class TestUnderLoad:
    """What a watch over working GPUs shows."""

    GPU = Gpu(
        3, uuid=known("GPU-3"), clock_sm_max=known(1980), pcie=PcieLink(max_generation=known(5), max_width=known(16))
    )

    def moments(self, count: int = 8, busy: int = 97, reasons: tuple[str, ...] = (), **more: int) -> list[Moment]:
        facts = {"pcie_generation": 5, "pcie_width": 16, "clock_sm": 1900, "temperature": 60, **more}
        fields = {name: known(value) for name, value in facts.items()}
        return [Moment("GPU-3", 0.0, known(busy), slowed_by=known(reasons), **fields) for _ in range(count)]

    def seen(self, moments: list[Moment]) -> list[str]:
        return [point.name for point in weak_under_load([self.GPU], moments)]

    def test_all_is_well(self) -> None:
        assert self.seen(self.moments(reasons=("power-cap",))) == []

    def test_a_link_that_stays_narrow(self) -> None:
        (point,) = weak_under_load([self.GPU], self.moments(pcie_width=8))
        assert (point.name, point.figure, point.gpus) == ("link-narrow", 8.0, (3,))
        assert point.what == "GPU 3 is on 8 of 16 PCIe lanes, under load"

    def test_a_link_that_wakes_up_late_is_no_slow_link(self) -> None:
        assert self.seen(self.moments(pcie_generation=1) + self.moments(1)) == []
        assert self.seen(self.moments(pcie_generation=1)) == ["link-slow"]

    def test_rest_is_not_judged(self) -> None:
        asleep = self.moments(busy=0, pcie_generation=1, reasons=("idle", "thermal-slowdown"))
        assert self.seen(asleep) == []
        assert self.seen(self.moments(count=3, pcie_generation=1)) == [], "too short to tell"

    def test_clocks_that_are_held_down(self) -> None:
        hot = self.moments(reasons=("thermal-slowdown",), clock_sm=1200, temperature=91)
        (point,) = weak_under_load([self.GPU], hot)
        assert "slowed down to 1200 of 1980 MHz while training, at 91 °C" in point.what
        once = self.moments(7) + self.moments(1, reasons=("thermal-slowdown",))
        assert self.seen(once) == []

    def test_in_the_words_of_the_report(self, fleet: Fleet) -> None:
        eight = fleet["eight-h100"]
        devices = (TorchDevice(0, "H100", uuid=eight.gpus[3].uuid),)
        machine = contract.machine(replace(eight, torch_devices=devices))
        watched = [replace(each, uuid=machine.gpus[3].uuid) for each in self.moments(pcie_width=4)]
        (check,) = weak_points_under_load(machine, watched)
        assert (check.name, check.verdict, check.node) == ("link-narrow", Verdict.WARN, machine.host)
        assert weak_points_under_load(machine, ()) == ()
        assert weak_points_under_load(replace(machine, weak=(check,)), watched) == (), "nothing is said twice"
        assert weak_points_under_load(contract.machine(eight), watched) == (), "torch cannot have been the load"


def test_one_verdict_for_each_name(fleet: Fleet) -> None:
    (check,) = [each for each in contract.machine(fleet["slowed"]).weak if each.name == "slowed-down"]
    assert "GPU 2 is slowed down" in check.reason
    assert "GPU 3 is slowed down" in check.reason
