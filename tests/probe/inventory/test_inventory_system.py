"""The system, its limits and its network, on made-up trees of files and on this machine."""

import os
import sys
from pathlib import Path

import pytest

from gpudoctor.probe.inventory import cgroup, kernel_log, network, pci_tree, system
from gpudoctor.probe.inventory.field import known

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc and /sys are Linux's")


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


class TestControlGroups:
    """Limits of containers and clusters."""

    def limits(self, monkeypatch: pytest.MonkeyPatch, root: Path, lines: str) -> tuple[float | None, int | None]:
        (root / "self").write_text(lines)
        monkeypatch.setattr(cgroup, "ROOT", root)
        monkeypatch.setattr(cgroup, "SELF", root / "self")
        return cgroup.cpu_quota().value, cgroup.memory_limit().value

    def test_version_2(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        files = {"job/step/cpu.max": "max 100000", "job/cpu.max": "250000 100000", "job/memory.max": "1073741824"}
        root = write(tmp_path, {**files, "job/step/memory.max": "max"})
        assert self.limits(monkeypatch, root, "0::/job/step\n") == (2.5, 2**30)

    def test_version_1(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        files = {"cpu/docker/abc/cpu.cfs_quota_us": "400000", "cpu/docker/abc/cpu.cfs_period_us": "100000"}
        unlimited = {"memory/memory.limit_in_bytes": "9223372036854771712", "cpu/cpu.cfs_quota_us": "-1"}
        root = write(tmp_path, {**files, **unlimited})
        assert self.limits(monkeypatch, root, "4:memory:/\n3:cpu,cpuacct:/docker/abc\n1:name=systemd:/x\n") == (
            4.0,
            None,
        )

    def test_in_a_container_the_own_group_is_the_root(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        root = write(tmp_path, {"cpu.max": "100000 100000", "memory.max": "536870912"})
        assert self.limits(monkeypatch, root, "0::/kubepods/pod1\n") == (1.0, 2**29)

    def test_nothing_can_be_read(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        assert self.limits(monkeypatch, tmp_path, "not what the kernel writes\n") == (None, None)


class TestPciTree:
    """What the kernel tells of PCI devices."""

    @pytest.fixture
    def devices(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
        gpu = {"vendor": "0x10de", "class": "0x030200", "max_link_width": "16", "max_link_speed": "32.0 GT/s PCIe"}
        odd = {"vendor": "0x10de", "class": "0x030000", "max_link_width": "255", "max_link_speed": "Unknown"}
        sound = {"vendor": "0x10de", "class": "0x040300"}
        nic = {"vendor": "0x15b3", "class": "0x020000"}
        for name, files in {
            "0000:1b:00.0": gpu,
            "0000:2b:00.0": odd,
            "0000:2b:00.1": sound,
            "0000:05:00.0": nic,
        }.items():
            write(tmp_path / name, files)
        write(tmp_path / "0000:1b:00.0", {"numa_node": "1"})
        write(tmp_path / "0000:2b:00.0", {"numa_node": "-1"})
        monkeypatch.setattr(pci_tree, "DEVICES", tmp_path)
        return tmp_path

    def test_gpus(self, devices: Path) -> None:
        assert pci_tree.nvidia_gpus().value == ("0000:1b:00.0", "0000:2b:00.0")

    def test_a_device_by_the_address_that_nvml_writes(self, devices: Path) -> None:
        address = known("00000000:1b:00.0")
        assert pci_tree.max_width(address).value == 16
        assert pci_tree.max_generation(address).value == 5
        assert pci_tree.numa_node(address).value == 1

    def test_what_virtual_machines_make_up(self, devices: Path) -> None:
        address = known("00000000:2b:00.0")
        assert "'255'" in pci_tree.max_width(address).why_not
        assert "'Unknown'" in pci_tree.max_generation(address).why_not
        assert "firmware" in pci_tree.numa_node(address).why_not
        assert not pci_tree.max_width(known("0000:99:00.0")).known


class TestNetwork:
    """Interfaces and adapters."""

    def test_interfaces(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        write(tmp_path / "eth0", {"flags": "0x1003", "type": "1", "speed": "25000", "device/vendor": ""})
        write(tmp_path / "ib0", {"flags": "0x1002", "type": "32", "speed": "-1"})
        write(tmp_path / "docker0", {"flags": "0x1003", "type": "1"})
        write(tmp_path / "lo", {"flags": "0x9", "type": "772"})
        monkeypatch.setattr(network, "NET", tmp_path)
        seen = {each.name: (each.kind, each.up, each.speed.value) for each in network.read().interfaces}
        assert seen == {
            "docker0": ("virtual", True, None),
            "eth0": ("ethernet", True, 25000),
            "ib0": ("infiniband", False, None),
            "lo": ("loopback", True, None),
        }

    def test_adapters(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        port = {"state": "4: ACTIVE", "rate": "400 Gb/sec (4X NDR)", "link_layer": "InfiniBand"}
        write(tmp_path / "mlx5_0" / "ports" / "1", port)
        monkeypatch.setattr(network, "RDMA", tmp_path)
        (port_seen,) = network.read().rdma
        assert (port_seen.device, port_seen.port, port_seen.state) == ("mlx5_0", 1, "ACTIVE")

    def test_a_name_that_does_not_resolve(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(network.socket, "gethostname", lambda: "nosuch.invalid")
        assert "'nosuch.invalid' does not resolve" in network.read().host_address.why_not


def test_this_machine() -> None:
    here = system.system()
    assert here.cpus.value == os.cpu_count()
    assert set(here.cpus_usable.get()) == os.sched_getaffinity(0)
    assert 0 < here.memory.get().free <= here.memory.get().total
    assert here.nofile.get().soft is None or here.nofile.get().soft > 0
    assert here.kernel.value == os.uname().release


def test_the_version_of_the_kernel_module(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5\nGCC version:  gcc 12\n"
    monkeypatch.setattr(system, "_MODULE", write(tmp_path, {"version": text}) / "version")
    assert system.system().nvidia_module.value == "550.54.15"
    text = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\n"
    write(tmp_path, {"version": text})
    assert system.system().nvidia_module.value == "570.86.15"


@pytest.mark.parametrize(
    ("environment", "name"), [({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "kubernetes"), ({"container": "lxc"}, "lxc")]
)
def test_containers(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], name: str) -> None:
    monkeypatch.setattr(system, "_CONTAINER_SIGNS", {})
    for key, value in environment.items():
        monkeypatch.setenv(key, value)
    assert system.system().container.value == name


def test_lists_of_cpus() -> None:
    assert system.cpu_list("0-2,8,10-11\n") == (0, 1, 2, 8, 10, 11)
    assert system.cpu_list("") == ()


class TestKernelLog:
    """Xid errors."""

    RECORDS = (
        "6,1,1000000,-;systemd[1]: started",
        "3,2,2000000,-;NVRM: Xid (PCI:0000:65:00): 79, pid=1234, GPU has fallen off the bus.\n SUBSYSTEM=pci",
        "3,3,odd;NVRM: Xid (PCI:0000:1B:00): 31, pid=7, name=python, Ch 00000008",
    )

    def test_errors_are_found(self) -> None:
        first, second = kernel_log.found(iter(self.RECORDS))
        assert (first.pci, first.code, first.text) == ("0000:65:00", 79, "pid=1234, GPU has fallen off the bus.")
        assert first.age > 0
        assert (second.pci, second.code, second.age) == ("0000:1b:00", 31, 0.0)

    def test_a_log_that_may_not_be_read(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(kernel_log, "LOG", "/nonexistent/kmsg")
        assert "/nonexistent/kmsg" in kernel_log.xids().why_not

    def test_this_log(self) -> None:
        here = kernel_log.xids()
        assert here.known or here.why_not
