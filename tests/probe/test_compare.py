"""What became of a machine since an earlier probe, and which files are refused as such."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpudoctor.cli.probe_diff import changes
from gpudoctor.errors import UsageError
from gpudoctor.probe.compare import compare
from gpudoctor.probe.report_json import document, rendered
from gpudoctor.probe.report_reader import read_report
from gpudoctor.probe.results import (
    Bandwidth,
    Check,
    Direction,
    Fact,
    Interval,
    ProbedMachine,
    ProbeReport,
    StepResult,
    Verdict,
)
from gpudoctor.record import replace
from gpudoctor.report.text import Style
from tests.tools.make_recordings import FOLDER, NOTE, healthy, made_up, no_gpu, slow_gpu


@pytest.mark.parametrize("name", made_up())
def test_recordings_are_what_the_tool_makes_and_say_so(name: str) -> None:
    report = read_report(str(FOLDER / name))
    assert report == made_up()[name], "run `python tests/tools/make_recordings.py`"
    assert report.notes[0] == NOTE


def test_a_report_is_as_it_was() -> None:
    found = compare(healthy(), healthy())
    assert not found.changes
    assert not found.surroundings
    assert found.same > 30


def test_a_slow_gpu_is_told() -> None:
    found = compare(healthy(), slow_gpu(), "old.json")
    worse = {change.what: change for change in found.of(Direction.WORSE)}
    assert worse["ddp-efficiency"].before == "pass"
    assert worse["ddp-efficiency"].after == "fail"
    assert worse["speed of transformer, ddp x 8"].relative == pytest.approx(-0.437, abs=0.001)
    assert "gpu-throttled" in worse
    assert "speed of transformer, ddp x 4" not in worse
    assert "NCCL_P2P_DISABLE was not set then, is `1` now" in found.surroundings
    assert [change.what for change in found.of(Direction.NEW)] == ["devices-alike"]
    better = compare(slow_gpu(), healthy())
    assert {change.what for change in better.of(Direction.BETTER)} == set(worse)
    assert not better.of(Direction.WORSE)


def test_verdicts_come_first_and_then_what_changed_most() -> None:
    worse = compare(healthy(), slow_gpu()).of(Direction.WORSE)
    kinds = [isinstance(change.after, str) for change in worse]
    assert kinds == sorted(kinds, reverse=True)
    shares = [abs(change.relative or 0) for change in worse if isinstance(change.after, float)]
    assert shares == sorted(shares, reverse=True)


def _one(rate: float, half: float, **more: Any) -> ProbeReport:
    row = StepResult(
        "cifar10", "single", 1, device="cuda", samples_per_second=Interval(rate, rate - half, rate + half, 8), **more
    )
    return ProbeReport(machine=(), steps=(row,), world_size=1, device="cuda")


@pytest.mark.parametrize(
    ("before", "after", "direction"),
    [
        ((100.0, 1.0), (90.0, 1.0), Direction.WORSE),
        ((100.0, 1.0), (110.0, 1.0), Direction.BETTER),
        ((100.0, 6.0), (90.0, 6.0), None),
        ((100.0, 0.1), (99.0, 0.1), None),
        ((100.0, 1e300), (50.0, 0.1), None),
    ],
    ids=["apart below", "apart above", "intervals meet", "less than two runs differ", "one measurement only"],
)
def test_figures_with_an_interval(
    before: tuple[float, float], after: tuple[float, float], direction: Direction | None
) -> None:
    found = compare(_one(*before), _one(*after)).changes
    assert [change.direction for change in found] == ([direction] if direction else [])


def test_models_of_another_size_are_not_compared() -> None:
    found = compare(_one(100.0, 1.0, tflops=10.0), _one(50.0, 1.0, tflops=10.0))
    assert not found.changes
    assert "cifar10, single x 1 is not compared" in found.notes[0]
    assert compare(_one(100.0, 1.0, tflops=10.0), _one(50.0, 1.0, tflops=5.0)).changes


def test_memory_and_shares_have_noise_of_their_own() -> None:
    old = _one(100.0, 1.0, peak_memory=1000, loader_wait=0.01, accuracy=0.70)
    assert not compare(old, _one(100.0, 1.0, peak_memory=1040, loader_wait=0.05, accuracy=0.69)).changes
    found = compare(old, _one(100.0, 1.0, peak_memory=1100, loader_wait=0.09, accuracy=0.60)).changes
    assert [change.direction for change in found] == [Direction.WORSE] * 3


def test_bandwidth_is_compared_at_its_best() -> None:
    def report(*speeds: float) -> ProbeReport:
        rows = [Bandwidth("all_reduce", "float32", 1 << 20 + at, 2, 1.0, each, each) for at, each in enumerate(speeds)]
        return ProbeReport(machine=(), bandwidth=tuple(rows))

    assert not compare(report(3, 10), report(1, 9.6)).changes
    (change,) = compare(report(3, 10), report(3, 9.0)).changes
    assert (change.before, change.after, change.direction) == (10, 9.0, Direction.WORSE)


def test_what_says_nothing_of_speed_is_not_compared() -> None:
    found = compare(healthy(), no_gpu())
    assert not [change for change in found.changes if isinstance(change.after, float)]
    assert found.notes[0].startswith("speed was not compared: on a CPU")


def test_verdicts_that_were_not_judged_are_neither_better_nor_worse() -> None:
    def report(verdict: Verdict) -> ProbeReport:
        return ProbeReport(machine=(), checks=(Check("shards", verdict),))

    ways = {
        (Verdict.PASS, Verdict.INCONCLUSIVE): Direction.OTHER,
        (Verdict.FAIL, Verdict.SKIPPED): Direction.OTHER,
        (Verdict.SKIPPED, Verdict.FAIL): Direction.WORSE,
        (Verdict.WARN, Verdict.PASS): Direction.BETTER,
    }
    for (before, after), direction in ways.items():
        (change,) = compare(report(before), report(after)).changes
        assert change.direction is direction


def test_of_several_weak_points_the_new_one_is_told() -> None:
    def report(*gpus: int) -> ProbeReport:
        weak = tuple(Check("slowed-down", Verdict.WARN, reason=f"GPU {gpu} is slowed down") for gpu in gpus)
        return ProbeReport(machine=(ProbedMachine("host", weak=weak),), checks=weak)

    (change,) = compare(report(5), report(2, 5)).changes
    assert (change.direction, change.because) == (Direction.WORSE, "GPU 2 is slowed down")
    (change,) = compare(report(2, 5), report(5)).changes
    assert (change.direction, change.because) == (Direction.BETTER, "GPU 2 is slowed down")
    assert not compare(report(2), report(5)).of(Direction.NEW)


def test_another_machine_is_said_plainly() -> None:
    old, new = healthy(), healthy()
    node = new.machine[0]
    gpus = tuple(replace(gpu, facts={**gpu.facts, "name": Fact("NVIDIA A100-SXM4-80GB")}) for gpu in node.gpus)
    torch = {**node.torch, "version": Fact("2.15.0")}
    system = {**node.system, "driver_version": Fact("580.1")}
    new = replace(new, machine=(replace(node, host="other", gpus=gpus, torch=torch, system=system),))
    assert list(compare(old, new).surroundings) == [
        "another host: gpu-node-1 then, other now",
        "other GPUs: 8 x NVIDIA H100 80GB HBM3 then, 8 x NVIDIA A100-SXM4-80GB now",
        "the NVIDIA driver: 570.86.15 then, 580.1 now",
        "torch: 2.13.0+cu128 then, 2.15.0 now",
    ]


def test_the_terminal_shows_what_fits() -> None:
    lines = list(changes(compare(healthy(), slow_gpu(), "old.json"), Style()))
    assert lines[0] == "since old.json"
    assert any("ddp-efficiency: pass -> fail" in line for line in lines)
    assert any("more that are worse" in line for line in lines)
    assert all(len(line) <= 80 for line in lines)
    assert "nothing got worse or better" in "\n".join(changes(compare(healthy(), healthy()), Style()))


def test_the_json_holds_the_comparison() -> None:
    report = replace(slow_gpu(), comparison=compare(healthy(), slow_gpu(), "old.json"))
    found = json.loads(rendered(report))["comparison"]
    assert found["against"] == "old.json"
    assert found["changes"][0]["direction"] == "worse"
    assert json.loads(rendered(healthy()))["comparison"] is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"checks": {}}, "is not the output of `gpudoctor probe --output-format json`"),
        ({"version": 7}, "has version 7, this gpudoctor reads 1"),
        (
            {"checks": [{"name": "shards", "verdict": "passed"}]},
            "checks[0].verdict is 'passed', and none of pass, warn",
        ),
        ({"checks": [{"verdict": "pass"}]}, "checks[0] lacks 'name'"),
        ({"checks": ["shards"]}, "checks[0] is 'shards' and not an object"),
        ({"machine": "host"}, "machine is 'host' and not a list"),
        ({"world_size": "8"}, "world_size is '8' and not a whole number"),
        ({"world_size": True}, "world_size is True and not a whole number"),
        ({"steps": [{"workload": 1}]}, "steps[0].workload is 1 and not a text"),
        ({"machine": [{"host": "a", "system": {"os": {"value": {}}}}]}, "machine[0].system.os.value is an object"),
    ],
)
def test_what_is_no_report_is_refused(change: dict[str, Any], said: str, tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    path.write_text(json.dumps({**document(no_gpu()), **change}))
    with pytest.raises(UsageError) as raised:
        read_report(str(path))
    assert str(raised.value).startswith(f"{path}: ")
    assert said in str(raised.value)


@pytest.mark.parametrize("text", ["", "[]", "{}", "not json", "[" * 100_000, "\udcff"])
def test_what_is_no_json_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(UsageError, match=r"old\.json: "):
        read_report(str(path))
    with pytest.raises(UsageError, match="cannot be read"):
        read_report(str(tmp_path / "missing.json"))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory can be limited there")
def test_an_endless_file_is_refused() -> None:
    code = "from gpudoctor import cli; import sys; sys.exit(cli.main(['probe', '--compare', '/dev/zero']))"
    command = f'ulimit -v 1500000; exec "{sys.executable}" -c "{code}"'
    ended = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=600, check=False)
    assert ended.returncode == 2, ended.stderr
    assert "/dev/zero: is larger than 16 MiB" in ended.stderr


def test_what_a_later_version_adds_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    path.write_text(json.dumps({**document(no_gpu()), "weather": "fine"}))
    assert read_report(str(path)) == no_gpu()
