"""A rank with a fault: the enum of all that is injected, each with what it does to torch before the rank starts.

`python -m tests.support.probe_faults FOLDER` takes the place of `python -m gpudoctor.probe.rank_process FOLDER`. The
fault, the rank that has it and the stage stand in the environment.
"""

import enum
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpudoctor.probe import rank_process as ranks
from gpudoctor.probe.context import Context

WORKER = "tests.support.probe_faults"


class Fault(enum.Enum):
    """What goes wrong, on one rank."""

    RAISES = "raises"
    KILLED = "killed"
    STOPPED = "stopped"
    HANGS = "hangs"
    EXITS = "exits"
    WATCHER_KILLED = "watcher killed"
    LAUNCHER_ENDED = "launcher ended"
    SLOW = "slow"
    OUT_OF_MEMORY = "out of memory"
    MISMATCHED_SHAPES = "mismatched shapes"
    NEVER_STARTS = "never starts"
    STUCK = "stuck"
    WRONG_SUM = "wrong sum"
    WRONG_PRODUCT = "wrong product"
    UNSTEADY_PRODUCT = "unsteady product"
    DAMAGED_MESSAGE = "damaged message"
    PERTURBED_PARAMETER = "perturbed parameter"
    UNAVERAGED_GRADIENTS = "unaveraged gradients"
    OVERLAPPING_SHARDS = "overlapping shards"
    EPOCH_IGNORED = "epoch ignored"
    CHECKPOINT_TWICE = "checkpoint twice"
    CHECKPOINT_DAMAGED = "checkpoint damaged"
    NO_LEARNING = "no learning"


GIVEN_RANKS = "GPUDOCTOR_TEST_GIVEN_RANKS"
"""The folder in which each rank that was given writes down its process, where one of them is to be ended."""


def variables(*faults: Fault, stage: str = "", rank: int = 1) -> dict[str, str]:
    """What to set in the environment for one rank to have these faults."""
    names = ",".join(fault.value for fault in faults)
    return {"GPUDOCTOR_TEST_FAULT": names, "GPUDOCTOR_TEST_STAGE": stage, "GPUDOCTOR_TEST_RANK": str(rank)}


def main() -> int:
    """Be a rank, with the fault where it is mine."""
    if os.environ["GPUDOCTOR_TEST_FAULT"] == Fault.STUCK.value:
        _stuck()
    elif os.environ["RANK"] == os.environ["GPUDOCTOR_TEST_RANK"]:
        for name in os.environ["GPUDOCTOR_TEST_FAULT"].split(","):
            _inject(Fault(name), os.environ["GPUDOCTOR_TEST_STAGE"])
    return ranks.main(Path(sys.argv[1]))


def _inject(fault: Fault, stage: str) -> None:
    if fault is Fault.NEVER_STARTS:
        time.sleep(600)
    if fault in _AT_A_STAGE:
        _when_it_marks(stage, _AT_A_STAGE[fault])
    else:
        _IN_TORCH[fault]()


def _when_it_marks(stage: str, act: Callable[[], None]) -> None:
    """Do it when this stage first says what comes next: in its middle, after the others have entered it."""
    state = {"stage": ""}
    attempt, mark = ranks._attempt, Context.mark

    def attempting(name: str, work: Any, log: Any) -> Any:
        state["stage"] = name
        return attempt(name, work, log)

    def marking(self: Context, text: str) -> None:
        mark(self, text)
        if state["stage"] == stage:
            act()

    ranks._attempt = attempting  # type: ignore[assignment]
    Context.mark = marking  # type: ignore[method-assign]


def _raise() -> None:
    raise ValueError("an injected fault")


def _run_out_of_memory() -> None:
    raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB")


def _mismatch() -> None:
    import torch
    import torch.distributed as dist

    dist.all_reduce(torch.ones(77777))


def _end_the_first_rank() -> None:
    """What torchrun does to the process of the first rank where it ends a job, or a batch system at its limit."""
    os.kill(int(Path(os.environ[GIVEN_RANKS], "0").read_text()), signal.SIGTERM)
    time.sleep(600)


_AT_A_STAGE: dict[Fault, Callable[[], None]] = {
    Fault.RAISES: _raise,
    Fault.KILLED: lambda: os.kill(os.getpid(), signal.SIGKILL),
    Fault.STOPPED: lambda: os.kill(os.getpid(), signal.SIGSTOP),
    Fault.HANGS: lambda: time.sleep(600),
    Fault.EXITS: lambda: os._exit(7),
    Fault.LAUNCHER_ENDED: _end_the_first_rank,
    Fault.WATCHER_KILLED: lambda: os.kill(os.getppid(), signal.SIGKILL),
    Fault.SLOW: lambda: time.sleep(0.2),
    Fault.OUT_OF_MEMORY: _run_out_of_memory,
    Fault.MISMATCHED_SHAPES: _mismatch,
}


