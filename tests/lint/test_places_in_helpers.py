"""Where a finding stands that happens in a helper: at the call, where the helper is right for its other callers."""

from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.linting import Seen, lint


class Helped(NamedTuple):
    """A helper, the program before it is called, a call of it that is wrong and one that is right."""

    helper: str
    wrong: str
    right: str
    loop: bool = False
    """The calls are made in the training loop."""


START = """
import os
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from helper import act

gpu = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(gpu)
dist.init_process_group("nccl")
model = DistributedDataParallel(nn.Linear(4, 4).cuda(), device_ids=[gpu])
frozen = nn.Linear(4, 4).cuda()
for each in frozen.parameters():
    each.requires_grad_(False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(2, 4, device="cuda")
"""
STEP = """
for step in range(100):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
"""
ALONE = "if dist.get_rank() == 0:\n    "
HELPED = {
    "GPU601": Helped("torch.save(each, 'a.pt')", "act(model.module.state_dict())", f"{ALONE}act(x)"),
    "GPU604": Helped(
        "return torch.load('a.pt', map_location='cpu')",
        f"{ALONE}torch.save(frozen.state_dict(), 'a.pt')\nfrozen.load_state_dict(act(0))",
        f"{ALONE}act(x)",
    ),
    "GPU608": Helped("os.rmdir(each)", "act('runs')", f"{ALONE}act('logs')"),
    "GPU607": Helped("wandb.init(project=each)", "act('a')", f"{ALONE}act('a')"),
    "GPU510": Helped("dist.all_reduce(each)", "act(torch.zeros(3))", "act(torch.zeros(3, device='cuda'))"),
    "GPU105": Helped(
        "return DistributedDataParallel(each)", "act(model)", "other = act(nn.Linear(4, 4).cuda())\nother(x)"
    ),
    "GPU118": Helped("return DistributedDataParallel(each)", "act(frozen)", "act(nn.Linear(4, 4).cuda())"),
    "GPU207": Helped("return DistributedDataParallel(each)", "act(nn.Linear(4, 4))", "act(nn.Linear(4, 4).cuda())"),
    "GPU801": Helped("return each.item()", "    act(loss)", "act(model(x).sum())", loop=True),
    "GPU511": Helped("dist.barrier()", "    act(loss)", "act(x)", loop=True),
    "GPU515": Helped("return dist.new_group()", "    act(loss)", "act(x)", loop=True),
}
TOP = "import os\nimport torch\nimport torch.distributed as dist\nimport wandb\n"
TOP += "from torch.nn.parallel import DistributedDataParallel\n\n"


def _found(code: str, folder: Path, *calls: str) -> list[Seen]:
    case = HELPED[code]
    (folder / "helper.py").write_text(f"{TOP}\ndef act(each):\n    {case.helper}\n")
    after = "\n".join(calls) + "\n"
    (folder / "train.py").write_text(START + (STEP + after if case.loop else after + STEP))
    return lint(folder / "train.py", folder=folder, select=(code,))


def _lines(folder: Path, text: str) -> list[int]:
    wanted = text.splitlines()[-1]
    return [at for at, line in enumerate((folder / "train.py").read_text().splitlines(), 1) if line == wanted]


@pytest.mark.parametrize("code", HELPED)
def test_a_helper_that_is_right_for_nobody_is_the_place(tmp_path: Path, code: str) -> None:
    (found,) = _found(code, tmp_path, HELPED[code].wrong)
    assert found.path == "helper.py"


@pytest.mark.parametrize("code", HELPED)
def test_where_a_helper_is_right_for_others_the_call_is_the_place(tmp_path: Path, code: str) -> None:
    case = HELPED[code]
    (found,) = _found(code, tmp_path, case.wrong, case.right)
    assert (found.path, [found.line]) == ("train.py", _lines(tmp_path, case.wrong))
    assert "helper.py" in {path for path, _ in found.related}


def test_a_helper_that_makes_folders_is_the_place_whoever_calls_it(tmp_path: Path) -> None:
    helper = "def act(each):\n    os.makedirs(each)\n\nact('runs')\n" + ALONE + "act('logs')\n"
    (tmp_path / "train.py").write_text(START.replace("from helper import act\n", "") + helper + STEP)
    (found,) = lint(tmp_path / "train.py", folder=tmp_path, select=("GPU608",))
    assert [found.line] == _lines(tmp_path, "    os.makedirs(each)")


@pytest.mark.parametrize("code", ["GPU601", "GPU607", "GPU510", "GPU118"])
def test_two_calls_that_are_wrong_are_one_finding(tmp_path: Path, code: str) -> None:
    case = HELPED[code]
    (found,) = _found(code, tmp_path, case.wrong, case.right, case.wrong)
    first, second = _lines(tmp_path, case.wrong)
    assert (found.path, found.line) == ("train.py", first)
    assert ("train.py", second) in found.related


