"""Two ranks over NCCL of which one does not come: what a watched run says, and what RAS says meanwhile."""

import threading
import time
from typing import Any

from tests.on_gpu import nccl
from tests.on_gpu.part import Here, Step, Tell, gpudoctor, json_of, launched

ASKS = "a rank that is missing in a collective of NCCL"
SECONDS = 70.0
GPUS = 2
MISSING = """
import os, time, torch
import torch.distributed as dist
rank = int(os.environ["RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
value = torch.ones(1, device="cuda")
dist.all_reduce(value)
torch.cuda.synchronize()
if rank == 0:
    dist.all_reduce(value)
    print(value.item())
else:
    time.sleep(600)
"""


def _missing(tell: Tell, here: Here) -> None:
    """Rank 0 calls a second collective alone."""
    if here.rehearsal:
        return
    script, report = here.folder / "missing.py", here.folder / "missing.json"
    script.write_text(MISSING, encoding="utf-8")
    asked: dict[str, Any] = {}

    def ask() -> None:
        time.sleep(25)
        asked.update(nccl.ras_answer())

    thread = threading.Thread(target=ask)
    thread.start()
    options = ["--no-lint", "--hang-after", "20", "--kill-on-hang", "--output-format", "json"]
    ended = gpudoctor(["run", *options, "--output-file", str(report), "--", *launched(script, 2)], min(60.0, here.left))
    thread.join()
    found = json_of(report)
    told = {name: found.get(name) for name in ("hang", "hang_verdict")}
    tell("missing", status=ended.status, **told, err=ended.err[-1500:])
    tell("ras", **asked)


STEPS = (Step("a rank that is missing", 45.0, _missing),)
