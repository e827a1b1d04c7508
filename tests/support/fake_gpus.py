"""A rank on a GPU that there is not: what the probe does on GPUs is executed, and the CPU computes for them.

`python -m tests.support.fake_gpus FOLDER` takes the place of `python -m gpudoctor.probe.rank_process FOLDER`. Tensors
that are sent to `cuda:1` stay where they are, NCCL is gloo, and what torch only has for GPUs has a stand-in of a few
lines here. That shows that the probe's own code for GPUs runs and judges rightly, and nothing of CUDA, NCCL or torch on
a GPU.
"""

import enum
import os
import sys
import time
from types import SimpleNamespace
from typing import Any

WORKER = "tests.support.fake_gpus"
STAGE, UUIDS = "GPUDOCTOR_TEST_STAGE", "GPUDOCTOR_TEST_UUIDS"
MEMORY = 1 << 26
"""Bytes that are free: enough for the smallest transformer."""


class Sick(enum.Enum):
    """What is wrong with a GPU, or with what joins them."""

    RAISES = "raises"
    HANGS = "hangs"
    NEVER_STARTS = "never starts"
    ALL_RAISE = "all raise"
    DAMAGED_COPY = "damaged copy"
    WRONG_GATHER = "wrong gather"
    LOCAL_STATISTICS = "local statistics"
    SLOW = "slow"
    OUT_OF_MEMORY = "out of memory"


def variables(count: int, sick: Sick | None = None, gpu: int = 1, stage: str = "") -> dict[str, str]:
    """The environment of a machine with so many GPUs, one of them sick where that is said."""
    uuids = ",".join(f"GPU-{index}" for index in range(count))
    fault = {} if sick is None else {"GPUDOCTOR_TEST_SICK": f"{sick.value}:GPU-{gpu}", STAGE: stage}
    return {UUIDS: uuids, **fault}