def test_the_call_is_that_of_the_code_that_is_right_for_others(tmp_path: Path) -> None:
    outer = "def save(each):\n    act(each)\n\nsave(model.module.state_dict())"
    (found,) = _found("GPU601", tmp_path, outer, HELPED["GPU601"].right)
    assert (found.path, [found.line]) == ("train.py", _lines(tmp_path, "    act(each)"))


GUARDED = {
    "GPU602": Helped("torch.save(each, 'a.pt')", "if gpu == 0:\n    act(model.module.state_dict())", ""),
    "GPU119": Helped("model.load_state_dict(torch.load('a.pt'))", f"{ALONE}act(0)", ""),
}


@pytest.mark.parametrize("code", GUARDED)
def test_the_call_under_the_test_is_the_place(tmp_path: Path, code: str) -> None:
    case = GUARDED[code]
    text = f"\ndef act(each):\n    {case.helper}\n\n{case.wrong}\n"
    (tmp_path / "train.py").write_text(START.replace("from helper import act\n", "") + text + STEP)
    (found,) = lint(tmp_path / "train.py", folder=tmp_path, select=(code,))
    assert [found.line] == _lines(tmp_path, case.wrong)
    assert ("train.py", *_lines(tmp_path, f"    {case.helper}")) in found.related


PARTED = {
    "GPU505": (
        "def show(each):\n    print(each.item())\n",
        "total = model(x).sum().detach()\ndist.reduce(total, 0)\nshow(total)\n",
        "show(total)",
    ),
    "GPU509": (
        "def show(each):\n    print(each.item())\n",
        "total = torch.ones(1, device='cuda')\nwork = dist.all_reduce(total, async_op=True)\nshow(total)\n"
        "work.wait()\n",
        "show(total)",
    ),
    "GPU509 dropped": (
        "def add(each):\n    dist.all_reduce(each, async_op=True)\n",
        "total = torch.ones(1, device='cuda')\nadd(total)\nprint(total.item())\n",
        "    dist.all_reduce(each, async_op=True)",
    ),
    "GPU703": (
        "def clip(each):\n    nn.utils.clip_grad_norm_(each.parameters(), 1.0)\n",
        "scaler = torch.amp.GradScaler('cuda')\nfor step in range(100):\n    optimizer.zero_grad()\n"
        "    scaler.scale(model(x).square().mean()).backward()\n    clip(model)\n    scaler.step(optimizer)\n"
        "    scaler.update()\n",
        "    clip(model)",
    ),
    "GPU705": (
        "def clip(each):\n    nn.utils.clip_grad_norm_(each.parameters(), 1.0)\n",
        STEP.replace("    optimizer.step()", "    optimizer.step()\n    clip(model)"),
        "    clip(model)",
    ),
    "GPU706": (
        "def average(each):\n    for one in each.parameters():\n        dist.all_reduce(one.grad)\n",
        STEP.replace("    optimizer.step()", "    average(model)\n    optimizer.step()"),
        "    average(model)",
    ),
    "GPU711": (
        "def learn(each):\n    each.backward()\n",
        STEP.replace("loss.backward()", "learn(loss)").replace("    optimizer.step()", "    print(step)"),
        "    learn(loss)",
    ),
    "GPU805": (
        "def guess(net, each):\n    return net(each).square().mean()\n",
        "loader = torch.utils.data.DataLoader([x], batch_size=2)\n"
        + STEP.replace("model(x).square().mean()", "guess(model, x)")
        + "\nfor each in loader:\n"
        "    print(guess(model, each.cuda()).item())\n",
        "    print(guess(model, each.cuda()).item())",
    ),
}


@pytest.mark.parametrize("case", PARTED)
def test_where_order_decides_the_place_is_in_the_function_that_decides_it(tmp_path: Path, case: str) -> None:
    helper, rest, wanted = PARTED[case]
    (tmp_path / "train.py").write_text(START.replace("from helper import act\n", "") + helper + rest)
    (found,) = lint(tmp_path / "train.py", folder=tmp_path, select=(case[:6],))
    assert found.line == _lines(tmp_path, wanted)[-1]


def test_the_second_call_of_what_makes_the_group_is_the_place(tmp_path: Path) -> None:
    start = "\ndef start():\n    dist.init_process_group('nccl')\n\nstart()\nprint(0)\nstart()\n"
    text = START.replace("from helper import act\n", "").replace('dist.init_process_group("nccl")', start)
    (tmp_path / "train.py").write_text(text + STEP)
    (found,) = lint(tmp_path / "train.py", folder=tmp_path, select=("GPU410",))
    assert found.line == _lines(tmp_path, "start()")[1]
