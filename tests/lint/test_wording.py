"""Remedies speak in the words of the file that they are about."""

import textwrap

import pytest

from tests.support.linting import lint

SAVES = """
import os, torch
{imports}
{begin}
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
torch.save(torch.nn.Linear(2, 2).state_dict(), "model.pt")
"""


@pytest.mark.parametrize(
    ("imports", "begin", "expected"),
    [
        ("import torch.distributed as dist", "dist.init_process_group()", "`if dist.get_rank() == 0:`"),
        ("import torch.distributed as td", "td.init_process_group()", "`if td.get_rank() == 0:`"),
        ("from torch import distributed", "distributed.init_process_group()", "`if distributed.get_rank() == 0:`"),
        ("import torch.distributed", "torch.distributed.init_process_group()", "`if torch.distributed.get_rank()"),
        ("from torch.distributed import *", "init_process_group()", "`if torch.distributed.get_rank() == 0:`"),
        (
            "from torch.distributed import get_rank, init_process_group",
            "init_process_group()",
            "`if get_rank() == 0:`",
        ),
    ],
)  # fmt: skip
def test_the_process_group_is_asked_as_the_file_calls_it(imports, begin, expected, tmp_path):
    (tmp_path / "train.py").write_text(SAVES.format(imports=imports, begin=begin))
    (found,) = lint(tmp_path / "train.py", folder=tmp_path, select=("GPU601",))
    assert expected in found.remedy


SWITCHED = """
import argparse, os, torch
import torch.distributed as dist
parser = argparse.ArgumentParser()
parser.add_argument("--distributed", action="store_true")
args = parser.parse_args()
{before}
if {test}:
    dist.init_process_group()
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
{behind}
"""
SAVE = 'torch.save(torch.nn.Linear(2, 2).state_dict(), "model.pt")'


@pytest.mark.parametrize(
    ("before", "test", "behind", "expected"),
    [
        ("", "args.distributed", SAVE, "`if not dist.is_initialized() or dist.get_rank() == 0:`"),
        (
            "",
            'int(os.environ.get("WORLD_SIZE", 1)) > 1',
            SAVE,
            "`if not dist.is_initialized() or dist.get_rank() == 0:`",
        ),
        (SAVE, "True", "", '`if int(os.environ.get("RANK", 0)) == 0:`'),
    ],
)
def test_a_remedy_holds_for_one_process_as_well(before, test, behind, expected, tmp_path):
    (tmp_path / "train.py").write_text(SWITCHED.format(before=before, test=test, behind=behind))
    (found,) = lint(tmp_path / "train.py", folder=tmp_path, select=("GPU601",))
    assert expected in found.remedy


ON_ACCELERATE = """
import torch, torchvision
from accelerate import Accelerator
accelerator = Accelerator()
torch.cuda.set_device(accelerator.process_index)
data = torchvision.datasets.MNIST("digits", download=True)
accelerator.wait_for_everyone()
model, loader = accelerator.prepare(torch.nn.Linear(4, 4), torch.utils.data.DataLoader(data))
"""


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("GPU205", "`accelerator.local_process_index`."),
        ("GPU314", "`with accelerator.local_main_process_first():`"),
    ],
)
def test_a_remedy_takes_what_the_framework_has(code, expected, tmp_path):
    (tmp_path / "train.py").write_text(ON_ACCELERATE)
    (found,) = lint(tmp_path / "train.py", folder=tmp_path, select=(code,))
    assert expected in found.remedy


ON_FABRIC = """
import torch
from lightning.fabric import Fabric
fabric = Fabric(devices=4)
model = torch.nn.Linear(4, 1)
model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))
train = torch.utils.data.DataLoader(torch.randn(64, 4), shuffle=True)
train, val = fabric.setup_dataloaders(train, torch.utils.data.DataLoader(torch.randn(64, 4)))
for x in train:
    optimizer.zero_grad()
    fabric.backward(model(x).mean())
    optimizer.step()
total = 0
with torch.no_grad():
    for x in val:
        total += model(x).mean()
fabric.print(total.item() / len(val))
"""


def test_fabric_has_no_log_that_could_be_told_to_take_the_mean(tmp_path):
    (tmp_path / "train.py").write_text(ON_FABRIC)
    (found,) = lint(tmp_path / "train.py", folder=tmp_path, select=("GPU312",))
    assert "`fabric.all_reduce(...)`" in found.remedy


def test_the_local_rank_comes_from_who_starts_the_processes(tmp_path):
    (tmp_path / "train.py").write_text(
        "import os, torch\nimport torch.distributed as dist\n"
        'rank = int(os.environ["SLURM_PROCID"])\ntorch.cuda.set_device(rank)\n'
        'dist.init_process_group("nccl", rank=rank, world_size=int(os.environ["SLURM_NTASKS"]))\n'
    )
    (found,) = lint(tmp_path / "train.py", folder=tmp_path, select=("GPU205",))
    assert '`int(os.environ["SLURM_LOCALID"])`.' in found.remedy


