"""What only a GPU can show; skipped where there is none."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def count() -> int:
    """The GPUs that torch can use. Asked here, so that only the worker that runs this file loads torch."""
    torch = pytest.importorskip("torch")
    return int(torch.cuda.device_count())


@pytest.fixture(scope="module")
def document(repository: Path, count: int) -> dict[str, Any]:
    if count == 0:
        pytest.skip("this machine has no GPU that torch can use")
    path = os.pathsep.join([str(repository), str(repository / "rules")])
    command = [sys.executable, "-m", "gpudoctor", "probe", "--quick", "--output-format", "json"]
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=600, env={**os.environ, "PYTHONPATH": path}, check=False
    )
    assert ended.returncode in (0, 1), ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def test_correctness_passes(document: dict[str, Any]) -> None:
    correct = ("device-arithmetic", "collectives", "identical-parameters", "gradients-match", "cpu-gpu-split")
    verdicts = {check["name"]: (check["verdict"], check["reason"]) for check in document["checks"]}
    assert {name: verdicts[name] for name in correct if verdicts[name][0] != "pass"} == {}
    assert verdicts["sync-batchnorm"][0] == verdicts["training-works"][0] == "pass"


def test_every_gpu_is_seen_at_work(document: dict[str, Any]) -> None:
    alone = [step for step in document["steps"] if step["strategy"] == "single"]
    assert all(step["meaningful"] for step in alone)
    assert all(step["peak_memory"] for step in alone)
    transformer = next(step for step in alone if step["workload"] == "transformer")
    assert 0 < transformer["tflops"] <= 1.05 * transformer["ceiling_tflops"]


def test_several_gpus(document: dict[str, Any], count: int) -> None:
    if count < 2:
        pytest.skip("this machine has no second GPU")
    assert (document["backend"], document["world_size"]) == ("nccl", count)
    verdicts = {check["name"]: check["verdict"] for check in document["checks"]}
    assert verdicts["peer-copies"] == verdicts["data-parallel-gradients"] == "pass"
    assert verdicts["data-parallel-primitives"] == "pass"
    assert all(row["busbw"] > 0 for row in document["bandwidth"])
