"""Programs in layouts that few people use are fixed as well, from the command line to their text."""

from pathlib import Path

import pytest

from gpudoctor import cli

PROGRAM = """\
import functools, os
import torch; import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def train(model, loader, optimizer):
    for x, y in loader:
        optimizer.zero_grad(); loss = (model(x.cuda()) - y.cuda()).pow(2).mean(); loss.backward(); optimizer.step()


def evaluate(model, loader):
    model.eval()
    for x, y in loader: print(model(x.cuda()).sub(y.cuda()).abs().mean().item())


def main():
    dist.init_process_group("nccl"); local_rank = int(os.environ["LOCAL_RANK"]); torch.cuda.set_device(local_rank)
    torch.manual_seed(0); model = DDP(torch.nn.Linear(8, 1).cuda(), device_ids=[local_rank])
    data = TensorDataset(torch.randn(256, 8), torch.randn(256, 1))
    sampler = DistributedSampler(data); loader = DataLoader(data, batch_size=16, sampler=sampler)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(10): sampler.set_epoch(epoch); train(model, loader, optimizer)
    if len(data) > 0 and dist.get_rank() == 0: torch.save(model.module.state_dict(), "model.pt")
    evaluate(model, loader)
    print("done"); dist.destroy_process_group()


if __name__ == "__main__":
    main()
"""
SAVE = """\
    if len(data) > 0 and dist.get_rank() == 0: torch.save(model.module.state_dict(), "model.pt")
"""
LAYOUTS = {
    "the body of a loop behind its colon": (
        "GPU302",
        """\
    for epoch in range(10): sampler.set_epoch(epoch); train(model, loader, optimizer)
""",
        """\
    for epoch in range(10): train(model, loader, optimizer)  # all of them
""",
        """\
    for epoch in range(10):
        sampler.set_epoch(epoch)
        train(model, loader, optimizer)  # all of them
""",
    ),
    "the body of a test behind its colon": (
        "GPU601",
        SAVE,
        """\
    if len(data) > 0: torch.save(model.module.state_dict(), "model.pt")  # the last
""",
        """\
    if len(data) > 0:
        if dist.get_rank() == 0:
            torch.save(model.module.state_dict(), "model.pt")  # the last
""",
    ),
    "one of several statements on a line": (
        "GPU601",
        SAVE,
        """\
    print("saving"); torch.save(model.module.state_dict(), "model.pt"); print("saved")  # the last
""",
        """\
    print("saving")
    if dist.get_rank() == 0:
        torch.save(model.module.state_dict(), "model.pt")
    print("saved")  # the last
""",
    ),
    "the order of several statements": (
        "GPU206",
        """\
    dist.init_process_group("nccl"); local_rank = int(os.environ["LOCAL_RANK"]); torch.cuda.set_device(local_rank)
""",
        """\
    dist.init_process_group("nccl"); local_rank = int(os.environ["LOCAL_RANK"])
    dist.barrier(); torch.cuda.set_device(local_rank)  # all here
""",
        """\
    dist.init_process_group("nccl"); local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)  # all here
    dist.barrier()
""",
    ),
    "a comma behind the last argument": (
        "GPU608",
        SAVE,
        """\
    os.makedirs(
        "out", 0o755,
    )
""",
        """\
    os.makedirs(
        "out", 0o755, exist_ok=True,
    )
""",
    ),
    "a function that has a decorator": (
        "GPU805",
        """\
def evaluate(model, loader):
    model.eval()
    for x, y in loader: print(model(x.cuda()).sub(y.cuda()).abs().mean().item())
""",
        """\
# Held out.
@functools.lru_cache(maxsize=None)  # once
def evaluate(model, loader):
    model.eval()
    for x, y in loader: print(model(x.cuda()).sub(y.cuda()).abs().mean().item())
""",
        """\
# Held out.
@functools.lru_cache(maxsize=None)  # once
@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    for x, y in loader: print(model(x.cuda()).sub(y.cuda()).abs().mean().item())
""",
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_is_fixed(layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, good, bad, fixed = LAYOUTS[layout]
    assert PROGRAM.count(good) == 1
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "train.py"
    program.write_text(PROGRAM.replace(good, bad), encoding="utf-8")
    cli.main(["lint", "--no-cache", "--launch=torchrun", f"--select={code}", "--fix", "--unsafe-fixes", "train.py"])
    assert program.read_text(encoding="utf-8") == PROGRAM.replace(good, fixed)
