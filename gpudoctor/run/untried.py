"""What a run on virtual GPUs ended at because it takes a real one: code compiled for CUDA, and what would drive it.

Only an error that nobody has caught counts: a program that falls back on something else goes on.
"""

from __future__ import annotations

import re

from gpudoctor.diagnostic import Location
from gpudoctor.record import dataclass
from gpudoctor.run.recording import Recording
from gpudoctor.run.recording.process_ends import Crash

_LIBRARY = r"(lib(?:cuda|cudart|cublas|cublasLt|cudnn|cufft|curand|cusolver|cusparse|nccl|nvrtc|nvToolsExt)\.so[\w.]*)"
_TELLING = (
    (r"Tried to instantiate dummy base class _?(\w+)", "`{}`, a part of CUDA itself,"),
    (r"Could not run '([\w:.]+)' with arguments from the '(?:CPU|CUDA)' backend", "`{}`, which has no kernel for CPUs"),
    (rf"{_LIBRARY}: cannot open shared object", "a module that was compiled for CUDA (it needs `{}`)"),
    (r"\d+ active drivers \(\[.*?\]\)", "a kernel of Triton"),
    (r"CUDA_HOME environment variable is not set|[Uu]nable to find nvcc|No such file or directory: '\S*nvcc'",
     "an extension that is compiled for CUDA here"),
    (r"(FakeTensor) on cuda:\d+: PyTorch is not linked", "`{}` on a GPU, with which compilers trace a program,"),
    (r"FakeTensorDeviceMismatchError: ", "a GPU that is named while the program is traced"),
    (r"Device mismatch between fake input and example input", "a compilation for GPUs ahead of time"),
    (r"Found no NVIDIA driver|CUDA driver version is insufficient|No CUDA GPUs are available|no CUDA-capable device"
     r"|Torch not compiled with CUDA|module 'torch\._C' has no attribute '_cuda_|not linked with support for cuda",
     "a call of CUDA itself"),
    (r"Cannot use ReduceOp\.(PREMUL_SUM) with Gloo", "`{}`, a sum that NCCL alone computes,"),
)  # fmt: skip
"""Parts of errors' texts, as torch, Triton and the system's loader write them, and what each was asked for."""


@dataclass(frozen=True)
class Untried:
    """Where the program asked for what only a GPU has. `what` is named in the field's words."""

    what: str
    error: str
    place: Location | None

    @property
    def text(self) -> str:
        """For the report: what, where, and what that means for the rest."""
        at = f" at {self.place.path}:{self.place.line}" if self.place else ""
        return (
            f"This cannot be tried without a GPU: {self.what}{at} ({self.error}). What came before was judged, nothing "
            "beyond. `--skip-kernels MODULE` puts a stand-in for a module of such kernels, which computes nothing."
        )


def first_crash(recording: Recording) -> Crash | None:
    """The first exception that nobody caught; one that only tells that another rank is gone comes last."""
    crashes = (crash for _, crash in recording.crashes())
    return min(crashes, key=lambda each: (each.lost_connection, each.at), default=None)


def untried(recording: Recording) -> Untried | None:
    """What ended a run on virtual GPUs, where a real one is all that it lacked."""
    if not recording.virtual or not recording.status:
        return None
    # What came after the first error is no reason: that one may be a mistake of the program.
    crash = first_crash(recording)
    if crash is None:
        return None
    for pattern, what in _TELLING:
        if found := re.search(pattern, f"{crash.type}: {crash.text}"):
            return Untried(what.format(*found.groups()), crash.summary, crash.place)
    return None
