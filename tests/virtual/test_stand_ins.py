"""What stands in for NCCL and for kernels of GPUs: programs in `programs` that check themselves, on virtual GPUs."""

import sys
from pathlib import Path

import pytest

from tests.support.installs import require_torch
from tests.support.watching import watch

require_torch()
PROGRAMS = Path(__file__).parent / "programs"


@pytest.mark.parametrize(
    ("program", "ranks"),
    [
        ("nccl", 2),
        ("refusals", 2),
        ("wrappers", 2),
        ("sharded", 2),
        ("data_parallel", 1),
        ("sent_tensors", 1),
        ("spawned", 1),
        ("surface", 1),
        ("layouts", 1),
        ("random_numbers", 1),
        ("transforms", 1),
    ],
)
def test_programs_hold_on_virtual_gpus(tmp_path: Path, program: str, ranks: int) -> None:
    """Their own assertions are the test; the rank that fails says at which line."""
    import torch

    script = str(PROGRAMS / f"{program}.py")
    # Before torch 2.9 a process that has loaded the compiler has FSDP's operators already, and nobody can put the mode
    # in place for these: no program begins so.
    cold = program == "sharded" and tuple(map(int, torch.__version__.split(".")[:2])) < (2, 9)
    command = ["--nproc-per-node", "2", script] if ranks > 1 else ["--", sys.executable, script]
    order = ("--virtual-gpus", "2", "--no-lint", "--hang-after", "20", "--kill-on-hang", *command)
    seen = watch(tmp_path, *order, cold=cold)
    assert seen.out.count("done") == ranks, seen.err[-3000:]
    assert seen.status == 0, seen.err[-3000:]
    # It alone calls `torch.compile`.
    assert seen.report["runs_eagerly"] == (program == "transforms")