ACCELERATED = """
    import torch
    from accelerate import Accelerator
    from torch.utils.data import DataLoader, TensorDataset

    def store(model):
        torch.save(model.state_dict(), "model.pt")

    def main():
        {first}
        accelerator = Accelerator()
        data = TensorDataset(torch.randn(64, 8), torch.randn(64, 1))
        model = torch.nn.Linear(8, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loader = DataLoader(data, batch_size=8, shuffle=True)
        model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
        for step, (x, y) in enumerate(loader):
            loss = torch.nn.functional.mse_loss(model(x), y) / 4
            {backward}
            if step % 4 == 3:
                optimizer.step()
                optimizer.zero_grad()
        accelerator.wait_for_everyone()
        {end}

    main()
"""


def test_accelerate_is_asked_by_its_own_names(tmp_path):
    end = 'torch.save(model.state_dict(), "model.pt")'
    (found,) = _accelerated(tmp_path, "GPU601", end=end)
    assert "`if accelerator.is_main_process:`" in found.remedy


def test_a_file_without_an_accelerator_is_told_another_way(tmp_path):
    (tmp_path / "storage.py").write_text("import torch\n\n\ndef store(model):\n    torch.save(model, 'a.pt')\n")
    (found,) = _accelerated(tmp_path, "GPU601", end="import storage; storage.store(model.state_dict())")
    assert "`if accelerate.PartialState().is_main_process:`" in found.remedy


def test_an_accelerator_that_is_made_later_is_not_asked(tmp_path):
    end = "accelerator.print('done')"
    (found,) = _accelerated(tmp_path, "GPU601", end=end, first='torch.save(torch.ones(1), "ones.pt")')
    assert "`if accelerate.PartialState().is_main_process:`" in found.remedy


@pytest.mark.parametrize("backward", ["accelerator.backward(loss)", "loss.backward()"])
def test_accelerate_accumulates_in_its_own_way(backward, tmp_path):
    (found,) = _accelerated(tmp_path, "GPU701", backward=backward)
    assert "accelerator.accumulate(model)" in found.remedy
    assert "no_sync" not in found.remedy


def _accelerated(folder, code, backward="accelerator.backward(loss)", end="pass", first="pass"):
    program = textwrap.dedent(ACCELERATED).format(backward=backward, end=end, first=first)
    (folder / "train.py").write_text(program)
    return lint(folder / "train.py", folder=folder, select=(code,))


def test_what_a_call_returns_is_not_kept_under_the_name_of_the_function(tmp_path):
    program = """
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    model = torch.nn.Linear(8, 2).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = TensorDataset(torch.randn(512, 8), torch.randint(2, (512, 1)))
    for x, targets in DataLoader(data, batch_size=32, shuffle=True):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x.cuda()), targets.view(-1)).backward()
        optimizer.step()
    """
    (tmp_path / "train.py").write_text(textwrap.dedent(program))
    (found,) = lint(tmp_path / "train.py", folder=tmp_path, select=("GPU201",))
    assert "`targets.view(-1).to(device, non_blocking=True)`" in found.remedy
    assert "targets.view(-1)" in found.message


def test_a_folder_without_a_name_is_not_shown(tmp_path):
    program = """
    import os, torch, torch.distributed as dist
    dist.init_process_group("nccl")
    os.makedirs("")
    """
    (tmp_path / "train.py").write_text(textwrap.dedent(program))
    (found,) = lint(tmp_path / "train.py", folder=tmp_path, select=("GPU608",))
    assert "``" not in found.message
    assert "makes the same folder here" in found.message


def test_apex_accumulates_in_its_own_way(tmp_path):
    (tmp_path / "train.py").write_text(
        textwrap.dedent("""
        import torch
        from apex.parallel import DistributedDataParallel
        torch.distributed.init_process_group("nccl")
        model = DistributedDataParallel(torch.nn.Linear(2, 2).cuda())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(100):
            (model(torch.randn(4, 2).cuda()).sum() / 4).backward()
            if step % 4 == 3:
                optimizer.step()
                optimizer.zero_grad()
        """)
    )
    (found,) = lint(tmp_path / "train.py", folder=tmp_path, select=("GPU701",))
    assert "`model.disable_allreduce()`" in found.remedy
    assert "no_sync" not in found.remedy


IN_ONE_OR_SPAWNED = """
import settings, torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

def work(gpu, args):
    if args.distributed:
        dist.init_process_group("nccl", "tcp://127.0.0.1:29500", world_size=args.gpus, rank=gpu)
    model = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)))
    if args.distributed:
        torch.cuda.set_device(gpu)
        model = nn.parallel.DistributedDataParallel(model.cuda(), device_ids=[gpu])
    else:
        model = nn.DataParallel(model.cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(10):
        model(torch.randn(8, 3, 8, 8).cuda()).mean().backward()
        optimizer.step()

if __name__ == "__main__":
    args = settings.load()
    args.distributed = args.nodes > 1 or args.spawn
    if args.gpus == 1:
        args.distributed = args.spawn = False
    if args.spawn:
        mp.spawn(work, nprocs=args.gpus, args=(args,))
    else:
        work(0, args)
"""


def test_what_data_parallel_does_happens_where_no_process_is_started(tmp_path):
    (tmp_path / "train.py").write_text(IN_ONE_OR_SPAWNED)
    found = lint(tmp_path / "train.py", folder=tmp_path, select=("GPU110", "GPU709"))
    assert {each.code: each.world for each in found} == {"GPU110": "single", "GPU709": "spawn"}
