"""`gpudoctor probe` with every strategy that the number of GPUs allows."""

from tests.on_gpu.part import Here, Step, Tell, gpudoctor, json_of

ASKS = "all checks, workloads and strategies of the probe"
SECONDS = 200.0
GPUS = 1


_QUICK = ["--workload", "linear", "--quick"]
_OF_TWO = 30.0
"""Seconds that two ranks on one GPU take at least."""


def _whole(tell: Tell, here: Here) -> None:
    strategies = ["--strategy", "single,data_parallel,ddp,fsdp2"]
    kept = _OF_TWO if here.gpus == 1 else 0.0
    _probe(tell, here, "probe", [*strategies, *(_QUICK if here.rehearsal else [])], here.left - kept)


def _shared(tell: Tell, here: Here) -> None:
    """Two ranks that share the only GPU, which NCCL refuses and gloo does not."""
    if here.gpus == 1:
        _probe(tell, here, "shared", ["--ranks", "2", "--strategy", "ddp", *_QUICK], here.left)


def _probe(tell: Tell, here: Here, name: str, options: list[str], seconds: float) -> None:
    """What it says without what is only of this machine."""
    path = here.folder / f"{name}.json"
    ended = gpudoctor(["probe", *options, "--output-format", "json", "--output-file", str(path)], seconds)
    found = json_of(path)
    kept = ("checks", "steps", "bandwidth", "notes", "world_size", "backend", "device", "seconds")
    tell(name, status=ended.status, report={part: found.get(part) for part in kept}, err=ended.err[-1500:])


STEPS = (Step("all strategies", 60.0, _whole), Step("two ranks on one GPU", _OF_TWO, _shared))
