"""What the probe does on GPUs, executed without any: see `fake_gpus.py` for what that shows, and what it does not."""

import platform

import pytest
from probe.conftest import named

from gpudoctor.probe.results import ProbeReport, Verdict
from tests.support.fake_gpus import Sick
from tests.support.probing import with_gpus

pytestmark = pytest.mark.usefixtures("real_ranks")
CORRECT = (
    "ranks-start",
    "device-arithmetic",
    "collectives",
    "messages",
    "peer-copies",
    "identical-parameters",
    "gradients-match",
    "data-parallel-gradients",
    "data-parallel-primitives",
    "cpu-gpu-split",
    "sync-batchnorm",
    "shards",
    "checkpoint",
    "bandwidth-sweep",
    "training-works",
)


@pytest.fixture(scope="module")
def two(real_ranks: None) -> ProbeReport:
    """Everything, on two sound GPUs."""
    return with_gpus(2, workloads=("linear", "transformer"))


class TestTwoSoundGpus:
    def test_all_that_is_correct_passes(self, two: ProbeReport) -> None:
        assert {name: named(two, name).verdict for name in CORRECT} == dict.fromkeys(CORRECT, Verdict.PASS)
        assert (two.backend, two.device, two.world_size) == ("nccl", "cuda", 2)

    def test_every_set_up_is_timed(self, two: ProbeReport) -> None:
        ways = [("single", 1, "weak"), ("data_parallel", 2, "weak"), ("ddp", 2, "weak")]
        strong = [("ddp", 1, "weak"), ("ddp", 2, "strong")]
        for workload, wanted in (("linear", ways), ("transformer", [*ways, *strong])):
            rows = [row for row in two.steps if row.workload == workload]
            assert sorted((row.strategy, row.world_size, row.scaling) for row in rows) == sorted(wanted)
            assert all(row.meaningful and row.efficiency and row.peak_memory == 1 << 20 for row in rows)
        assert all(
            row.exposed_communication is not None for row in two.steps if (row.strategy, row.world_size) == ("ddp", 2)
        )

    def test_speed_is_judged(self, two: ProbeReport) -> None:
        judged = ("ddp-efficiency", "ddp-strong-efficiency", "exposed-communication")
        assert all(named(two, name).verdict is not Verdict.SKIPPED for name in judged)
        assert all(named(two, name).figure is not None for name in judged)
        assert named(two, "gpus-busy").verdict is Verdict.INCONCLUSIVE
        assert {row.collective for row in two.bandwidth} == {"all_reduce", "all_gather", "reduce_scatter", "broadcast"}
        assert all(row.busbw > 0 and row.meaningful for row in two.bandwidth)
        # 64 KiB are no plateau.
        assert named(two, "bus-bandwidth").verdict is Verdict.SKIPPED


def test_one_gpu_is_shared() -> None:
    report = with_gpus(1, workloads=("transformer",))
    assert (report.backend, report.device, report.world_size) == ("gloo", "cuda", 2)
    alone = ("peer-copies", "data-parallel-gradients", "data-parallel-primitives", "bandwidth-sweep")
    for name in CORRECT:
        assert named(report, name).verdict is (Verdict.SKIPPED if name in alone else Verdict.PASS), name
    assert [(row.strategy, row.meaningful) for row in report.steps] == [("single", True), ("ddp", False)]


SICK = {
    Sick.DAMAGED_COPY: ("peer-copies", "copies between GPUs arrive damaged: cuda:0 to cuda:1"),
    Sick.WRONG_GATHER: ("data-parallel-gradients", "DataParallel on 2 GPUs of node1: other gradients"),
    Sick.LOCAL_STATISTICS: ("sync-batchnorm", "SyncBatchNorm differs from BatchNorm on the whole batch"),
}


@pytest.mark.parametrize("sick", SICK)
def test_a_check_of_gpus_notices(sick: Sick) -> None:
    name, words = SICK[sick]
    report = with_gpus(2, sick, only=(name,))
    assert named(report, name).verdict is Verdict.FAIL
    assert words in named(report, name).reason


LEFT_OUT = {
    Sick.RAISES: "broke `collectives` and was left out of all that follows: rank 1 on {host} raised RuntimeError: CUDA",
    Sick.HANGS: "broke `collectives` and was left out of all that follows: rank 1 on {host} hangs at: all_reduce of 1",
    Sick.NEVER_STARTS: "broke the start of the ranks and was left out of all that follows: rank 1 on {host} raised",
}


@pytest.mark.parametrize("sick", LEFT_OUT)
def test_the_others_go_on_without_a_gpu_that_breaks_a_stage(sick: Sick) -> None:
    only = ("device-arithmetic", "collectives", "shards", "step-linear-ddp-3", "step-linear-ddp-2")
    timeout = 10.0 if sick is Sick.HANGS else 60.0
    report = with_gpus(3, sick, 1, "collectives", only=only, timeout=timeout)
    check = named(report, "gpu-left-out")
    assert check.verdict is Verdict.FAIL
    assert check.reason.startswith(f"GPU 1, GPU-1, {LEFT_OUT[sick].format(host=platform.node())}")
    assert "`export CUDA_VISIBLE_DEVICES=GPU-0,GPU-2`" in check.remedy
    assert (report.world_size, report.backend) == (2, "nccl")
    assert named(report, "ranks-start").reason == "2 ranks are connected over nccl"
    for name in ("device-arithmetic", "collectives", "shards", "training-works"):
        assert named(report, name).verdict is Verdict.PASS, name
    assert [(row.strategy, row.world_size) for row in report.steps] == [("ddp", 2)]


def test_where_all_gpus_fail_none_is_to_blame() -> None:
    report = with_gpus(2, Sick.ALL_RAISE, 1, "collectives", only=("collectives", "shards"))
    assert named(report, "collectives").verdict is Verdict.FAIL
    assert named(report, "shards").verdict is Verdict.PASS
    assert not [check for check in report.checks if check.name == "gpu-left-out"]


def test_memory_that_runs_out_is_no_reason_to_leave_a_gpu_out() -> None:
    report = with_gpus(2, Sick.OUT_OF_MEMORY, 1, "collectives", only=("collectives", "shards"))
    assert named(report, "collectives").verdict is Verdict.INCONCLUSIVE
    assert named(report, "shards").verdict is Verdict.PASS
    assert report.world_size == 2
