"""The look at a machine's GPUs, as far as it can be shown without one; and what was recorded where there are some."""

import copy
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.on_gpu.assumptions import FAILS, HOLDS, NOT_SEEN, compared
from tests.on_gpu.cuda_errors import PROGRAMS
from tests.tools.on_gpu import NO_GPU, PARTS, examined, facts_of, summary

ROOT = Path(__file__).parents[1]
RECORDED = sorted((ROOT / "fixtures" / "recordings" / "on_gpu").glob("*.json"))
TEXTS = {
    "GPU201": "RuntimeError: Expected all tensors to be on the same device, but got mat1 is on cpu",
    "GPU202": "RuntimeError: Input type (torch.cuda.HalfTensor) and weight type (torch.HalfTensor) should be the same",
    "GPU204": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
    "GPU205": "torch.AcceleratorError: CUDA error: invalid device ordinal",
    "GPU207": "ValueError: DistributedDataParallel device_ids and output_device arguments only work with single-device",
    "GPU208": "ValueError: device_ids can only be None or contain a single element.",
    "GPU209": "RuntimeError: Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False.",
    "GPU210": "RuntimeError: No CUDA GPUs are available",
    "GPU213": "RuntimeError: Expected all tensors to be on the same device",
    "GPU215": "RuntimeError: Expected all tensors to be on the same device",
    "GPU216": "RuntimeError: Cannot re-initialize CUDA in forked subprocess.",
    "GPU510": "RuntimeError: No backend type associated with device type cpu",
    "": "torch.AcceleratorError: CUDA error: device-side assert triggered",
}
"""What texts are written down for; nobody has seen CUDA print them here."""
OPEN = {"name": "all_reduce", "number": 4, "done": False}
PASS = {"name": "shards", "verdict": "pass"}
STEP = {"tflops": 400.0, "ceiling_tflops": 600.0}
TIMING = {"overhead": 0.004, "host_to_device_seconds": 0.001}
WATCHED = {
    "report": {"findings": [{"code": "GPU801"}], "faults": [], "timing": [TIMING]},
    "profile": {"steps": 64, "copies": {"Memcpy HtoD (Pageable -> Device)": {"gpu": 0.06}}},
}


def made_up() -> dict[str, dict[str, Any]]:
    """A machine with two GPUs that is as gpudoctor takes it to be. No figure was measured."""
    errors = {
        name: {"status": 1, "rules": list(each.rules), "text": TEXTS[(each.rules or ("",))[0]]}
        for name, each in PROGRAMS.items()
    }
    costs = {code: {"with_it": 3.0, "without": 1.0} for code in ("GPU801", "GPU803", "GPU805", "GPU318", "pinned")}
    verdict = {"kind": "kernel stuck", "ranks": []}
    return {
        "machine": {
            "inventory": {"gpus": [{"uuid": "GPU-1"}], "torch_devices": [{"uuid": "GPU-1"}]},
            "fields": {"missing": ["gpu.nvlink: not-offered, it has none"]},
            "weak points": {"names": []},
            "at work": {"busiest": {"GPU-1": 99.0}, "moments": [{"slowed_by": []}]},
        },
        "cuda_errors": errors,
        "nccl": {
            "recorder, ended": {"entries": [{**OPEN, "done": True}]},
            "recorder, open": {"entries": [OPEN]},
            "watchdog": {"text": "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2"},
            "ras": {"answer": "NCCL version 2.28.9", "read": []},
        },
        "speed": {
            "products": {"tflops": {"float32": 50.0, "bfloat16": 600.0}},
            "copies": {"gigabytes_per_second": {"pinned to gpu": 55.0, "pageable to gpu": 12.0}},
            "repeats": {"differ": {"float32": 0, "bfloat16": 0}},
            "transformer": {"peak": 30, "free": 80, "estimated": 25},
        },
        "costs": {**costs, "GPU804": {"with_it": 1.0, "without": 9.0}},
        "watched": {"pageable": WATCHED, "pinned": WATCHED, "stuck": {"verdict": verdict}},
        "missing_rank": {
            "missing": {"hang_verdict": {"kind": "rank missing", "ranks": [1]}},
            "ras": {"answer": "{}", "read": [{"rank": 1, "calls": 1, "most": 2}]},
        },
        "probed": {"probe": {"report": {"checks": [PASS], "steps": [STEP]}}, "shared": {"report": {"checks": [PASS]}}},
    }


def states(facts: dict[str, dict[str, Any]]) -> dict[str, str]:
    return {each.says: each.state for each in compared(facts)}


def test_each_assumption_can_hold() -> None:
    found = states(made_up())
    assert {says: state for says, state in found.items() if state != HOLDS} == {}


def test_nothing_is_concluded_from_nothing() -> None:
    assert set(states({}).values()) == {NOT_SEEN}


