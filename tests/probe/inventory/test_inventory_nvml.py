"""What is read from a driver: every field, every way of it to fail, and drivers that lack half of it."""

import os
import time
from collections.abc import Callable, Mapping
from types import SimpleNamespace

import pytest

from gpudoctor.probe.inventory import Limits
from gpudoctor.probe.inventory.facts import Inventory, RemappedRows
from gpudoctor.probe.inventory.field import Absence
from gpudoctor.probe.inventory.nvml_calls import Nvml
from gpudoctor.record import fields

Take = Callable[..., Inventory]
Fleet = Mapping[str, Inventory]


def test_one_gpu(fleet: Fleet) -> None:
    found = fleet["one-gpu"]
    (gpu,) = found.gpus
    assert (found.driver.version.value, found.driver.cuda.value, found.driver.count.value) == ("570.86.15", "12.8", 1)
    assert gpu.name.value == "NVIDIA RTX A6000"
    assert gpu.uuid.get().startswith("GPU-fa5e0000")
    assert gpu.pci.value == "0000fa5e:10:00.0"
    assert gpu.capability.value == "8.6"
    assert gpu.memory.get().total == 49140 * 2**20
    assert gpu.memory.get().used == 4 * 2**20, "what the driver reserves is not used"
    assert (gpu.power.value, gpu.power_limit.value) == (70.0, 300.0)
    assert (gpu.temperature.value, gpu.temperature_slowdown.value) == (34, 90)
    assert gpu.slowed_by.value == ("idle",)
    assert gpu.compute_mode.value == "default"
    assert gpu.nvlink.get().active == 0
    assert gpu.processes.value == ()


def test_fields_that_a_gpu_does_not_have_say_so(fleet: Fleet) -> None:
    (gpu,) = fleet["consumer"].gpus
    for field in (gpu.ecc, gpu.remapped_rows, gpu.mig, gpu.recovery, gpu.nvlink, gpu.retired_pages_pending):
        assert field.absence is Absence.NOT_OFFERED
        assert str(field) == "not available, because this GPU or driver does not offer it"


def test_eight_gpus_behind_switches(fleet: Fleet) -> None:
    found = fleet["eight-h100"]
    assert [gpu.index for gpu in found.gpus] == list(range(8))
    assert len({gpu.uuid.value for gpu in found.gpus}) == 8
    assert len(found.pairs) == 28
    assert {pair.kind.value for pair in found.pairs} == {"NV18"}
    assert {pair.path.value for pair in found.pairs} == {"PXB", "SYS"}
    assert {pair.p2p_read.value for pair in found.pairs} == {"ok"}
    assert found.gpus[0].nvlink.get().megabytes_per_second.value == 26562
    assert [gpu.numa_node.value for gpu in found.gpus] == [0] * 4 + [1] * 4
    assert [each.gpu.value for each in found.visibility.devices] == list(range(8))


def test_gpus_without_peer_access(fleet: Fleet) -> None:
    pairs = fleet["four-4090"].pairs
    assert {pair.p2p_read.value for pair in pairs} == {"the GPU does not support it"}
    assert {pair.kind.value for pair in pairs} == {"PHB", "SYS"}


def test_direct_links_are_counted_for_their_pair(fleet: Fleet) -> None:
    pairs = fleet["bridged"].pairs
    assert {(pair.a, pair.b): pair.nvlinks.value for pair in pairs} == {(0, 1): 4, (0, 2): 0, (1, 2): 0}


def test_mig(fleet: Fleet) -> None:
    (gpu,) = fleet["mig-slice"].gpus
    assert gpu.mig.value is True
    assert gpu.utilization.absence is Absence.NOT_OFFERED
    (instance,) = gpu.mig_instances
    assert instance.uuid.get().startswith("MIG-")
    assert instance.memory.get().total == 9728 * 2**20


def test_an_old_driver_is_asked_in_the_old_way(fleet: Fleet) -> None:
    found = fleet["old-driver"]
    gpu = found.gpus[1]
    assert gpu.memory.get().used == 3500 * 2**20, "the old form counts what is reserved as used"
    assert gpu.slowed_by.value == ("idle",)
    assert gpu.temperature.value == 34
    assert [(each.pid, each.memory.value) for each in gpu.processes.get()] == [(4194303, 3000 * 2**20)]
    for field in (gpu.remapped_rows, gpu.mig):
        assert field.absence is Absence.OLD_DRIVER
    assert gpu.pcie.gpu_max_generation.why_not
    assert found.pairs[0].kind.value == "NV6"


def test_a_binding_that_is_newer_than_the_driver(fleet: Fleet) -> None:
    (gpu,) = fleet["newer-binding"].gpus
    assert gpu.memory.get().total == 49140 * 2**20
    assert gpu.temperature.value == 34


def test_remapped_rows(fleet: Fleet) -> None:
    pending, failed = fleet["bad-rows"].gpus
    assert pending.remapped_rows.value == RemappedRows(corrected=0, uncorrected=2, pending=True, failed=False)
    assert failed.remapped_rows.get().failed


