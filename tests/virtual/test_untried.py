"""What cannot be tried without a GPU: it ends the run with a word of its own, and stand-ins take its place."""

from pathlib import Path

import pytest

from gpudoctor.cli.run_report import in_one_line, report
from gpudoctor.record import replace
from gpudoctor.report.text import Style
from gpudoctor.run.outcome import Watched
from gpudoctor.run.recording import Recording
from gpudoctor.run.recording.process_ends import Crash
from gpudoctor.run.untried import untried
from tests.support import made_runs
from tests.support.installs import require_torch
from tests.support.watching import watch


def ended_with(text: str, *, virtual: bool = True) -> Recording:
    """Two ranks, of which the first ended with an error of this text."""
    recording = made_runs.sick().recording
    first, *rest = recording.ranks
    first = replace(first, crash=Crash("RuntimeError", text, 1, ()))
    return replace(recording, ranks=(first, *rest), status=1, virtual=virtual, hang=())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Tried to instantiate dummy base class _CUDAGraph", "`CUDAGraph`, a part of CUDA itself"),
        ("Could not run 'fast::scan' with arguments from the 'CPU' backend.", "`fast::scan`, which has no kernel"),
        (
            "libcudart.so.12: cannot open shared object file: No such file",
            "it needs `libcudart.so.12`",
        ),
        ("0 active drivers ([]). There should only be one.", "a kernel of Triton"),
        ("CUDA_HOME environment variable is not set. Please set it", "an extension that is compiled for CUDA here"),
        ("FakeTensor on cuda:0: PyTorch is not linked with support for cuda devices", "`FakeTensor` on a GPU"),
        ("Device mismatch between fake input and example input at position #0: cpu vs cuda:0.", "ahead of time"),
        ("Found no NVIDIA driver on your system.", "a call of CUDA itself"),
        ("module 'torch._C' has no attribute '_cuda_getCurrentBlasHandle'", "a call of CUDA itself"),
        ("Cannot use ReduceOp.PREMUL_SUM with Gloo", "`PREMUL_SUM`, a sum that NCCL alone computes,"),
        ("CUDA error: CUDA driver version is insufficient for CUDA runtime version", "a call of CUDA itself"),
    ],
)
def test_what_only_a_gpu_has_is_named(text: str, told: str) -> None:
    end = untried(ended_with(text))
    assert told in end.text
    assert untried(ended_with(text, virtual=False)) is None


def test_an_error_of_the_program_is_none_of_it() -> None:
    assert untried(ended_with("Expected all tensors to be on the same device")) is None


def test_what_another_rank_asked_for_afterwards_hides_no_error_of_the_program() -> None:
    recording = ended_with("Expected all tensors to be on the same device")
    first, second, *rest = recording.ranks
    later = replace(second, crash=Crash("RuntimeError", "Found no NVIDIA driver on your system.", 1, (), at=2.0))
    assert untried(replace(recording, ranks=(first, later, *rest))) is None


def test_where_nothing_is_wrong_there_is_one_line() -> None:
    recording = replace(made_runs.sick().recording, virtual=True, skipped_kernels=("fast",))
    line = in_one_line(Watched(recording, (), (), lambda _: (), False))
    assert line.startswith("gpudoctor run: no mistake was seen; ")
    assert "took the place of `fast`" in line
    assert "\n" not in line


PROGRAM = """\
import torch
from fast_kernels.attention import attend
from fast_kernels import Norm

layer, norm = torch.nn.Linear(4, 4).cuda(), Norm(4)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
try:
    torch.cuda.CUDAGraph()
except RuntimeError:
    print("without a graph")
attend(norm(layer(torch.ones(2, 4, device="cuda"))), causal=True).sum().backward()
optimizer.step()
print("stepped", layer.weight.grad is not None)
graph = torch.cuda.CUDAGraph()
"""


def test_a_run_ends_at_a_cuda_graph_behind_kernels_that_were_skipped(tmp_path: Path) -> None:
    require_torch()
    (tmp_path / "train.py").write_text(PROGRAM)
    options = ("--virtual-gpus", "1", "--no-lint", "--skip-kernels", "fast_kernels")
    watched = watch(tmp_path, *options, "--check", "train.py")
    assert watched.status == 4, watched.err
    assert watched.out.splitlines() == ["without a graph", "stepped True"]
    assert watched.report["findings"] == []
    assert watched.report["skipped_kernels"] == ["fast_kernels"]
    assert "CUDAGraph" in watched.report["cannot_be_tried"]


def test_the_report_says_where() -> None:
    recording = ended_with("0 active drivers ([]). There should only be one.")
    told = " ".join(" ".join(report(Watched(recording, (), (), lambda _: (), False), Style())).split())
    assert "This cannot be tried without a GPU: a kernel of Triton" in told
    assert "No rule knows" not in told
