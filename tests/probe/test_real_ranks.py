"""Two gloo ranks on the CPU, for real: everything passes, and every check notices the fault that it is there for."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from probe.conftest import examined, named

from gpudoctor.probe import rounds
from gpudoctor.probe.results import Verdict
from gpudoctor.ranks.process_tree import children, descendants
from tests.support.probe_faults import Fault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpudoctor.probe.results import Report

pytestmark = pytest.mark.usefixtures("real_ranks")

PASSES = (
    "ranks-start",
    "device-arithmetic",
    "collectives",
    "messages",
    "identical-parameters",
    "gradients-match",
    "shards",
    "checkpoint",
    "training-works",
)
# What notices which fault of rank 1; all of them at once, in one run.
NOTICES = {
    Fault.WRONG_SUM: ("collectives", "rank 1 received wrong values"),
    Fault.WRONG_PRODUCT: ("device-arithmetic", "rank 1 computed a product of whole numbers wrongly"),
    Fault.DAMAGED_MESSAGE: ("messages", "rank 0 received damaged messages"),
    Fault.PERTURBED_PARAMETER: ("identical-parameters", "rank 1 and rank 0 hold different parameters after step 1"),
    Fault.UNAVERAGED_GRADIENTS: ("gradients-match", "on rank 1 the gradients of DDP are not those"),
    Fault.OVERLAPPING_SHARDS: ("shards", "belong to no rank's shard"),
    Fault.CHECKPOINT_DAMAGED: ("checkpoint", "rank 1 read other parameters than were written"),
}
ALONE = {
    Fault.EPOCH_IGNORED: ("shards", "sees the same order in epochs 0 and 1"),
    Fault.CHECKPOINT_TWICE: ("checkpoint", "more than one file was written"),
    Fault.NO_LEARNING: ("training-works", "linear with ddp on 2"),
}


class TestHealthy:
    def test_all_that_applies_passes(self, healthy: dict[str, Any]) -> None:
        verdicts = {check["name"]: check["verdict"] for check in healthy["checks"]}
        assert {name: verdicts[name] for name in PASSES} == dict.fromkeys(PASSES, "pass")
        assert set(verdicts.values()) <= {"pass", "warn", "skipped"}

    def test_speed_is_not_judged(self, healthy: dict[str, Any]) -> None:
        (check,) = [check for check in healthy["checks"] if check["name"] == "ddp-efficiency"]
        assert (check["verdict"], check["reason"]) == ("skipped", "speed is not judged on a CPU")
        assert not any(step["meaningful"] for step in healthy["steps"])
        assert not any(row["meaningful"] for row in healthy["bandwidth"])
        assert "not how fast it is" in healthy["notes"][0]

    def test_every_workload_trains_alone_and_with_ddp(self, healthy: dict[str, Any]) -> None:
        trained = {(step["workload"], step["strategy"], step["world_size"]) for step in healthy["steps"]}
        wanted = {("linear", "cifar10", "transformer")[i] for i in range(3)}
        assert trained == {(name, *how) for name in wanted for how in (("single", 1), ("ddp", 2))}
        for step in healthy["steps"]:
            assert step["last_loss"] < step["first_loss"]
            rate = step["samples_per_second"]
            assert rate["low"] <= rate["mean"] <= rate["high"]

    def test_it_is_over_soon(self, healthy: dict[str, Any]) -> None:
        # The aim is 15 s on two cores of their own; others may be at work on them here.
        assert healthy["seconds"] < 120

    def test_document(self, healthy: dict[str, Any]) -> None:
        assert {"checks", "machine", "steps", "bandwidth", "findings", "schema_version"} <= healthy.keys()
        fields = {"name", "verdict", "figure", "unit", "expectation", "source", "reason", "remedy"}
        assert all(fields <= check.keys() for check in healthy["checks"])


@pytest.fixture(scope="module")
def sick(repository: Path) -> Iterator[Report]:
    """One run whose rank 1 does everything wrong that can go wrong without ending it."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        only = tuple(name for name, _ in NOTICES.values())
        yield examined(monkeypatch, repository, tuple(NOTICES), "", 60.0, only)