def test_reasons_of_low_clocks(fleet: Fleet) -> None:
    assert [gpu.slowed_by.value for gpu in fleet["slowed"].gpus] == [
        (),
        ("idle",),
        ("power-cap", "hardware-thermal-slowdown"),
        ("power-brake",),
        ("unknown-0x400",),
    ]


@pytest.mark.parametrize(
    ("machine", "absence", "words"),
    [
        ("no-permission", Absence.FORBIDDEN, "insufficient permissions"),
        ("no-module", Absence.NO_DRIVER, "kernel module is not loaded"),
        ("mismatch", Absence.MISMATCH, "different versions"),
        ("unknown-error", Absence.FAILED, "unknown error"),
    ],
)
def test_a_driver_that_does_not_start(fleet: Fleet, machine: str, absence: Absence, words: str) -> None:
    found = fleet[machine]
    assert found.gpus == ()
    assert found.driver.version.absence is absence
    assert words in found.driver.version.why_not


def test_a_lost_gpu_does_not_hide_the_others(fleet: Fleet) -> None:
    found = fleet["one-lost"]
    assert [gpu.uuid.known for gpu in found.gpus] == [True, True, False, True]
    lost = found.gpus[2]
    assert lost.uuid.absence is Absence.LOST
    assert "fallen off the bus" in lost.name.why_not
    assert {(pair.a, pair.b) for pair in found.pairs} == {(0, 1), (0, 3), (1, 3)}


def test_a_gpu_that_is_lost_after_its_first_answer(fleet: Fleet) -> None:
    gpu = fleet["lost-later"].gpus[1]
    assert gpu.name.known
    for field in (gpu.temperature, gpu.power, gpu.memory):
        assert field.absence is Absence.LOST, "no older form is tried on a GPU that is gone"


def test_functions_may_be_forbidden_one_by_one(fleet: Fleet) -> None:
    found = fleet["forbidden"]
    gpu = found.gpus[0]
    all_fields = {each.name: getattr(gpu, each.name) for each in fields(gpu)}
    forbidden = {name for name, field in all_fields.items() if getattr(field, "absence", None) is Absence.FORBIDDEN}
    assert {"uuid", "name", "memory", "utilization", "ecc", "slowed_by", "power", "mig", "processes"} <= forbidden
    assert gpu.temperature.value == 34, "what is allowed is told"
    assert found.pairs[0].p2p_read.absence is Absence.FORBIDDEN


def test_no_driver_at_all(take: Take, tmp_path: object) -> None:
    found = take("", LD_LIBRARY_PATH=str(tmp_path))
    if found.driver.version.known:
        pytest.skip("this machine has a driver of its own")
    assert found.driver.version.absence is Absence.NO_DRIVER
    assert "libnvidia-ml.so.1" in found.driver.version.why_not
    assert found.system.cpus.known


def test_a_driver_that_hangs_is_left_behind(take: Take) -> None:
    started = time.monotonic()
    found = take("gpus 3\ngpu.1.hang.DeviceGetName 1", limits=Limits(nvml=2.0))
    assert time.monotonic() - started < 60.0
    assert found.gpus[0].name.known
    assert [gpu.name.absence for gpu in found.gpus[1:]] == [Absence.TIMED_OUT] * 2
    assert found.trouble == ("GPU 1: no answer within 2 s",)


def test_a_library_that_crashes_is_no_crash_of_ours(take: Take) -> None:
    found = take("gpus 2\ncrash.DeviceGetPowerUsage 1")
    assert found.driver.count.value == 2
    assert "SIGABRT" in found.trouble[0]
    assert len(found.gpus) == 2
    assert found.system.cpus.known


def test_the_program_that_asks_is_known_for_itself(take: Take) -> None:
    ours = f"gpus 2\ngpu.used 600\ngpu.0.pid {os.getpid()}\ngpu.1.pid 4194303"
    mine, strange = [gpu.processes.get()[0] for gpu in take(ours).gpus]
    assert mine.ours
    assert not strange.ours
    assert not strange.name.known


def test_older_bindings_answer_in_bytes_and_lack_functions() -> None:
    class OldError(Exception):
        value = 3

    old = SimpleNamespace(NVMLError=OldError, nvmlDeviceGetName=lambda handle: b"Tesla V100")
    nvml = Nvml(old)
    assert nvml.ask("DeviceGetName", 1).value == "Tesla V100"
    missing = nvml.ask("DeviceGetGpuMaxPcieLinkGeneration", 1)
    assert missing.absence is Absence.NOT_INSTALLED
    assert "nvmlDeviceGetGpuMaxPcieLinkGeneration" in missing.why_not


def test_answers_that_the_binding_cannot_read() -> None:
    def garbled(handle: object) -> str:
        return b"\xff\xfe".decode()

    nvml = Nvml(SimpleNamespace(NVMLError=KeyError, nvmlDeviceGetName=garbled))
    assert "cannot read the answer" in nvml.ask("DeviceGetName", 1).why_not
