"""`gpudoctor probe` with every strategy that the number of GPUs allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.on_gpu.part import gpudoctor, json_of

if TYPE_CHECKING:
    from tests.on_gpu.part import Here, Tell

ASKS = "all checks, workloads and strategies of the probe"
SECONDS = 200.0
GPUS = 1


def examine(tell: Tell, here: Here) -> None:
    """A probe; where there is one GPU, another of two ranks that share it, which NCCL refuses and gloo does not."""
    quick = ["--workload", "linear", "--quick"]
    strategies = ["--strategy", "single,data_parallel,ddp,fsdp2"]
    alone = here.gpus == 1
    _probe(tell, here, "probe", [*strategies, *(quick if here.rehearsal else [])], SECONDS - (80 if alone else 10))
    if alone:
        _probe(tell, here, "shared", ["--ranks", "2", "--strategy", "ddp", *quick], 70.0)


def _probe(tell: Tell, here: Here, name: str, options: list[str], seconds: float) -> None:
    """What it says without what is only of this machine."""
    path = here.folder / f"{name}.json"
    ended = gpudoctor(["probe", *options, "--output-format", "json", "--output-file", str(path)], seconds)
    found = json_of(path)
    kept = ("checks", "steps", "bandwidth", "notes", "world_size", "backend", "device", "seconds")
    tell(name, status=ended.status, report={part: found.get(part) for part in kept}, err=ended.err[-1500:])
