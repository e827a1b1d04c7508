"""Taking stock as a whole: processes that ask, what they say, and what the report gets of it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from gpudoctor.plain import from_plain, plain
from gpudoctor.probe.inventory import (
    Limits,
    UtilisationSampler,
    contract,
    stock,
    subprocess_query,
    take_inventory,
    take_stock,
    weak_points,
)
from gpudoctor.probe.inventory.facts import Inventory, Moment
from gpudoctor.probe.inventory.field import Absence, Field, absent, known
from gpudoctor.probe.inventory.findings.judge import weak_points as judged
from gpudoctor.probe.inventory.overview import summary
from gpudoctor.probe.inventory.subprocess_query import Answers, Errand
from gpudoctor.probe.inventory.take import put_together
from gpudoctor.record import replace
from tests.support.inventories import EIGHT_H100

Fleet = Mapping[str, Inventory]


@pytest.fixture(scope="module")
def here() -> Inventory:
    """This machine, torch and all: once, as that takes seconds."""
    return take_inventory()


def test_this_machine(here: Inventory) -> None:
    assert here.system.cpus.value == os.cpu_count()
    assert not here.trouble
    assert here.torch.version.known or here.torch.version.absence is Absence.NOT_INSTALLED
    if here.torch.version.known:
        assert "gloo" in here.torch.backends.get()
    assert from_plain(Inventory, json.loads(json.dumps(plain(here)))) == here


def test_every_inventory_survives_json(fleet: Fleet) -> None:
    for each in fleet.values():
        assert from_plain(Inventory, json.loads(json.dumps(plain(each)))) == each


def test_a_field_in_json_is_its_value_or_says_why() -> None:
    assert plain(known(3)) == 3
    assert plain(absent("nobody knows", Absence.LOST)) == {"not_available": "nobody knows", "kind": "lost"}


def test_newer_and_older_recordings_can_be_read() -> None:
    assert from_plain(Inventory, {"gpus": [{"index": 0, "name": "L4", "of the future": 1}]}).gpus[0].name.value == "L4"


@pytest.mark.slow
def test_nobody_to_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess_query.sys, "executable", "/nonexistent/python")
    found = take_inventory(environment={})
    assert [line.partition(":")[0] for line in found.trouble] == ["nvml", "torch", "system"]
    assert summary(found)


def test_a_part_that_is_too_slow_says_what_it_was_doing() -> None:
    started = time.monotonic()
    found = take_inventory(Limits(torch=0.05, torch_after_hang=0.05))
    assert time.monotonic() - started < 60
    assert any("no answer within 0.05 s" in line for line in found.trouble)
    assert found.torch.version.absence is Absence.TIMED_OUT
    assert found.system.cpus.known


@pytest.mark.slow
def test_modules_of_the_working_directory_are_not_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('the wrong json')")
    monkeypatch.chdir(tmp_path)
    with Errand("system") as sent:
        assert sent.answers(20.0).trouble == ""


def test_half_a_line_of_a_killed_process_is_passed_over() -> None:
    told = (("Driver", {"version": "1", "cuda": "12.0", "count": 2}),)
    found = put_together({"nvml": Answers(told, "GPU 0: ended")}, {}, 0.0)
    assert [gpu.name.why_not for gpu in found.gpus] == ["GPU 0: ended"] * 2


def test_the_report_gets_facts_links_and_weak_points(fleet: Fleet) -> None:
    machine = contract.machine(fleet["four-4090"])
    assert machine.gpus[0].facts["name"].value == "NVIDIA GeForce RTX 4090"
    assert machine.gpus[0].facts["pcie_max_width"].value == 16
    assert machine.gpus[0].facts["ecc"].because == "this GPU or driver does not offer it"
    assert {link.kind.value for link in machine.links} == {"PHB", "SYS"}
    assert {check.name for check in machine.weak} == {"p2p-off", "numa-apart"}
    assert weak_points(machine) == machine.weak
    assert json.dumps(plain(machine))
    for check in machine.weak:
        assert check.reason
        assert check.remedy


def test_visible_gpus_are_told_as_torch_counts_them(fleet: Fleet) -> None:
    eight = fleet["eight-h100"]
    told = [("TorchDevice", {"index": 0, "name": "H100", "uuid": str(eight.gpus[5].uuid)})]
    nvml = [("Gpu", plain(gpu)) for gpu in eight.gpus]
    found = put_together({"nvml": Answers(tuple(nvml)), "torch": Answers(tuple(told))}, {}, 0.0)
    machine = contract.machine(found)
    assert machine.torch["visible_gpus"].value == [eight.gpus[5].uuid.value]
    assert machine.torch["nvml_indices"].value == ["5"]
    assert machine.visible == 1


def test_stock_of_this_machine(here: Inventory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stock, "take_inventory", lambda: here)
    machine = take_stock()
    assert machine.host == here.system.host.value
    assert machine.system["cpus"].value == os.cpu_count()
    assert machine.torch["version"].value == here.torch.version.value
    assert json.dumps(plain(machine))


def test_the_sampler_watches_every_gpu(
    fake_driver: Callable[..., dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in fake_driver(f"{EIGHT_H100}\ngpu.busy 93\ngpu.3.busy 12").items():
        monkeypatch.setenv(name, value)
    uuids = [f"GPU-fa5e{index:04}-0000-0000-0000-000000000000" for index in (0, 3)]
    with UtilisationSampler(uuids) as sampler:
        pass
    assert sampler.why_not == ""
    assert {percent for _, percent in sampler.samples[uuids[0]]} == {93.0}
    assert {percent for _, percent in sampler.samples[uuids[1]]} == {12.0}
    assert abs(sampler.samples[uuids[0]][0][0] - time.time()) < 60
    assert isinstance(sampler.moments[0], Moment)


@pytest.mark.slow
def test_a_sampler_without_a_driver_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with UtilisationSampler([]) as sampler:
        pass
    assert sampler.why_not == "there is no GPU to watch"
    monkeypatch.setattr(subprocess_query.sys, "executable", "/nonexistent/python")
    with UtilisationSampler(["GPU-1"]) as sampler:
        pass
    assert "no process could be started" in sampler.why_not


def test_the_summary_fits_a_screen(fleet: Fleet) -> None:
    for name, each in fleet.items():
        lines = summary(each)
        told = [line for line in lines if not line.startswith("    ->")]
        assert len(lines) <= 30, name
        assert max(map(len, told)) <= 80, name
        assert "None" not in "\n".join(lines), name


def test_the_summary_of_eight_equal_gpus_is_short(fleet: Fleet) -> None:
    lines = summary(fleet["eight-h100"])
    assert "GPUs       8 x NVIDIA H100 80GB HBM3, 79.6 GiB, capability 9.0" in lines
    assert "links      28 pairs: NV18; peer access: ok" in lines
    assert lines[-1] == "No weak point was found."


@pytest.mark.parametrize("absence", [Absence.NOT_INSTALLED, Absence.NO_DRIVER])
def test_a_driver_that_was_not_asked_has_no_weak_points_to_deny(fleet: Fleet, absence: Absence) -> None:
    healthy = fleet["eight-h100"]
    driver = replace(healthy.driver, version=absent("it is not there", absence))
    told = summary(replace(healthy, driver=driver, gpus=(), pairs=()))
    assert not any(line == "No weak point was found." for line in told)


@pytest.mark.parametrize(
    ("count", "models", "told"),
    [
        (known(0), (), "none: the driver was asked, and knows of no GPU"),
        (absent("no library", Absence.NO_DRIVER), (), "none that a program could use: there is no NVIDIA driver"),
        (absent("no library", Absence.NO_DRIVER), ("H100", "H100"), "2 GPUs in this machine (H100), and no driver"),
        (absent("it did not answer", Absence.TIMED_OUT), (), "not known: it did not answer"),
    ],
)
def test_no_gpu_is_told_from_nobody_to_ask(fleet: Fleet, count: Field[int], models: tuple[str, ...], told: str) -> None:
    healthy = fleet["eight-h100"]
    machine = replace(healthy.system, nvidia_models=known(models) if models else absent("nothing in /proc"))
    driver = replace(healthy.driver, count=count)
    found = replace(healthy, driver=driver, system=machine, gpus=(), pairs=(), torch_devices=())
    (line,) = [line for line in summary(found) if line.startswith("GPUs ")]
    assert told in line


_INTERRUPTED = """
import signal
from gpudoctor.probe.inventory import Limits, take_inventory
# What a shell starts in the background ignores it.
signal.signal(signal.SIGINT, signal.default_int_handler)
print("asking", flush=True)
take_inventory(Limits(nvml=60))
"""


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGKILL])
def test_nobody_is_left_behind(fake_driver: Callable[..., dict[str, str]], tmp_path: Path, sign: int) -> None:
    here = {**fake_driver("gpus 1\nhang.DeviceGetName 1"), "PYTHONPATH": os.pathsep.join(sys.path)}
    mark = here["FAKE_NVML"].encode()
    command = [sys.executable, "-c", _INTERRUPTED]
    with subprocess.Popen(command, env=here, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as asker:
        assert asker.stdout.readline() == b"asking\n"
        until(lambda: len(holders(mark)) > 1)
        os.kill(asker.pid, sign)
        asker.wait(120)
    until(lambda: not holders(mark))


def holders(mark: bytes) -> list[str]:
    """The processes with this mark in their environment."""
    return [folder.name for folder in Path("/proc").glob("[0-9]*") if mark in environment_of(folder)]


def environment_of(folder: Path) -> bytes:
    try:
        return (folder / "environ").read_bytes()
    except OSError:
        return b""


def until(true: Callable[[], bool], limit: float = 120.0) -> None:
    """Wait for something to be true, and fail where it never is."""
    started = time.monotonic()
    while not true():
        assert time.monotonic() - started < limit
        time.sleep(0.02)


def test_a_torch_that_hangs_is_told_as_such() -> None:
    found = put_together({"torch": Answers((), "import torch: no answer within 60 s")}, {}, 0.0)
    assert found.torch.version.why_not == "import torch: no answer within 60 s"
    assert [point.name for point in judged(found)] == ["torch-broken"]
    told = (("TorchView", {"version": "2.9", "cuda": "12.8"}),)
    found = put_together({"torch": Answers(told, "torch: whether CUDA starts: no answer within 60 s")}, {}, 0.0)
    assert found.torch.cuda.value == "12.8"
    assert [point.name for point in judged(found)] == ["cuda-hangs"]
