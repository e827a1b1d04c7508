"""Verdicts from recordings: machines with 1, 2 and 8 GPUs, healthy and sick. Those that nobody has are made up."""

import json
import re
from pathlib import Path

import pytest

from gpudoctor.probe import check_names
from gpudoctor.probe import measurement_plan as plans
from gpudoctor.probe.check_names import full_name
from gpudoctor.probe.checks import EXAMINATIONS, SWEEP, device_speed, soak
from gpudoctor.probe.checks.check import Seen
from gpudoctor.probe.conclude import concluded
from gpudoctor.probe.journal import RankState
from gpudoctor.probe.report_json import machine_from
from gpudoctor.probe.results import ProbeReport, Verdict
from tests.support.recordings import FOLDER, Recording, recordings, text_of

ROOT = Path(__file__).resolve().parents[2]
# Beside recordings of facts, the folder holds reports that came of such: those have no plan.
_READ = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))}
FILES = {name: found for name, found in _READ.items() if "plan" in found}
ALL: dict[str, Recording] = {**recordings(), **FILES}


def report_of(name: str) -> ProbeReport:
    """What the parent concludes from a recording."""
    found = ALL[name]
    plan = plans.read(json.dumps(found["plan"]))
    machines = tuple(machine_from(each, each["host"]) for each in found["machine"])
    states = {int(rank): RankState(int(rank), done=facts) for rank, facts in found["facts"].items()}
    samples = {uuid: [(at, share) for at, share in every] for uuid, every in found["samples"].items()}
    return concluded(ProbeReport(machines), plan, states, {}, samples)


@pytest.mark.parametrize("name", ALL)
def test_verdicts(name: str) -> None:
    report, found = report_of(name), ALL[name]
    verdicts = {check.name: check.verdict.value for check in report.checks}
    assert {each: verdicts[each] for each in found["expected"]} == found["expected"]
    assert len(verdicts) == len(report.checks)


@pytest.mark.parametrize("name", ALL)
def test_a_bad_verdict_says_why_and_what_to_do(name: str) -> None:
    for check in report_of(name).checks:
        assert check.reason
        assert check.verdict is not Verdict.SKIPPED or check.figure is None, check
        if check.verdict in (Verdict.WARN, Verdict.FAIL):
            assert check.remedy, check
            assert check.figure is None or check.expectation, check


@pytest.mark.parametrize("name", [name for name in ALL if name.startswith("healthy")])
def test_nothing_is_wrong_with_a_healthy_machine(name: str) -> None:
    report = report_of(name)
    assert {check.verdict for check in report.checks} <= {Verdict.PASS, Verdict.SKIPPED}
    assert not report.findings


@pytest.mark.parametrize("name", [name for name in recordings() if name.startswith("healthy")])
def test_made_up_files_are_up_to_date(name: str) -> None:
    assert (FOLDER / f"{name}.json").read_text(encoding="utf-8") == text_of(recordings()[name])


def test_what_is_made_up_is_marked() -> None:
    assert {name for name, found in FILES.items() if found["synthetic"]} == set(recordings()) & set(FILES)


@pytest.mark.parametrize(("slowest", "verdict"), [(100 / 1.13, Verdict.PASS), (100 / 1.15, Verdict.WARN)])
def test_equal_gpus_differ_by_up_to_14_percent(slowest: float, verdict: Verdict) -> None:
    rates = {0: 100.0, 1: slowest}
    seen = Seen(plans.World(("a",) * 2, (0, 1)), {rank: {"tflops": {"float32": each}} for rank, each in rates.items()})
    assert device_speed.judge(seen).verdict is verdict


@pytest.mark.parametrize(("last", "verdict"), [(95.0, Verdict.PASS), (80.0, Verdict.WARN)])
def test_a_gpu_that_becomes_slower_under_load(last: float, verdict: Verdict) -> None:
    warm = [100.0] * 5 + [90.0] * 9 + [last] * 5
    seen = Seen(plans.World(("a",) * 2, (0, 1)), {0: {"tflops": [100.0] * 19}, 1: {"tflops": warm}})
    check = soak.judge(seen)
    assert (check.verdict, check.figure) == (verdict, last / 100)
    assert ("rank 1 on a" in check.reason) == (verdict is Verdict.WARN)


def test_every_check_belongs_somewhere() -> None:
    """Each name that is written down in the code of the probe, and no other one."""
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "gpudoctor" / "probe").rglob("*.py")]
    made = {
        name for text in texts for name in re.findall(r'(?:WeakPoint|Check|passed|failed)\(\s*"([a-z][\w-]+)"', text)
    }
    made |= {each.name for each in (*EXAMINATIONS, SWEEP)} | {"epoch-time"}
    assert not {name for name in made if full_name(name).count("/") != 2}
    written = "\n".join(text for text in texts if "_MEMBERS = {" not in text)
    assert not [name for name in check_names._PLACES if f'"{name}"' not in written]


def test_full_names() -> None:
    assert full_name("device-arithmetic") == "gpu/sanity/device-arithmetic"
    assert full_name("step-linear-ddp-2") == "training/performance/step-linear-ddp-2"
    assert full_name("require ddp-efficiency") == "required/ddp-efficiency"


def test_what_compares_the_rows() -> None:
    report = report_of("healthy_8_gpus")
    rows = {(row.workload, row.strategy, row.world_size, row.scaling): row for row in report.steps}
    whole = rows["transformer", "ddp", 8, "weak"]
    assert whole.efficiency == pytest.approx(0.95, abs=0.01)
    assert whole.speedup == pytest.approx(7.6, abs=0.05)
    assert whole.exposed_communication == pytest.approx(0.03, abs=0.001)
    assert whole.tflops == pytest.approx(200 * 0.95, rel=0.01)
    assert whole.ceiling_tflops == 600.0
    assert len(whole.utilisation) == 8
    assert whole.utilisation[0].mean == 97.0
    assert rows["transformer", "ddp", 8, "strong"].efficiency == pytest.approx(0.95, abs=0.01)


def test_bandwidth_by_the_formulas_of_nccl_tests() -> None:
    report = report_of("healthy_8_gpus")
    for row in report.bandwidth:
        assert row.algbw == pytest.approx(row.bytes / row.seconds / 1e9)
        factor = {"all_reduce": 14 / 8, "broadcast": 1}.get(row.collective, 7 / 8)
        assert row.busbw == pytest.approx(row.algbw * factor)
