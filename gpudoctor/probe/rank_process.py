"""One rank of a probe: started by torch's launcher, or by a process that was given a rank.

`python -m gpudoctor.probe.rank_process FOLDER` reads the plan in FOLDER, meets the other ranks, does the stages in
order and writes what happens into FOLDER as lines of JSON, which outlive whatever becomes of this process.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from gpudoctor.probe import measurement_plan as plans
from gpudoctor.probe.context import PATIENCE, Context, Facts, NotHereError
from gpudoctor.probe.stages import START, Stage, stages_of
from gpudoctor.ranks.process_tree import die_with_parent

SHOW_STACKS = signal.SIGUSR2
"""What the parent sends to a rank that hangs: it writes the stacks of all threads to standard error."""

PLAN = "plan.json"
SHARED_FOLDER = "GPUDOCTOR_PROBE_SHARED"
"""Names the folder that the ranks of a node share, where it is another one than that of the plan."""
ROUND = "GPUDOCTOR_PROBE_ROUND"
"""Names under what the ranks of one start write into the store, which may outlive them."""
T = TypeVar("T")


def main(folder: Path) -> int:
    """Take part as the rank that the environment names; 0 also where a stage failed, which the log says."""
    die_with_parent()
    faulthandler.register(SHOW_STACKS, all_threads=True)
    rank = int(os.environ["RANK"])
    with (folder / f"rank{rank}.jsonl").open("a", encoding="utf-8") as file:
        log = _Log(file)
        log({"event": "alive", "rank": rank, "pid": os.getpid(), "host": os.uname().nodename})
        plan = plans.read((folder / PLAN).read_text(encoding="utf-8"))
        context = _attempt(START, lambda: _meet_the_others(plan, rank, folder, log), log)
        if context is not None:
            healthy = all(_done(stage, context) for stage in stages_of(plan))
            _leave(context)
            log({"event": "finished" if healthy else "left"})
    return 0


class _Log:
    """Appends lines that are whole, each with the time, and reach the file at once."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def __call__(self, entry: dict[str, Any]) -> None:
        self._file.write(json.dumps({"at": time.time(), **entry}) + "\n")
        self._file.flush()


def _attempt(name: str, work: Callable[[], T], log: Callable[[dict[str, Any]], None]) -> T | None:
    """Do it; where it fails, tell the parent and hand over nothing."""
    log({"event": "begin", "stage": name})
    try:
        return work()
    except Exception as error:
        trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        kind = type(error).__name__
        log({"event": "error", "stage": name, "kind": kind, "message": str(error).strip(), "traceback": trace})
    return None


def _meet_the_others(plan: plans.MeasurementPlan, rank: int, folder: Path, log: _Log) -> Context:
    """Take a device, find the other ranks and join the process group."""
    import torch
    import torch.distributed as dist

    world = plan.world
    device = _device(world, world.local_ranks[rank])
    store = _store()
    context = Context(plan, rank, world.local_ranks[rank], device, store, _shared(folder), log)
    everybody = context.gather("devices", {"device": _name_of(device), "torch": str(torch.__version__)})
    log({"event": "mark", "text": f"init_process_group({world.backend})"})
    group = dist.PrefixStore("group", store)
    dist.init_process_group(world.backend, store=group, rank=rank, world_size=world.size, timeout=PATIENCE)
    context.meet("started")
    log({"event": "end", "stage": START, "facts": {"everybody": everybody}})
    return context


def _shared(folder: Path) -> Path:
    shared = Path(os.environ.get(SHARED_FOLDER, folder)) / "shared"
    shared.mkdir(parents=True, exist_ok=True)
    return shared


def _device(world: plans.World, local_rank: int) -> Any:
    """The GPU of this rank, or the CPU with its share of the cores."""
    import torch

    if world.device != "cuda":
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // world.size))
        return torch.device("cpu")
    # With a GPU of its own for each task, SLURM shows every rank one GPU, called 0.
    device = torch.device("cuda", 0 if world.shared else local_rank % torch.cuda.device_count())
    torch.cuda.set_device(device)
    return device


def _leave(context: Context) -> None:
    import torch.distributed as dist

    # A rank that leaves early would make the others' last operations fail.
    context.meet("leaving")
    context.mark("destroy_process_group")
    dist.destroy_process_group()


def _store() -> Any:
    """The launcher's store, under names of our own."""
    import torch.distributed as dist

    # Ours to host only where nobody else does: under `srun` and in spawned ranks.
    hosted = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    store = dist.TCPStore(
        os.environ["MASTER_ADDR"],
        int(os.environ["MASTER_PORT"]),
        is_master=not hosted and os.environ["RANK"] == "0",
        timeout=PATIENCE,
    )
    return dist.PrefixStore(os.environ.get(ROUND, "gpudoctor"), store)


def _name_of(device: Any) -> str:
    """What tells this device from all others: the UUID of a GPU."""
    import torch

    if device.type != "cuda":
        return str(device)
    properties = torch.cuda.get_device_properties(device)
    return f"GPU-{getattr(properties, 'uuid', '')}" if hasattr(properties, "uuid") else f"{properties.name} {device}"


def _done(stage: Stage, context: Context) -> bool:
    """Do one stage and wait for the others; False ends the series, and the parent starts new ranks for the rest."""
    context.meet(f"before {stage.name}")
    facts = _attempt(stage.name, lambda: _facts(stage, context), context.log)
    if facts is None:
        return False
    context.log({"event": "end", "stage": stage.name, "facts": facts})
    context.meet(f"after {stage.name}")
    return True


def _facts(stage: Stage, context: Context) -> Facts:
    try:
        return stage.work(context)
    except NotHereError as error:
        return {"not_here": str(error)}


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
