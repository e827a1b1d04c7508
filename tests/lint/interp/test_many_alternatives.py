"""One of many: what a setting picks among eight or thirty stays what rules ask about, as among two."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.data import Dataset
from gpudoctor.lint.domain.module import Module, Wrapper, WrapperKind
from gpudoctor.lint.domain.optim import Optimizer, Parameters, Scheduler
from gpudoctor.lint.domain.symbols import Setting
from gpudoctor.lint.domain.tensor import Tensor, TensorOrigin
from gpudoctor.lint.domain.value import NONE, Const, Unknown, Value
from gpudoctor.lint.events.launch_world import LaunchWorld
from gpudoctor.lint.events.training_step import MakeOptimizer, OptimizerStep
from gpudoctor.lint.flow.valueset import Binding, ValueSet
from gpudoctor.lint.interp.widening import widened
from gpudoctor.lint.program import Program
from tests.support.linting import lint

HEAD = """
import argparse, os
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler
from torchvision import datasets, models, transforms
parser = argparse.ArgumentParser()
parser.add_argument("--kind", default="k0")
args = parser.parse_args()
dist.init_process_group("nccl")
gpu = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(gpu)
"""
MODEL = "model = DDP(models.resnet18().cuda(gpu), device_ids=[gpu])\n"
OPTIMIZER = "optimizer = torch.optim.SGD(model.parameters(), 0.1)\n"
DATA = "data = datasets.FakeData(transform=transforms.ToTensor())\n"
LOADER = "sampler = DistributedSampler(data)\nloader = DataLoader(data, 32, sampler=sampler)\n"
LOOP = """
for epoch in range(3):
    sampler.set_epoch(epoch)
    for x, y in loader:
        {clear}
        x, y = x.cuda(gpu), y.cuda(gpu)
        {before}
        loss = {loss}
        loss.backward()
        optimizer.step()