def visible() -> list[str]:
    """The GPUs that this process sees, by UUID."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    return (os.environ[UUIDS] if chosen is None else chosen).split(",")


def main() -> int:
    """Be a rank with a GPU."""
    from pathlib import Path

    from gpudoctor.probe import measurement_plan as plans
    from gpudoctor.probe import rank_process as ranks
    from gpudoctor.probe.checks import device_speed, peer_copies

    plans.PACES["normal"] = plans.Pace(1, 3, 0.01, 1 << 16, 0.05)
    device_speed._SIDE = 64
    peer_copies.ELEMENTS = 1 << 12
    name, _, uuid = os.environ.get("GPUDOCTOR_TEST_SICK", ":").partition(":")
    sick = Sick(name) if name else None
    mine = visible()[int(os.environ["LOCAL_RANK"]) % len(visible())]
    with _torch_of_gpus(sick, visible().index(uuid) if uuid in visible() else -1):
        if sick is Sick.ALL_RAISE or (sick is not None and uuid == mine):
            _fall_sick(sick, os.environ[STAGE])
        return ranks.main(Path(sys.argv[1]))


def _fall_sick(sick: Sick, stage: str) -> None:
    from tests.support.probe_faults import _when_it_marks

    if sick is Sick.NEVER_STARTS:
        import torch

        torch.cuda.set_device = _raise
    acts = {
        Sick.RAISES: _raise,
        Sick.ALL_RAISE: _raise,
        Sick.HANGS: lambda: time.sleep(600),
        Sick.OUT_OF_MEMORY: _run_out_of_memory,
        Sick.SLOW: lambda: time.sleep(0.05),
    }
    if sick in acts:
        _when_it_marks(stage, acts[sick])


def _raise(*rest: Any) -> None:
    raise RuntimeError("CUDA error: unspecified launch failure")


def _run_out_of_memory() -> None:
    raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB")


def _torch_of_gpus(sick: Sick | None, gpu: int) -> Any:
    """Torch as on a machine with these GPUs; the context in which `cuda:1` is a place."""
    import torch
    from torch.overrides import TorchFunctionMode

    class OnTheCpu(TorchFunctionMode):
        """Every device of an argument is the CPU."""

        def __torch_function__(self, function: Any, types: Any, args: Any = (), options: Any = None) -> Any:
            # `torch.device` itself must go on making GPUs: the probe asks its context for one.
            if function is torch.device:
                return function(*args, **(options or {}))
            result = function(*map(_cpu, args), **{name: _cpu(each) for name, each in (options or {}).items()})
            if sick is Sick.DAMAGED_COPY and function is torch.Tensor.to and f"cuda:{gpu}" in args:
                result = result.clone()
                result[7] += 1
            return result

    _cuda(torch, len(visible()))
    _distributed()
    _one_process(torch, sick)
    _sync_batchnorm(torch, sick)
    return OnTheCpu()


def _cpu(value: Any) -> Any:
    import torch

    if isinstance(value, torch.device) and value.type == "cuda":
        return torch.device("cpu")
    return "cpu" if isinstance(value, str) and value.startswith("cuda:") else value


def _cuda(torch: Any, count: int) -> None:
    def properties(device: Any) -> Any:
        return SimpleNamespace(uuid=visible()[torch.device(device).index].removeprefix("GPU-"), name="Fake")

    stand_ins = {
        "device_count": lambda: count,
        "set_device": lambda device: None,
        "synchronize": lambda device=None: None,
        "mem_get_info": lambda device=None: (MEMORY, 2 * MEMORY),
        "reset_peak_memory_stats": lambda device=None: None,
        "max_memory_allocated": lambda device=None: 1 << 20,
        "get_device_capability": lambda device=None: (8, 0),
        "get_device_properties": properties,
        "can_device_access_peer": lambda a, b: True,
    }
    for name, stand_in in stand_ins.items():
        setattr(torch.cuda, name, stand_in)
    autocast, load = torch.autocast, torch.load
    torch.autocast = lambda kind, **options: autocast("cpu", **options)
    torch.load = lambda path, **options: load(path, **{**options, "map_location": "cpu"})


def _distributed() -> None:
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    start, wrap = dist.init_process_group, DistributedDataParallel.__init__
    dist.init_process_group = lambda backend, **options: start("gloo", **options)

    def init(self: Any, *args: Any, device_ids: Any = None, **options: Any) -> None:
        assert device_ids is None or len(device_ids) == 1
        wrap(self, *args, **options)

    DistributedDataParallel.__init__ = init


def _one_process(torch: Any, sick: Sick | None) -> None:
    """DataParallel, and the primitives that it is made of."""

    def gather(outputs: Any, target: int) -> Any:
        return torch.cat(outputs[::-1] if sick is Sick.WRONG_GATHER else outputs)

    class Divided(torch.nn.Module):  # type: ignore[misc]
        def __init__(self, module: Any, device_ids: list[int]) -> None:
            super().__init__()
            self.module, self.device_ids = module, device_ids

        def forward(self, inputs: Any) -> Any:
            return gather([self.module(part) for part in inputs.chunk(len(self.device_ids))], 0)

    torch.nn.DataParallel = Divided
    parallel = torch.nn.parallel
    parallel.replicate = lambda model, devices: [model] * len(devices)
    parallel.scatter = lambda inputs, devices: list(inputs.chunk(len(devices)))
    parallel.parallel_apply = lambda models, inputs: [model(each) for model, each in zip(models, inputs, strict=True)]
    parallel.gather = gather


def _sync_batchnorm(torch: Any, sick: Sick | None) -> None:
    import torch.distributed as dist

    class Synchronised(torch.nn.BatchNorm2d):  # type: ignore[misc]
        def forward(self, inputs: Any) -> Any:
            parts = [torch.empty_like(inputs) for _ in range(dist.get_world_size())]
            dist.all_gather(parts, inputs)
            if sick is Sick.LOCAL_STATISTICS:
                parts = [inputs] * len(parts)
            whole = super().forward(torch.cat(parts))
            return whole.chunk(len(parts))[dist.get_rank()]

    torch.nn.SyncBatchNorm = Synchronised


if __name__ == "__main__":
    sys.exit(main())