@pytest.mark.parametrize("fault", NOTICES)
def test_a_check_notices(fault: Fault, sick: Report) -> None:
    name, words = NOTICES[fault]
    check = named(sick, name)
    assert check.verdict is Verdict.FAIL
    assert words in check.reason
    assert check.remedy


@pytest.mark.parametrize("fault", ALONE)
def test_a_check_notices_alone(fault: Fault, run_with: Callable[..., Report]) -> None:
    name, words = ALONE[fault]
    report = run_with(fault, only=("step-linear-ddp-2" if name == "training-works" else name,))
    assert named(report, name).verdict is Verdict.FAIL
    assert words in named(report, name).reason


STAGE = "collectives"
ENDS = {
    Fault.RAISES: "rank 1 on {host} raised ValueError: an injected fault",
    Fault.KILLED: "rank 1 on {host} was killed (SIGKILL), about to do: ",
    Fault.EXITS: "rank 1 on {host} ended with exit code 7",
    Fault.STOPPED: "was stopped by a signal, and the others waited 4 s for it",
    Fault.HANGS: "rank 1 on {host} hangs at: all_reduce of 1 float32 (faults.py:",
}


@pytest.mark.parametrize("fault", ENDS)
def test_a_rank_that_ends_a_stage_is_named(fault: Fault, run_with: Callable[..., Report]) -> None:
    before = set(children(os.getpid()))
    folders = set(Path("/tmp").glob("gpudoctor-probe-*"))
    report = run_with(fault, stage=STAGE, timeout=4.0)
    check = named(report, STAGE)
    assert check.verdict is Verdict.FAIL
    assert ENDS[fault].format(host=platform.node()) in check.reason
    assert check.remedy
    assert not set(children(os.getpid())) - before
    assert not [pid for pid in descendants(os.getpid()) if pid not in before]
    assert set(Path("/tmp").glob("gpudoctor-probe-*")) <= folders


def test_the_rest_is_examined_after_a_stage_broke(run_with: Callable[..., Report]) -> None:
    report = run_with(Fault.MISMATCHED_SHAPES, stage=STAGE, timeout=6.0, only=(STAGE, "shards"))
    assert named(report, STAGE).verdict is Verdict.FAIL
    assert named(report, "shards").verdict is Verdict.PASS


def test_out_of_memory_is_no_verdict_on_the_machine(run_with: Callable[..., Report]) -> None:
    report = run_with(Fault.OUT_OF_MEMORY, stage=STAGE)
    assert named(report, STAGE).verdict is Verdict.INCONCLUSIVE
    assert "ran out of memory" in named(report, STAGE).reason


def test_a_slow_rank_is_waited_for(run_with: Callable[..., Report]) -> None:
    report = run_with(Fault.SLOW, stage="identical-parameters")
    assert named(report, "identical-parameters").verdict is Verdict.PASS


def test_fully_sharded_training_works(run_with: Callable[..., Report]) -> None:
    report = run_with(Fault.SLOW, stage="none", only=("step-transformer-fsdp2-2",), strategies=("fsdp2",))
    assert named(report, "training-works").verdict is Verdict.PASS
    assert [(step.strategy, step.world_size) for step in report.steps] == [("fsdp2", 2)]


def test_a_transport_that_hangs_is_found_by_leaving_it_out(
    run_with: Callable[..., Report], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "EXPERIMENTS", {"gloo": {"GPUDOCTOR_TEST_WITHOUT": "it is broken"}})
    check = named(run_with(Fault.STUCK, stage=STAGE, timeout=4.0), STAGE)
    assert check.verdict is Verdict.FAIL
    assert "all ranks hang at: all_reduce of 1 float32" in check.reason
    assert check.reason.endswith("it works with GPUDOCTOR_TEST_WITHOUT=1")
    assert check.remedy.startswith("it is broken; until then, `export GPUDOCTOR_TEST_WITHOUT=1` works")