"""


def chain(name: str, count: int, made: Callable[[int], str], indent: str = "") -> str:
    """`if kind == 0: name = ... elif ...`, so many times."""
    tests = (f"{'elif' if n else 'if'} args.kind == 'k{n}':\n{indent}    {name} = {made(n)}\n" for n in range(count))
    return indent.join([*tests, "else:\n" + indent + "    raise ValueError(args.kind)\n"])


def loop(
    loss: str = "nn.functional.cross_entropy(model(x), y)", before: str = "", clear: str = "optimizer.zero_grad()"
) -> str:
    return LOOP.format(loss=loss, before=before or "pass", clear=clear)


LOSSES = ["cross_entropy", "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div"]
SETS = ["CIFAR10", "CIFAR100", "MNIST", "SVHN", "STL10", "Food101", "ImageFolder"]
BESIDE = "nn.functional.cross_entropy(model.module(x), y)"

PROGRAMS: dict[str, tuple[str, Callable[[int], str]]] = {
    "losses": (
        "GPU102",
        lambda count: MODEL + OPTIMIZER + DATA + LOADER + loop(
            "loss",
            "out = model.module(x)\n        "
            + chain("loss", count, lambda n: f"nn.functional.{LOSSES[n % 7]}(out, y)", " " * 8),
        ),
    ),
    "outputs": (
        "GPU102",
        lambda count: MODEL + OPTIMIZER + DATA + LOADER + loop(
            "nn.functional.cross_entropy(out, y)", chain("out", count, lambda n: f"model.module(x + {n})", " " * 8)
        ),
    ),
    "models": (
        "GPU101",
        lambda count: chain("model", count, lambda n: f"models.resnet18(num_classes={n}).cuda(gpu)")
        + OPTIMIZER + DATA + LOADER + loop(),
    ),
    "models of the project": (
        "GPU102",
        lambda count: "".join(
            f"class Net{n}(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            f"        self.head = nn.Linear({n + 1}, 2)\n    def forward(self, x):\n        return self.head(x)\n"
            for n in range(count)
        )
        + chain("net", count, lambda n: f"Net{n}().cuda(gpu)")
        + "model = DDP(net, device_ids=[gpu])\n" + OPTIMIZER + DATA + LOADER
        + loop("nn.functional.cross_entropy(net(x), y)"),
    ),
    "wrapped models": (
        "GPU102",
        lambda count: chain(
            "model", count, lambda n: f"DDP(models.resnet18(num_classes={n}).cuda(gpu), device_ids=[gpu])"
        )
        + OPTIMIZER + DATA + LOADER + loop(BESIDE),
    ),
    "optimizers": (
        "GPU709",
        lambda count: MODEL
        + chain("optimizer", count, lambda n: f"torch.optim.SGD(model.parameters(), lr=0.{n + 1})")
        + DATA + LOADER + loop(clear="pass"),
    ),
    "schedules": (
        "GPU516",
        lambda count: MODEL + OPTIMIZER + DATA + LOADER
        + chain("schedule", count, lambda n: f"torch.optim.lr_scheduler.StepLR(optimizer, {n + 1})")
        + loop() + "    if dist.get_rank() == 0:\n        schedule.step()\n",
    ),
    "data sets": (
        "GPU301",
        lambda count: MODEL + OPTIMIZER
        + chain("data", count, lambda n: f"datasets.{SETS[n % 7]}('data{n}', transform=transforms.ToTensor())")
        + "loader = DataLoader(data, 32, shuffle=True)\n" + loop().replace("sampler.set_epoch(epoch)", "pass"),
    ),
    "samplers": (
        "GPU302",
        lambda count: MODEL + OPTIMIZER + DATA
        + chain("sampler", min(count, 20), lambda n: f"DistributedSampler(data, seed={n})")
        + "loader = DataLoader(data, 32, sampler=sampler)\n" + loop().replace("sampler.set_epoch(epoch)", "pass"),
    ),
    "loaders": (
        "GPU301",
        lambda count: MODEL + OPTIMIZER + DATA
        + chain("loader", min(count, 20), lambda n: f"DataLoader(data, {n + 1}, shuffle=True)")
        + loop().replace("sampler.set_epoch(epoch)", "pass"),
    ),
    "functions": (
        "GPU102",
        lambda count: MODEL + OPTIMIZER + DATA + LOADER
        + "".join(f"def loss{n}(x, y):\n    return {BESIDE} * {n + 1}\n" for n in range(count))
        + chain("loss_of", min(count, 20), lambda n: f"loss{n}") + loop("loss_of(x, y)"),
    ),
    "numbers": (
        "GPU301",
        lambda count: chain("size", count, lambda n: f"{n + 1}") + MODEL + OPTIMIZER + DATA
        + "loader = DataLoader(data, size, shuffle=True)\n" + loop().replace("sampler.set_epoch(epoch)", "pass"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("count", [2, 8, 30])
@pytest.mark.parametrize("kind", PROGRAMS)
def test_a_mistake_with_one_of_many_is_found(tmp_path: Path, kind: str, count: int) -> None:
    code, program = PROGRAMS[kind]
    script = tmp_path / "train.py"
    script.write_text(HEAD + program(count), encoding="utf-8")
    assert {seen.code for seen in lint(script, folder=tmp_path, select=(code, "GPU307"))} == {code}


HERE = Location("train.py", 1, 1)
SEVERAL = {
    Module: [Module(n, HERE, "net", made_by="torch.nn.Linear") for n in range(30)],
    Wrapper: [Wrapper(n, HERE, "model", WrapperKind.DDP, Module(-n, HERE, "net")) for n in range(30)],
    Tensor: [Tensor(n, HERE, "loss", TensorOrigin.OUTPUT) for n in range(30)],
    Dataset: [Dataset(n, HERE, "data") for n in range(30)],
    Parameters: [Parameters(n, HERE, "model.parameters()", frozenset([Module(n, HERE, "model")])) for n in range(30)],
    Optimizer: [Optimizer(n, HERE, "optimizer", "torch.optim.Adam") for n in range(30)],
    Scheduler: [Scheduler(n, HERE, "schedule", "torch.optim.lr_scheduler.StepLR") for n in range(30)],
}


def kinds_of(values: Iterable[Value]) -> list[type[Value]]:
    return [type(each) for each in widened("x", ValueSet(map(Binding, values)))]


@pytest.mark.parametrize("kind", SEVERAL)
def test_too_many_of_a_kind_are_one_of_that_kind(kind: type[Value]) -> None:
    assert kinds_of(SEVERAL[kind]) == [kind]
    assert kinds_of([NONE, *SEVERAL[kind]]) == [Const, kind]


def test_what_is_unknown_beside_them_takes_nothing_from_them() -> None:
    unknown = [Unknown(Setting("a")), Unknown(Setting("b"))]
    assert kinds_of([*SEVERAL[Module], *unknown]) == [Module, Unknown]


def test_too_many_kinds_are_unknown() -> None:
    assert kinds_of([each for kind in SEVERAL.values() for each in kind]) == [Unknown]
    # Nobody knows what thirty numbers have in common.
    assert kinds_of([*SEVERAL[Module], *map(Const, range(30))]) == [Unknown]


def test_wrappers_of_several_kinds_have_nothing_in_common() -> None:
    others = [Wrapper(n + 100, HERE, "model", WrapperKind.FSDP, Module(n, HERE, "net")) for n in range(30)]
    assert kinds_of([*SEVERAL[Wrapper], *others]) == [Unknown]


def test_a_model_has_all_that_it_may_be_as_parts() -> None:
    (one,) = widened("x", ValueSet(map(Binding, SEVERAL[Wrapper])))
    program = Program(entry="train.py", world=LaunchWorld.TORCHRUN, log=())
    assert program.within(one) >= {each.core for each in SEVERAL[Wrapper]}


WAYS = """
if asks('{0}', {2}, 0): {0} = load('{0}', {2}, 0)
elif asks('{0}', {2}, 1): {0} = {1}
elif asks('{0}', {2}, 2): {0} = load('{0}', {2}, 2)
"""


def test_values_of_each_other_are_not_written_out(paper):
    """After each round both names may hold all that either held before: asked one by one, that is two to the rounds."""
    head = "import torch\nfrom lib import load, asks\nx, y = load('x'), load('y')"
    rounds = [WAYS.format(*names, number) for number in range(24) for names in ("xy", "yx")]
    found = paper(f"{head}{''.join(rounds)}if isinstance(x, dict):\n    print(x)\n")
    assert not found.program.stops


def test_each_of_several_objects_keeps_its_own(paper):
    paper(
        """
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--large", action="store_true")
        large = parser.parse_args().large
        class Box:
            def __init__(self, size):
                self.size = size
        small, big = Box(1), Box(2)
        box = big if large else small
        box.first = box.size
        reveal((small.first, big.first))  #: (1, 2)
        """
    )


def test_a_method_of_one_of_very_many_may_be_that_of_any(paper):
    choices = [f'torch.optim.SGD(net.parameters(), lr={number}) if kind == "{number}" else' for number in range(17)]
    program = paper(
        f"""
import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("--kind")
parser.add_argument("--log", action="store_true")
args = parser.parse_args()
kind, net = args.kind, torch.nn.Linear(2, 2)
optimizer = {" ".join(choices)} torch.optim.Adam(net.parameters())
def logged(self):
    print("step")
if args.log:
    optimizer.step = logged.__get__(optimizer)
optimizer.step()
"""
    ).program
    made = {event.optimizer for event in program.events(MakeOptimizer)}
    stepped = {event.optimizer for event in program.events(OptimizerStep)}
    assert len(made) == len(choices) + 1
    assert made <= stepped | program.escaped
