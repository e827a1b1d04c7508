"""The errors of the rules about devices as CUDA and NCCL really print them: a short program for each, started here."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from tests.on_gpu.part import MOST_TEXT, Ended, Here, Step, Tell, python, run

ASKS = "the text of each error that rules about devices name"
SECONDS = 150.0
GPUS = 1
_EACH = 60.0
_LEAST = 10.0
_AT_ONCE = max(2, min(8, (os.cpu_count() or 2) // 2))


class Program(NamedTuple):
    """A program that must fail, the rules of which one is behind its error, and what it needs."""

    code: str
    rules: tuple[str, ...]
    gpus: int = 1
    ranks: int = 0
    """Started by torch's launcher where there are any."""


_START = "import os, torch\nfrom torch import nn\n"
_ALONE = """import torch.distributed as dist
from torch.distributed import HashStore
torch.cuda.set_device(0)
dist.init_process_group("nccl", store=HashStore(), rank=0, world_size=1)
from torch.nn.parallel import DistributedDataParallel as DDP
"""
"""A process group of NCCL with one rank."""

PROGRAMS: dict[str, Program] = {
    "batch on the CPU": Program("nn.Linear(4, 4).cuda()(torch.ones(2, 4))", ("GPU201",)),
    "targets on the CPU": Program(
        "nn.functional.cross_entropy(torch.randn(2, 4).cuda(), torch.tensor([1, 2]))", ("GPU201",)
    ),
    "picture on the CPU": Program("nn.Conv2d(3, 4, 3).cuda()(torch.ones(1, 3, 8, 8))", ("GPU201",)),
    "model on the CPU": Program("nn.Linear(4, 4)(torch.ones(2, 4).cuda())", ("GPU202",)),
    "convolution on the CPU": Program("nn.Conv2d(3, 4, 3)(torch.ones(1, 3, 8, 8).cuda())", ("GPU202",)),
    "tensor made on the CPU": Program("torch.ones(4).cuda() + torch.zeros(4)", ("GPU213",)),
    "no such GPU": Program("torch.cuda.set_device(99)", ("GPU205",)),
    "tensor on no such GPU": Program("torch.ones(4, device='cuda:99')", ("GPU205",)),
    "no visible GPU": Program("os.environ['CUDA_VISIBLE_DEVICES'] = ''\ntorch.ones(4).cuda()", ("GPU210",)),
    "out of memory": Program("torch.empty(1 << 46, device='cuda')", ("GPU204", "GPU209")),
    "label out of range": Program(
        "nn.functional.cross_entropy(torch.randn(2, 4).cuda(), torch.tensor([1, 9]).cuda())\ntorch.cuda.synchronize()",
        (),
    ),
    "index out of range": Program("nn.Embedding(4, 4).cuda()(torch.tensor([9]).cuda())\ntorch.cuda.synchronize()", ()),
    "GPU in a worker": Program(
        "from torch.utils.data import DataLoader\n"
        "class Data:\n"
        "    def __len__(self): return 4\n"
        "    def __getitem__(self, index): return torch.ones(2).cuda()\n"
        "torch.ones(1).cuda()\n"
        "list(DataLoader(Data(), num_workers=1, multiprocessing_context='fork'))",
        ("GPU216", "GPU406"),
    ),
    "checkpoint of a GPU": Program(
        "import io, subprocess, sys\n"
        "torch.save(torch.ones(4).cuda(), '/dev/shm/gpudoctor-checkpoint.pt')\n"
        "code = \"import torch; torch.load('/dev/shm/gpudoctor-checkpoint.pt')\"\n"
        "ended = subprocess.run([sys.executable, '-c', code], env={**os.environ, 'CUDA_VISIBLE_DEVICES': ''})\n"
        "os.remove('/dev/shm/gpudoctor-checkpoint.pt')\n"
        "sys.exit(ended.returncode)",
        ("GPU209",),
    ),
    "wrapped on the CPU": Program(_ALONE + "DDP(nn.Linear(4, 4), device_ids=[0])", ("GPU207",)),
    "two device_ids": Program(_ALONE + "DDP(nn.Linear(4, 4).cuda(), device_ids=[0, 0])", ("GPU208",)),
    "CPU tensor with NCCL": Program(_ALONE + "dist.all_reduce(torch.ones(4))", ("GPU510",)),
    "two ranks on one GPU": Program(
        "import torch.distributed as dist\n"
        "torch.cuda.set_device(0)\n"
        "dist.init_process_group('nccl')\n"
        "dist.all_reduce(torch.ones(1).cuda())\n"
        "torch.cuda.synchronize()",
        ("GPU204",),
        ranks=2,
    ),
    "module on another GPU": Program(
        "nn.DataParallel(nn.Linear(4, 4).to('cuda:1'), device_ids=[0, 1])(torch.ones(4, 4).cuda())", ("GPU208",), gpus=2
    ),
    "layers on two GPUs": Program(
        "nn.Linear(4, 4).to('cuda:1')(nn.Linear(4, 4).to('cuda:0')(torch.ones(2, 4).cuda()))", ("GPU215",), gpus=2
    ),
}


def _programs(tell: Tell, here: Here) -> None:
    """Start them, some at once, and keep how each has ended; for some no time may be left."""
    # Their errors come from CUDA alone: without it one of them shows that programs are started and read.
    names = ["no such GPU"] if here.rehearsal else [name for name in PROGRAMS if PROGRAMS[name].gpus <= here.gpus]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for name, ended in zip(names, pool.map(lambda name: _ended(PROGRAMS[name], here), names), strict=True):
            if ended is None:
                continue
            # NCCL's warnings are on standard output.
            told = (ended.out + ended.err)[-MOST_TEXT:]
            tell(name, status=ended.status, seconds=ended.seconds, rules=list(PROGRAMS[name].rules), text=told)


def _ended(program: Program, here: Here) -> Ended | None:
    if here.left < _LEAST:
        return None
    code, limit = _START + program.code, min(_EACH, here.left)
    if not program.ranks:
        return python(code, limit)
    script = here.folder / "ranks.py"
    script.write_text(code, encoding="utf-8")
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command = [*launcher, f"--nproc-per-node={program.ranks}", str(script)]
    return run(command, limit, {"NCCL_DEBUG": "WARN"})


STEPS = (Step("programs that fail", _LEAST, _programs),)
