"""What programs do with PyTorch besides a plain loop: watched, they compute the same and nothing is found in them."""

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from gpudoctor.ranks.loopback import free_port
from tests.support import warm
from tests.support.installs import require_torch
from tests.support.watching import ENDED, TRAINING, plain, watch

require_torch()
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
TELL = """
        sys.stdout.write(f"{dist.get_rank()} {loss.item().hex()}\\n")
sys.stdout.write(f"{dist.get_rank()} {[p.tolist() for p in whole(model)]} {torch.rand(1).item()}\\n")
dist.destroy_process_group()
"""
WHOLE = "def whole(model):\n    return [getattr(p, 'full_tensor', lambda p=p: p)() for p in model.parameters()]\n"
MODEL = "model = DistributedDataParallel(torch.nn.Linear(8, 1))"
COMPILED = TRAINING.replace(MODEL, "model = torch.compile(DistributedDataParallel(torch.nn.Linear(8, 1)))")
SHARDED = TRAINING.replace(
    MODEL,
    """from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
model = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
mesh = init_device_mesh("cpu", (2,))
for layer in (model[0], model[2], model):
    fully_shard(layer, mesh=mesh)""",
)
# Four batches of an epoch, two for each step; the last of them averages.
ACCUMULATING = TRAINING.replace(
    """        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
""",
    """        import contextlib
        micro = globals().get("micro", 0) + 1
        with contextlib.nullcontext() if micro % 2 == 0 else model.no_sync():
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = torch.nn.functional.mse_loss(model(x).float(), y) / 2
            loss.backward()
        if micro % 2 == 0:
            optimizer.step()
            optimizer.zero_grad()
""",
).replace(
    "sampler=sampler)", 'sampler=sampler, num_workers=1, persistent_workers=True, multiprocessing_context="fork")'
)


def the_same(folder: Path, program: str, steps: int) -> dict[str, Any]:
    """The report of a program that prints what it prints alone, and in which nothing is found."""
    (folder / "train.py").write_text(WHOLE + program + TELL)
    alone = plain(folder, *TORCHRUN, "train.py", timeout=300)
    watched = watch(folder, "--", *TORCHRUN, "train.py", timeout=300)
    assert watched.status == alone.returncode == 0, alone.stderr
    assert sorted(watched.out.splitlines()) == sorted(alone.stdout.splitlines()) != []
    assert [each for each in watched.report["findings"] if each["severity"] in ("error", "warning")] == []
    assert [(each["steps"], each["faults"]) for each in watched.report["ranks"]] == [(steps, [])] * 2
    return watched.report


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler on a CPU")
def test_a_compiled_model(tmp_path: Path) -> None:
    report = the_same(tmp_path, COMPILED, steps=8)
    # Inside of the graph there is nothing of ours, and so no time of the forward.
    assert [each["forward_seconds"] for each in report["timing"]] == [None, None]


def test_a_sharded_model(tmp_path: Path) -> None:
    pytest.importorskip("torch.distributed.fsdp._fully_shard", reason="this torch has no fully_shard")
    report = the_same(tmp_path, SHARDED, steps=8)
    assert "holds a shard of its own" in report["comparison"]["no_agreement_because"]


def test_workers_accumulated_gradients_and_bfloat16(tmp_path: Path) -> None:
    report = the_same(tmp_path, ACCUMULATING, steps=4)
    # Sixteen samples for each step.
    rate = sum(16 / each["step_seconds"] for each in report["timing"])
    assert report["samples_per_second"] == pytest.approx(rate, rel=0.01)


def started(folder: Path, command: list[str], **variables: str) -> warm.Process:
    """A process with these variables, and without those of a launcher."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", **variables}
    return warm.Process(command, cwd=folder, env=environment)


def ours(report: str) -> list[str]:
    return ["-m", "gpudoctor", "run", "--output-format", "json", "--output-file", report, "train.py"]


def test_ranks_of_srun_end_in_one_report(tmp_path: Path, report_of: Any) -> None:
    rank = 'rank=int(os.environ["SLURM_PROCID"]), world_size=int(os.environ["SLURM_NTASKS"])'
    meet = f'"gloo", init_method="tcp://127.0.0.1:{free_port()}", {rank})'
    (tmp_path / "train.py").write_text(ENDED.replace('"gloo")', meet))
    command = [sys.executable, *ours("report.json")]
    ranks = [
        started(tmp_path, command, SLURM_PROCID=number, SLURM_LOCALID=number, SLURM_NTASKS="2") for number in ("0", "1")
    ]
    assert [each.wait(200) for each in ranks] == [0, 0]
    assert report_of("report.json") == [(0, 8), (1, 8)]


def test_each_node_reports_its_own_ranks(tmp_path: Path, report_of: Any) -> None:
    (tmp_path / "train.py").write_text(ENDED)
    meet = ["--nnodes=2", "--nproc-per-node=1", "--master-addr=127.0.0.1", f"--master-port={free_port()}"]
    nodes = [
        started(
            tmp_path,
            [sys.executable, "-m", "torch.distributed.run", *meet, f"--node-rank={node}", *ours("report.json")],
        )
        for node in range(2)
    ]
    assert [each.wait(200) for each in nodes] == [0, 0]
    # On a disk that they share, each has a file of its own.
    assert [report_of(name) for name in ("report.json", "report.node1.json")] == [[(0, 8)], [(1, 8)]]


@pytest.fixture
def report_of(tmp_path: Path) -> Any:
    """The ranks of a report, with their steps."""
    import json

    return lambda name: [(each["rank"], each["steps"]) for each in json.loads((tmp_path / name).read_text())["ranks"]]
