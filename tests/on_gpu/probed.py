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
    """One probe; what it says without what is only of this machine."""
    path = here.folder / "probe.json"
    options = ["--strategy", "single,data_parallel,ddp,fsdp2", "--output-format", "json", "--output-file", str(path)]
    if here.rehearsal:
        options += ["--workload", "linear", "--quick"]
    ended = gpudoctor(["probe", *options], SECONDS - 10)
    found = json_of(path)
    kept = ("checks", "steps", "bandwidth", "notes", "world_size", "backend", "device", "seconds")
    tell("probe", status=ended.status, report={name: found.get(name) for name in kept}, err=ended.err[-1500:])
