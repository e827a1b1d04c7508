"""A program makes the same numbers, bit for bit, on virtual GPUs and on the CPU by gloo."""

import re
from pathlib import Path

import pytest

from tests.support.installs import require_torch
from tests.support.watching import REST, watch

require_torch()
PROGRAM = f"""\
import hashlib, os
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy
from torch.nn.parallel import DistributedDataParallel

local = int(os.environ["LOCAL_RANK"])
on_gpu = torch.cuda.is_available()
device = torch.device("cuda", local) if on_gpu else torch.device("cpu")
if on_gpu:
    torch.cuda.set_device(local)
dist.init_process_group("nccl" if on_gpu else "gloo")


def sharded(net, **options):
    return FullyShardedDataParallel(net, device_id=device, **options)


WAYS = {{
    "ddp": DistributedDataParallel,
    "fsdp1": sharded,
    "orig": lambda net: sharded(net, use_orig_params=True),
    "grads": lambda net: sharded(net, sharding_strategy=ShardingStrategy.SHARD_GRAD_OP),
    "whole": lambda net: sharded(net, sharding_strategy=ShardingStrategy.NO_SHARD),
}}
for way, wrap in WAYS.items():
    torch.manual_seed(7)
    net = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Dropout(0.1), nn.LayerNorm(32), nn.Linear(32, 4)).to(device)
    model = wrap(net)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    rows = torch.Generator().manual_seed(local)
    torch.manual_seed(100 + local)
    seen = hashlib.sha256()
    for _ in range(4):
        x, y = torch.randn(6, 16, generator=rows), torch.randint(4, (6,), generator=rows)
        loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        seen.update(loss.detach().cpu().numpy().tobytes())
        for each in model.parameters():
            if each.grad is not None:
                seen.update(each.grad.cpu().numpy().tobytes())
        optimizer.step()
    for each in model.parameters():
        seen.update(each.detach().cpu().numpy().tobytes())
    print(f"numbers {{way}} of rank {{local}} {{seen.hexdigest()}}\\n", end="", flush=True)
{REST}"""


def numbers(folder: Path, *options: str) -> list[str]:
    """A line for each way and rank."""
    (folder / "train.py").write_text(PROGRAM)
    seen = watch(folder, "--no-lint", "--nproc-per-node=2", *options, "train.py")
    found = re.findall(r"numbers \w+ of rank \d \w{64}", seen.out)
    assert len(found) == 10, seen.err[-3000:]
    return sorted(found)


def test_losses_gradients_and_weights_are_those_of_the_cpu(tmp_path: Path) -> None:
    if tuple(map(int, pytest.importorskip("torch").__version__.split(".")[:2])) < (2, 13):
        pytest.skip("whether FSDP1 trains on the CPU was tried with torch 2.13 alone")
    assert numbers(tmp_path, "--virtual-gpus=2") == numbers(tmp_path)