WRONG: dict[str, tuple[str, ...]] = {
    "NVML's UUIDs begin with GPU-": ("machine", "inventory", "gpus"),
    "utilisation is seen while the GPU works": ("machine", "at work", "busiest", "GPU-1"),
    "bfloat16 multiplies faster than float32": ("speed", "products", "tflops", "float32"),
    "a product repeats bit by bit": ("speed", "repeats", "differ", "bfloat16"),
    "GPU804: a clock that is read at once shows less than half": ("costs", "GPU804", "with_it"),
    "one that waits is told as open": ("nccl", "recorder, open", "entries"),
    "the watchdog writes what it is known for": ("nccl", "watchdog", "text"),
    "RAS answers at its address": ("nccl", "ras"),
    "its answer is read: nobody is behind": ("nccl", "ras", "read"),
    "RAS tells the rank that has not called": ("missing_rank", "ras"),
    "the time of copies is the profiler's": ("watched", "pageable", "profile", "steps"),
    "a kernel that is stuck is told as one": ("watched", "stuck", "verdict"),
    "a rank that is missing is named": ("missing_rank", "missing", "hang_verdict", "ranks"),
    "a healthy machine passes the probe": ("probed", "probe", "report", "checks"),
    "so do two ranks on one GPU": ("probed", "shared", "report", "checks"),
    "the error of `no such GPU` is explained, by GPU205": ("cuda_errors", "no such GPU", "text"),
}
"""What is changed, so that this does not hold."""
INSTEAD: dict[str, Any] = {
    "gpus": [{"uuid": "MIG-1"}],
    "GPU-1": 0.0,
    "float32": 600.0,
    "bfloat16": 3,
    "with_it": 9.0,
    "entries": [{**OPEN, "done": True}],
    "text": "something else",
    "ras": {"error": "ConnectionRefusedError"},
    "read": [{"rank": 0}],
    "steps": 640,
    "verdict": {"kind": "rank missing"},
    "ranks": [0],
    "checks": [{"name": "shards", "verdict": "fail", "reason": "they overlap"}],
}


@pytest.mark.parametrize("says", WRONG)
def test_each_assumption_can_fail(says: str) -> None:
    facts = copy.deepcopy(made_up())
    *path, last = WRONG[says]
    holder: Any = facts
    for name in path:
        holder = holder[name]
    holder[last] = INSTEAD[last]
    assert states(facts)[says] == FAILS


def test_what_was_recorded_is_as_the_code_takes_it() -> None:
    """Also what was recorded with an earlier version of the code: rules, texts and thresholds change."""
    documents = [json.loads(path.read_text(encoding="utf-8")) for path in RECORDED]
    survey = {"gpus": 2, "names": ["made up"]}
    parts = [{"name": name, "facts": facts} for name, facts in made_up().items()]
    for document in (*documents, {"survey": survey, "parts": parts}):
        known = set(document.get("known_failures", ()))
        failing = {each.says: each.seen for each in compared(facts_of(document)) if each.state == FAILS}
        assert failing.keys() == known, document["survey"]["names"]


def test_it_runs_to_its_end_without_a_gpu(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "tests" / "tools" / "on_gpu.py"), str(tmp_path)]
    ended = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    document = json.loads((tmp_path / "on_gpu.json").read_text())
    assert {part["name"]: part["ended"] for part in document["parts"]} == dict.fromkeys(PARTS, NO_GPU)
    assert {each["state"] for each in document["assumptions"]} == {NOT_SEEN}
    page = (tmp_path / "on_gpu.html").read_text()
    assert page.count(NO_GPU) >= len(PARTS)
    assert "http" not in page


def test_a_part_that_fails_does_not_keep_the_others_from_going_on() -> None:
    survey = {"torch": "2", "gpus": 1, "names": ["none, really"]}
    # There is no GPU, so that this one fails; that one takes two; and for the last one there is no time.
    failed, refused = examined(survey, ["nccl", "missing_rank"], time.monotonic() + 200)
    assert failed["ended"].startswith("failed: ")
    assert refused["ended"] == f"{NO_GPU} besides the first: this takes 2"
    assert examined(survey, ["speed"], time.monotonic())[0]["ended"] == "left out: the time is over"


def test_what_no_time_is_left_for_is_said() -> None:
    survey = {"torch": "2", "gpus": 0, "names": []}
    (part,) = examined(survey, ["costs"], time.monotonic() + 6, rehearse=True)
    assert part["ended"].endswith("; left out: GPU801, GPU803, GPU804, GPU805, GPU318, pinned memory")


def test_a_part_that_a_cpu_can_show_nothing_of_is_not_called_rehearsed() -> None:
    survey = {"torch": "2", "gpus": 0, "names": []}
    (part,) = examined(survey, ["nccl"], time.monotonic() + 200, rehearse=True)
    assert part["ended"] == f"{NO_GPU}, and nothing of it can be rehearsed without one"


@pytest.mark.parametrize(
    ("torch", "cuda", "why"),
    [(None, None, "there is no torch"), ("2.13.0+cpu", None, "without CUDA"), ("2.13.0", "12.8", "env --gpus")],
)
def test_why_there_is_no_gpu_is_told(torch: str | None, cuda: str | None, why: str) -> None:
    survey = {"torch": torch, "cuda": cuda, "gpus": 0, "names": []}
    assert why in summary({"survey": survey, "assumptions": []})
