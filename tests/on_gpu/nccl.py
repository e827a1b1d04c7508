"""NCCL with one rank: what the flight recorder keeps, what RAS answers, what the watchdog writes, how it is read."""

import os
import sys
from typing import Any

from gpudoctor.plain import plain
from gpudoctor.run import ras
from tests.on_gpu.part import Here, Step, Tell, gpudoctor, json_of, run

ASKS = "the flight recorder, the watchdog and RAS, and what gpudoctor makes of them"
SECONDS = 100.0
GPUS = 1
_CYCLES = 4_000_000_000
"""For which a kernel sleeps: some two seconds."""

_STUCK = """
import datetime, os, torch
import torch.distributed as dist
torch.cuda.set_device(0)
dist.init_process_group("nccl", timeout=datetime.timedelta(seconds=5))
value = torch.ones(1, device="cuda")
dist.all_reduce(value)
torch.cuda.synchronize()
for _ in range(20):
    torch.cuda._sleep(4_000_000_000)
dist.all_reduce(value)
print(value.item())
"""
"""A collective that cannot begin, since a kernel is in its way for longer than the group waits."""


def _healthy(tell: Tell, here: Here) -> None:
    if here.rehearsal:
        return
    import torch
    import torch.distributed as dist
    from torch.cuda.nccl import version
    from torch.distributed import HashStore

    from gpudoctor.run.instruments import listener

    listener.keep_collectives()
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", store=HashStore(), rank=0, world_size=1)
    value = torch.ones(1024, device="cuda")
    for _ in range(3):
        dist.all_reduce(value)
    torch.cuda.synchronize()
    backend = dist.group.WORLD._get_backend(torch.device("cuda"))
    tell("nccl", version=list(version()), backend=type(backend).__name__, torch=torch.__version__)
    tell("recorder, ended", entries=listener.collectives(), raw=_last_raw(), dumps=_dumps())
    torch.cuda._sleep(_CYCLES)
    work = dist.all_reduce(value, async_op=True)
    tell("recorder, open", entries=listener.collectives(), raw=_last_raw())
    tell("ras", **ras_answer())
    work.wait()
    torch.cuda.synchronize()
    dist.destroy_process_group()


def _dumps() -> list[str]:
    import torch

    return [name for name in dir(torch._C._distributed_c10d) if "_dump_" in name]


def _last_raw() -> dict[str, Any]:
    """The newest entry as the recorder gives it, without its frames."""
    import pickle

    import torch

    for name in ("_dump_fr_trace", "_dump_nccl_trace"):
        dump = getattr(torch._C._distributed_c10d, name, None)
        entries = pickle.loads(dump()).get("entries", []) if dump is not None else []
        if entries:
            return {"from": name, **{key: str(value) for key, value in entries[-1].items() if key != "frames"}}
    return {}


def ras_answer() -> dict[str, Any]:
    """What the service answers to gpudoctor's question, and what gpudoctor reads in it."""
    try:
        answer = ras.ask(ras.PORT)
    except OSError as error:
        return {"port": ras.PORT, "error": f"{type(error).__name__}: {error}"}
    try:
        read = plain(ras.read(answer, None))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return {"port": ras.PORT, "answer": answer[:8000], "unread": f"{type(error).__name__}: {error}"}
    return {"port": ras.PORT, "answer": answer[:8000], "read": read}


def _watchdog(tell: Tell, here: Here) -> None:
    if here.rehearsal:
        return
    script = here.folder / "stuck.py"
    script.write_text(_STUCK, encoding="utf-8")
    variables = {
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
        "TORCH_FR_BUFFER_SIZE": "200",
        "TORCH_FR_DUMP_TEMP_FILE": str(here.folder / "recorder-"),
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": str(here.folder / "recorder-"),
    }
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=1", str(script)]
    ended = run(launcher, min(60.0, here.left), variables)
    log = here.folder / "watchdog.log"
    log.write_text(ended.out + ended.err, encoding="utf-8")
    dumps = sorted(path.name for path in here.folder.glob("recorder-*"))
    tell("watchdog", status=ended.status, seconds=ended.seconds, text=ended.err, dumps=dumps)
    told = here.folder / "read.json"
    logs = [str(log), *(os.path.join(here.folder, name) for name in dumps)]
    read = gpudoctor(["read", *logs, "--output-format", "json", "--output-file", str(told)], 30.0)
    tell("read", status=read.status, report=json_of(told), err=read.err)


STEPS = (Step("flight recorder and RAS", 20.0, _healthy), Step("watchdog", 35.0, _watchdog))
