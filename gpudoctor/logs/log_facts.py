"""What a log says, as plain records. Each knows who said it, and in which line of which file."""

from __future__ import annotations

import re
import sys

from gpudoctor.logs.speakers import Speaker
from gpudoctor.record import dataclass


@dataclass(frozen=True)
class LogPlace:
    """Where in the log: file and line, how many lines were read before (`order`), and the time in front of it."""

    path: str
    line: int
    order: int
    at: str = ""


@dataclass(frozen=True)
class LoggedFrame:
    """One call of a stack, as Python prints it."""

    path: str
    line: int
    function: str

    @property
    def own(self) -> bool:
        """The file is the user's: neither Python's nor an installed package's."""
        path = self._straight
        if self._of_python or path.startswith("<__") or path.endswith(_COMPILED) or _STARTED_BY.search(path):
            return False
        return not (any(part in f"/{path}" for part in _FOREIGN) or _CHECKED_OUT.search(f"/{path}"))

    @property
    def installed(self) -> bool:
        """The file is of an installed package that neither starts nor computes: it may be the program itself."""
        return bool(self._package) and self._package not in TOOLS

    @property
    def library(self) -> str:
        """Whose file it is, where that is not the user's: the name of a package, or Python; else empty."""
        if self._package or self.own:
            return self._package.partition(".")[0]
        if self._of_python or any(part in self._straight for part in _PYTHON):
            return "Python"
        if self._straight.endswith(_COMPILED):
            return self._straight.rpartition("/")[2].partition(".")[0]
        found = _CHECKED_OUT.search(f"/{self._straight}")
        return found[1] if found else "torch" if _ROOT.match(self.path) else ""

    @property
    def _straight(self) -> str:
        return self.path.replace("\\", "/")

    @property
    def _package(self) -> str:
        """Where it is installed, the last folder of packages on its path tells."""
        _, folder, inside = self._straight.rpartition("-packages/")
        return inside.partition("/")[0] if folder else ""

    @property
    def _of_python(self) -> bool:
        path = self._straight
        on_windows = _OF_WINDOWS.match(path) if path != self.path or path[1:2] == ":" else None
        # Who shows a log to others puts dots where a folder was.
        name = on_windows["module"] if on_windows else path.removeprefix(".../").removesuffix(".py")
        return path.startswith(("<string>", "<frozen")) or name in sys.stdlib_module_names


_PYTHON = ("/lib/python3", "/lib64/python3")
_FOREIGN = (
    "/site-packages/", "/dist-packages/", *_PYTHON, "/torch/_", "/torch/nn/", "/torch/distributed/",
    "/torch/utils/", "/torch/optim/", "/torch/cuda/", "/torch/autograd/", "/torch/serialization.py",
    "/deepspeed/runtime/", "/deepspeed/utils/", "/deepspeed/comm/", "/deepspeed/ops/",
    "/bin/torchrun", "/bin/accelerate", "/bin/deepspeed", "/bin/horovodrun",
    "/gpudoctor/run/", "/__autograph_generated_file", "/torchinductor_", "/<eval_with_key>",
)  # fmt: skip
_COMPILED = (".pyx", ".pxd", ".pxi")
"""What Cython compiles: its calls show files that are not where the program runs."""
_OF_WINDOWS = re.compile(r".*/[Ll]ib/(?P<module>\w+)(?:\.py$|/)")
"""Python's own files there: no folder tells its version."""
_STARTED_BY = re.compile(
    r"\.exe[/_]\S*main\S*\.py$|/(?:envs/[^/]+|\.?\w*env\w*|(?:virtual|v)envs?/[^/]+|\.local|usr(?:/local)?|\w*conda3?|\w*forge3?)/bin/[\w-]+$"
)
"""What an installer writes to start a package."""
_ROOT = re.compile(r"(.*/)torch/(?:nn|cuda|distributed|utils|optim|autograd|_\w+)/")
"""Where torch lies, other packages do, too, whatever the folder is called."""
TOOLS = frozenset(
    "torch torchvision torchaudio torch_xla torchmetrics torchdata torchelastic accelerate deepspeed lightning "
    "pytorch_lightning lightning_fabric transformers ray horovod hydra omegaconf fire click typer absl numpy "
    "scipy pandas sklearn pyarrow triton megatron colossalai fairscale apex xformers peft bitsandbytes "
    "flash_attn vllm datasets evaluate diffusers huggingface_hub tokenizers sentencepiece safetensors "
    "tensorboard tensorboardX wandb mlflow comet_ml clearml wrapt tqdm rich loguru yaml fsspec aiohttp httpx "
    "httpcore requests urllib3 multiprocess dill cloudpickle joblib PIL cv2 h5py lmdb decord webdataset timm "
    "einops mmcv mmengine fvcore iopath jsonargparse typing_extensions pydantic six ignite composer streaming "
    "torch_npu vllm_ascend trl unsloth unsloth_zoo gpudoctor tensorflow jax nemo pkg_resources setuptools "
    "importlib_metadata".split()
)
"""Packages of which a line says nothing about the program that called them."""
_CHECKED_OUT = re.compile(rf"/({'|'.join(sorted(TOOLS))})/(?:src/)?\1/(?!examples/)", re.IGNORECASE)
"""A package that runs from its repository, which has its name, too, in letters of its own."""