def _stuck() -> None:
    """All ranks hang in their first all_reduce, unless a variable says that the broken transport is not used."""
    if "GPUDOCTOR_TEST_WITHOUT" in os.environ:
        return
    import torch.distributed as dist

    dist.all_reduce = lambda *args, **options: time.sleep(600)


def _wrong_sum() -> None:
    import torch.distributed as dist

    real = dist.all_reduce

    def all_reduce(tensor: Any, *args: Any, **options: Any) -> Any:
        work = real(tensor, *args, **options)
        tensor.view(-1)[0] += 1
        return work

    dist.all_reduce = all_reduce


def _wrong_product() -> None:
    import torch

    real = torch.Tensor.__matmul__

    def product(self: Any, other: Any) -> Any:
        result = real(self, other)
        if result.dtype == torch.float32:
            result[3, 5] += 1
        return result

    torch.Tensor.__matmul__ = product


def _unsteady_product() -> None:
    """One product in a hundred is another one."""
    import torch

    real = torch.Tensor.__matmul__
    made = 0

    def product(self: Any, other: Any) -> Any:
        nonlocal made
        made += 1
        result = real(self, other)
        if made % 100 == 0:
            result[0, 0] += 1
        return result

    torch.Tensor.__matmul__ = product


def _damaged_message() -> None:
    import torch.distributed as dist

    real = dist.batch_isend_irecv

    def exchange(operations: Any) -> Any:
        for each in operations:
            if each.op is dist.isend:
                each.tensor[100] ^= 1
        return real(operations)

    dist.batch_isend_irecv = exchange


def _perturbed_parameter() -> None:
    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook

    def perturb(optimizer: Any, args: Any, options: Any) -> None:
        with torch.no_grad():
            optimizer.param_groups[0]["params"][0].view(-1)[0] += 1e-6

    register_optimizer_step_post_hook(perturb)


def _unaveraged_gradients() -> None:
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    real = DistributedDataParallel.__init__
    # Not the name that another fault may have replaced.
    all_reduce = dist.distributed_c10d.all_reduce

    def too_large(state: Any, bucket: Any) -> Any:
        work = all_reduce(bucket.buffer().div_(dist.get_world_size()), async_op=True)
        return work.get_future().then(lambda future: future.value()[0] * 1.01)

    # DDP looks at the classes, and annotations of this file are strings.
    too_large.__annotations__ = {"bucket": dist.GradBucket}

    def init(self: Any, *args: Any, **options: Any) -> None:
        real(self, *args, **options)
        self.register_comm_hook(None, too_large)

    DistributedDataParallel.__init__ = init


def _overlapping_shards() -> None:
    from torch.utils.data import DistributedSampler

    real = DistributedSampler.__iter__

    def indices(self: Any) -> Any:
        self.rank = 0
        return real(self)

    DistributedSampler.__iter__ = indices


def _epoch_ignored() -> None:
    from torch.utils.data import DistributedSampler

    DistributedSampler.set_epoch = lambda self, epoch: None


def _checkpoint_twice() -> None:
    import torch

    real = torch.load

    def load(path: Any, *args: Any, **options: Any) -> Any:
        Path(path).with_name("checkpoint-of-rank-1.pt").write_bytes(b"")
        return real(path, *args, **options)

    torch.load = load


def _checkpoint_damaged() -> None:
    import torch

    real = torch.load

    def load(*args: Any, **options: Any) -> Any:
        state = real(*args, **options)
        next(iter(state.values())).view(-1)[0] += 1
        return state

    torch.load = load


def _no_learning() -> None:
    import torch

    torch.optim.Adam.step = lambda self, closure=None: None


_IN_TORCH: dict[Fault, Callable[[], None]] = {
    Fault.WRONG_SUM: _wrong_sum,
    Fault.WRONG_PRODUCT: _wrong_product,
    Fault.UNSTEADY_PRODUCT: _unsteady_product,
    Fault.DAMAGED_MESSAGE: _damaged_message,
    Fault.PERTURBED_PARAMETER: _perturbed_parameter,
    Fault.UNAVERAGED_GRADIENTS: _unaveraged_gradients,
    Fault.OVERLAPPING_SHARDS: _overlapping_shards,
    Fault.EPOCH_IGNORED: _epoch_ignored,
    Fault.CHECKPOINT_TWICE: _checkpoint_twice,
    Fault.CHECKPOINT_DAMAGED: _checkpoint_damaged,
    Fault.NO_LEARNING: _no_learning,
}


if __name__ == "__main__":
    sys.exit(main())
