"""The parts of a probe that need no ranks: blame, gates, figures, the plan, the sizes, the documents."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from gpudoctor.errors import UsageError
from gpudoctor.plain import plain
from gpudoctor.probe import measurement_plan as plans
from gpudoctor.probe.checks.bandwidth import factor, message_sizes
from gpudoctor.probe.gates import gated, read_gate
from gpudoctor.probe.journal import RankState
from gpudoctor.probe.launch import overdue
from gpudoctor.probe.measure import interval, worst
from gpudoctor.probe.measurement_plan import MeasurementPlan, World, world_sizes
from gpudoctor.probe.options import Wishes, plan_for
from gpudoctor.probe.reference_step import trials_of
from gpudoctor.probe.report_json import document, machine_from, read_document, rendered
from gpudoctor.probe.results import Check, Fact, Link, ProbedGpu, ProbedMachine, ProbedVariable, ProbeReport, Verdict
from gpudoctor.probe.root_cause import innermost, verdict_of
from gpudoctor.probe.stages import START, stages_of
from gpudoctor.probe.workloads import reference
from gpudoctor.probe.workloads.transformer import SHARE, SIZES, size_for

GIB = 1 << 30
STACK = """Thread 0x00007f (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 327 in wait

Current thread 0x00007e (most recent call first):
  File "/x/torch/distributed/distributed_c10d.py", line 3252 in all_reduce
  File "/x/gpudoctor/probe/rank_process.py", line 64 in _attempt
"""


def _state(rank: int, **rest: Any) -> RankState:
    return RankState(**{"rank": rank, "pid": 100 + rank, "host": "n1", "process": "running", "stage": "s", **rest})


def _blame(*states: RankState, backend: str = "gloo") -> Check:
    return verdict_of("s", {state.rank: state for state in states}, backend=backend, limit=20.0)


def _error(message: str, kind: str = "RuntimeError") -> dict[str, str]:
    return {"stage": "s", "kind": kind, "message": message, "traceback": "..."}


class TestBlame:
    def test_the_one_that_is_behind(self) -> None:
        check = _blame(_state(0, inside=True, marks=3, mark="c"), _state(1, inside=True, marks=2, mark="b"))
        assert check.reason == "rank 1 on n1 hangs at: b, while rank 0 waits for it (20 s)"
        assert check.remedy.endswith("`--timeout 80` gives the ranks more time")

    def test_a_gpu_is_to_blame_only_where_each_rank_has_its_own(self) -> None:
        states = (_state(0, inside=True, marks=3, mark="c"), _state(1, inside=True, marks=2, mark="b"))
        assert "CUDA_VISIBLE_DEVICES" in _blame(*states, backend="nccl").remedy

    def test_the_one_that_does_something_else(self) -> None:
        sleeping = STACK.replace("torch/distributed/distributed_c10d.py", "other.py").replace("all_reduce", "nap")
        waiting = {"inside": True, "marks": 1, "mark": "b"}
        check = _blame(_state(0, stack=STACK, **waiting), _state(1, stack=sleeping, **waiting))
        assert check.reason.startswith("rank 1 on n1 hangs at: b (other.py:3252 in nap), while rank 0 waits")

    def test_all_in_the_same_collective(self) -> None:
        same = {"inside": True, "marks": 1, "mark": "all_reduce", "stack": STACK}
        check = _blame(_state(0, **same), _state(1, **same), backend="nccl")
        assert "all ranks hang at: all_reduce (distributed_c10d.py:3252 in all_reduce)" in check.reason
        assert "NCCL_P2P_DISABLE=1" in check.remedy

    def test_one_never_came(self) -> None:
        check = _blame(_state(0, marks=1), _state(1, pid=0, process="unknown"))
        assert check.reason == "rank 1 never started, and the others waited 20 s for it"

    def test_a_kill_before_what_follows_from_it(self) -> None:
        consequence = _error("Connection closed by peer [127.0.0.1]")
        check = _blame(_state(0, error=consequence, error_at=2.0), _state(1, process="gone", exit_code=-9))
        assert check.reason == "rank 1 on n1 was killed (SIGKILL)"
        assert "dmesg" in check.remedy

    def test_an_error_before_the_launcher_ends_the_rest(self) -> None:
        check = _blame(
            _state(0, error=_error("no kernel image is available")), _state(1, process="gone", exit_code=-15)
        )
        assert check.reason == "rank 0 on n1 raised RuntimeError: no kernel image is available"
        assert "get_arch_list" in check.remedy

    def test_the_first_error(self) -> None:
        early, late = _error("first"), _error("second")
        check = _blame(_state(0, error=late, error_at=2.0), _state(1, error=early, error_at=1.0))
        assert "first" in check.reason

    @pytest.mark.parametrize(
        ("code", "words"),
        [(-7, "/dev/shm is full"), (-11, "SIGSEGV"), (3, "exit code 3"), (None, "without a word"), (-64, "died of ")],
    )
    def test_how_it_ended(self, code: int | None, words: str) -> None:
        check = _blame(_state(0), _state(1, process="gone", exit_code=code))
        assert words in f"{check.reason} {check.remedy}"

    @pytest.mark.parametrize(
        "message", ["CUDA out of memory. Tried to allocate", "DefaultCPUAllocator: can't allocate"]
    )
    def test_memory_is_no_verdict(self, message: str) -> None:
        assert _blame(_state(0, error=_error(message)), _state(1)).verdict is Verdict.INCONCLUSIVE

    def test_innermost_frame_of_the_thread_that_works(self) -> None:
        assert innermost(STACK) == "distributed_c10d.py:3252 in all_reduce"
        assert innermost("") == ""


class TestOverdue:
    LIMITS = {START: 90.0, "s": 10.0}  # noqa: RUF012

    @pytest.mark.parametrize(
        ("states", "late"),
        [
            ([_state(0, inside=True, began=-5.0)], ""),
            ([_state(0, inside=True, began=-11.0), _state(1, inside=True, began=-1.0)], "s"),
            ([_state(0, pid=0)], ""),
            ([_state(0, began=-100.0)], ""),
            ([_state(0, began=-200.0)], "s"),
            ([_state(0, began=-200.0, over=True)], ""),
        ],
    )
    def test_stage(self, states: list[RankState], late: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("gpudoctor.probe.launch.time.time", lambda: 0.0)
        assert overdue({state.rank: state for state in states}, self.LIMITS, 0.0) == late

    def test_start(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("gpudoctor.probe.launch.time.time", lambda: 91.0)
        assert overdue({0: _state(0, pid=0)}, self.LIMITS, 0.0) == START


class TestGates:
    CHECK = Check("ddp-efficiency", Verdict.WARN, 0.85, "of linear", remedy="do this")

    @pytest.mark.parametrize(
        ("text", "verdict"),
        [
            ("ddp-efficiency>=0.8", Verdict.PASS),
            ("ddp-efficiency >= 80%", Verdict.PASS),
            ("ddp-efficiency>0.85", Verdict.FAIL),
            ("ddp-efficiency<=0.85", Verdict.PASS),
            ("ddp-efficiency<1e-1", Verdict.FAIL),
            ("bus-bandwidth>=1", Verdict.FAIL),
        ],
    )
    def test_figure(self, text: str, verdict: Verdict) -> None:
        (check,) = gated([read_gate(text)], [self.CHECK])
        assert check.verdict is verdict

    @pytest.mark.parametrize("verdict", [Verdict.SKIPPED, Verdict.INCONCLUSIVE])
    def test_what_was_not_judged_is_not_met(self, verdict: Verdict) -> None:
        unsure = Check("ddp-efficiency", verdict, 0.99, reason="too noisy")
        (check,) = gated([read_gate("ddp-efficiency>=0.8")], [unsure])
        assert check.verdict is Verdict.FAIL
        assert "too noisy" in check.reason

    @pytest.mark.parametrize("text", ["", "x", "ddp-efficiency", "ddp-efficiency>=", "ddp-efficiency>=1.2.3", "x>=1"])
    def test_wrong_use(self, text: str) -> None:
        with pytest.raises(UsageError, match="--require"):
            read_gate(text)


class TestFigures:
    def test_interval(self) -> None:
        found = interval([9.0, 10.0, 11.0])
        # Student's t for two degrees of freedom is 4.303.
        assert found.high - found.mean == pytest.approx(4.303 / math.sqrt(3))
        assert interval([]) is None
        alone = interval([5.0])
        assert alone.spread > 1e200

    def test_no_interval_goes_below_nothing(self) -> None:
        wide = interval([1.0, 100.0])
        assert wide.low == 0.0
        assert wide.spread == pytest.approx(12.706 * 99 / 2 / 50.5)

    def test_more_measurements_are_surer(self) -> None:
        few, many = interval([1.0, 2.0] * 3), interval([1.0, 2.0] * 30)
        assert few is not None
        assert few.spread > many.spread

    def test_worst(self) -> None:
        assert worst([1.0, 3.0, 2.0]) == 3.0
        assert math.isnan(worst([1.0, math.nan, 2.0]))

    def test_factors_of_nccl_tests(self) -> None:
        assert [factor(name, 8) for name in ("all_reduce", "all_gather", "reduce_scatter", "broadcast")] == [
            1.75,
            0.875,
            0.875,
            1.0,
        ]
        assert factor("all_reduce", 2) == 1.0
        assert factor("all_reduce", 1) == factor("broadcast", 1) == 0.0

    def test_message_sizes_hold_a_bucket_of_ddp(self) -> None:
        assert 25 << 20 in message_sizes(1 << 28)
        assert message_sizes(1 << 20)[-1] == 1 << 20


class TestTransformer:
    @pytest.mark.parametrize(
        "free", [None, 0, GIB // 2, 2 * GIB, 8 * GIB, 16 * GIB, 24 * GIB, 40 * GIB, 80 * GIB, 141 * GIB]
    )
    def test_it_fits(self, free: int | None) -> None:
        size = size_for(free)
        assert size is SIZES[0] or size.bytes <= SHARE * (free or 0)

    def test_more_memory_is_never_a_smaller_model(self) -> None:
        assert [size.bytes for size in SIZES] == sorted(size.bytes for size in SIZES)
        assert size_for(80 * GIB) is not size_for(8 * GIB)


class TestPlan:
    @pytest.mark.parametrize(
        ("largest", "sizes"), [(1, (1,)), (2, (1, 2)), (4, (1, 2, 4)), (6, (1, 2, 4, 6)), (8, (1, 2, 4, 8))]
    )
    def test_world_sizes(self, largest: int, sizes: tuple[int, ...]) -> None:
        assert world_sizes(largest) == sizes

    @pytest.mark.parametrize(
        ("gpus", "ranks", "expected"),
        [
            (0, None, (2, "gloo", "cpu", False)),
            (0, 4, (4, "gloo", "cpu", False)),
            (1, None, (2, "gloo", "cuda", True)),
            (1, 1, (1, "nccl", "cuda", False)),
            (8, None, (8, "nccl", "cuda", False)),
            (8, 2, (2, "nccl", "cuda", False)),
            (2, 4, (4, "gloo", "cuda", True)),
        ],
    )
    def test_who_takes_part(self, gpus: int, ranks: int | None, expected: tuple[Any, ...]) -> None:
        machine = ProbedMachine("n1", torch={"visible_gpus": Fact([f"GPU-{index}" for index in range(gpus)])})
        world = plan_for(machine, Wishes(ranks=ranks)).world
        assert (world.size, world.backend, world.device, world.shared) == expected

    def test_it_travels_as_text(self) -> None:
        plan = MeasurementPlan(World(("a", "b"), (0, 0), "nccl", "cuda"), data="/data", only=("shards",))
        assert plans.read(plans.written(plan)) == plan

    def test_the_time_for_eight_gpus_is_planned(self) -> None:
        plan = MeasurementPlan(World(("a",) * 8, tuple(range(8)), "nccl", "cuda"))
        pace = plan.pace
        trials = list(trials_of(plan))
        # Without communication, DDP is measured a second time; warm-up and making the model take about as long again.
        planned = sum(2 * pace.blocks * pace.block_seconds for _ in trials) + pace.use_seconds
        assert planned < 45
        assert sum(trial.shows_use for trial in trials) == 1
        assert len(stages_of(plan)) < 35

    def test_one_rank_has_a_shared_gpu_to_itself(self) -> None:
        plan = MeasurementPlan(World(("a", "a"), (0, 1), "gloo", "cuda", shared=True))
        assert plan.pace_of("single") == plans.PACES["normal"]
        assert plan.pace_of("ddp") == plans.ON_CPU
        (shown,) = [trial for trial in trials_of(plan) if trial.shows_use]
        assert (shown.workload, shown.strategy) == ("transformer", "single")


class TestDocument:
    MACHINE = ProbedMachine(
        "n1",
        (ProbedGpu(0, "GPU-0", {"name": Fact("H100"), "ecc": Fact(None, "not available, because the GPU has none")}),),
        (Link("GPU-0", "GPU-1", Fact("NV18"), Fact("ok")),),
        {"cpus": Fact(8)},
        {"visible_gpus": Fact(["GPU-0"])},
        (ProbedVariable("NCCL_DEBUG", "INFO", "NCCL talks"),),
        (Check("driver-old", Verdict.WARN, 1.0),),
    )

    def test_a_machine_comes_back(self) -> None:
        found = machine_from(json.loads(json.dumps(plain(self.MACHINE))), "n2")
        assert plain(found) == plain(
            ProbedMachine(
                "n2",
                self.MACHINE.gpus,
                self.MACHINE.links,
                self.MACHINE.system,
                self.MACHINE.torch,
                self.MACHINE.environment,
                (Check("driver-old", Verdict.WARN, 1.0, node="n2"),),
            )
        )

    def test_findings_are_what_warns_or_fails(self) -> None:
        checks = [Check(verdict.value, verdict, reason="r", remedy="do") for verdict in Verdict]
        found = document(ProbeReport((self.MACHINE,), tuple(checks)))
        assert [(each["name"], each["severity"]) for each in found["findings"]] == [
            ("warn", "warning"),
            ("fail", "error"),
        ]

    def test_what_is_no_number_is_null(self) -> None:
        text = rendered(ProbeReport((), (Check("x", Verdict.FAIL, math.nan),)))
        assert json.loads(text)["checks"][0]["figure"] is None

    def test_an_old_document_is_read(self, tmp_path: Path) -> None:
        file = tmp_path / "old.json"
        file.write_text(rendered(ProbeReport((self.MACHINE,))))
        assert read_document(str(file))["machine"][0]["host"] == "n1"

    @pytest.mark.parametrize("text", ["", "[]", "{}", '{"checks": [], "version": 99}'])
    def test_what_is_no_document(self, text: str, tmp_path: Path) -> None:
        (tmp_path / "x.json").write_text(text)
        with pytest.raises(UsageError, match=r"x\.json"):
            read_document(str(tmp_path / "x.json"))
        with pytest.raises(UsageError, match="cannot be read"):
            read_document(str(tmp_path / "none.json"))


@pytest.mark.slow
def test_a_gradient_that_is_no_number_is_farther_than_any() -> None:
    """`max` of a number and NaN is the number, where that stands first."""
    torch = pytest.importorskip("torch")
    good, bad = torch.ones(2), torch.tensor([1.0, math.nan])
    assert reference.farthest([good, good], [good, good]) == 0.0
    assert math.isnan(reference.farthest([good, bad], [good, good]))
    assert math.isnan(reference.farthest([bad, good], [good, good]))