@dataclass(frozen=True)
class LoggedCrash:
    """An exception that ended a process, with its stack, outermost call first.

    `text` may have several lines. `raised_first` is the exception that led to it, where Python told one. `mixed`:
    lines of several processes ran into each other, and the stack may have calls of another. `type` is empty where the
    log ends before it. `headless`: the log begins after the first calls, or has the error's text alone. `ignored`:
    Python says that it went on.
    """

    by: Speaker
    at: LogPlace
    type: str
    text: str
    frames: tuple[LoggedFrame, ...]
    raised_first: LoggedCrash | None = None
    mixed: bool = False
    headless: bool = False
    ignored: bool = False

    @property
    def calls(self) -> str:
        """Its calls, one a line, as `file.py:function`."""
        names = ((frame.path.replace("\\", "/").rpartition("/")[2], frame.function) for frame in self.frames)
        return "\n".join(f"{file}:{function}" for file, function in names)

    @property
    def program(self) -> str:
        """The file of the user's from which the calls came; empty where that is not known."""
        return "" if self.headless else next((frame.path for frame in self.frames if frame.own), "")

    @property
    def place(self) -> LoggedFrame | None:
        """The innermost line of the user's own code, or of the package in which the program is installed: the first
        that is called."""
        beside = tuple(found[1] for frame in self.frames if (found := _ROOT.match(frame.path)))
        # Of lines that ran into each other, those that come again are of another process, which stands less far.
        once = {(frame.path, frame.line): frame for frame in self.frames} if self.mixed else {}
        inner = (tuple(once.values()) or self.frames)[::-1]
        own = (frame for frame in inner if frame.own and not frame.path.startswith(beside))
        program = next((frame.library for frame in self.frames if frame.installed), None)
        return next(own, next((frame for frame in inner if frame.installed and frame.library == program), None))


@dataclass(frozen=True)
class Timeout:
    """NCCL's watchdog gave up on a collective. `number` counts those of the group, None in logs of old versions."""

    by: Speaker
    at: LogPlace
    operation: str
    number: int | None
    elements: int | None
    seconds: float
    group: str = ""


@dataclass(frozen=True)
class GroupProgress:
    """How far a rank was in the collectives of a group when the watchdog spoke."""

    by: Speaker
    at: LogPlace
    group: str
    failed: int | None
    enqueued: int
    completed: int


@dataclass(frozen=True)
class CollectiveStack:
    """Where the program called the collective that timed out, as the flight recorder knew it, innermost call first."""

    by: Speaker
    at: LogPlace
    frames: tuple[LoggedFrame, ...]


@dataclass(frozen=True)
class ProcessExit:
    """How a launcher saw a process end. `signal` is 0 where it ended by itself; `root`: the launcher saw it first.
    `code` is None where the log does not tell it."""

    by: Speaker
    at: LogPlace
    code: int | None
    signal: int
    time: str = ""
    root: bool = False


@dataclass(frozen=True)
class StackDump:
    """Where a process stood, as faulthandler or py-spy printed it, innermost call first. `thread` is empty where the
    dump does not name it."""

    by: Speaker
    at: LogPlace
    thread: str
    frames: tuple[LoggedFrame, ...]

    @property
    def called(self) -> str:
        """The collective in which it waits; empty where it is in none."""
        outside = (frame.function for frame in self.frames if frame.path.endswith("/distributed_c10d.py"))
        return next(outside, "")


@dataclass(frozen=True)
class Standstill:
    """What `gpudoctor run` has told of ranks that waited for others, with the rule of the mistake, if one is known."""

    by: Speaker
    at: LogPlace
    code: str
    text: str
    place: LoggedFrame | None


@dataclass(frozen=True)
class Notice:
    """A line that says by itself what happened: of NCCL, a scheduler, the kernel."""

    by: Speaker
    at: LogPlace
    text: str


@dataclass(frozen=True)
class RunBegin:
    """A line that stands at the begin of a run: of a launcher, or of what a job prints first."""

    by: Speaker
    at: LogPlace


LogFact = (
    LoggedCrash | Timeout | GroupProgress | CollectiveStack | ProcessExit | StackDump | Standstill | Notice | RunBegin
)
