"""Every library model answers whatever a program hands it: no call crashes, and none ends the path by accident."""

import keyword
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from gpudoctor.lint.interface import library_call
from gpudoctor.lint.library import huggingface, register
from gpudoctor.manifest.compiled import methods
from tests.support.models import every_model

MODELS = every_model()
ENDING = {
    *("sys.exit", "builtins.exit", "builtins.quit", "os._exit", "os.abort"),
    *("click.Context.exit", "click.Context.fail"),
}
PREPARED = """
import torch, torch.nn as nn, torch.distributed as dist, argparse, contextlib, os, accelerate, company, submitit, typer
from torch.utils.data import DataLoader, TensorDataset
unknown = company.thing
args = argparse.ArgumentParser().parse_args()
model = nn.Linear(2, 2)
rank = dist.get_rank()
class Own(company.Base):
    pass
"""
ARGUMENTS = (
    "",
    "unknown",
    "model, 1, 'text'",
    "[model, (rank, None)], {'a': args.lr}, key=unknown",
    "*args.all, **unknown",
)

KINDS = {
    "Module": "model",
    "Wrapper": "nn.parallel.DistributedDataParallel(model)",
    "InnerModules": "model.children()",
    "Method": "model.parameters",
    "StateDict": "model.state_dict()",
    "Parameters": "model.parameters()",
    "Optimizer": "torch.optim.SGD(model.parameters(), lr=0.1)",
    "Scheduler": "torch.optim.lr_scheduler.StepLR(torch.optim.SGD(model.parameters(), lr=0.1), 1)",
    "Scaler": "torch.cuda.amp.GradScaler()",
    "Dataset": "TensorDataset(torch.zeros(2))",
    "RandomGenerator": "torch.Generator()",
    "Sampler": "torch.utils.data.distributed.DistributedSampler([1])",
    "Loader": "DataLoader([1])",
    "LoaderIterator": "iter(DataLoader([1]))",
    "Tensor": "torch.zeros(2)",
    "Device": "torch.device('cuda')",
    "Group": "dist.new_group([0])",
    "Work": "dist.all_reduce(torch.zeros(2), async_op=True)",
    "Library": "sys.modules",
    "ManagedObject": "accelerate.Accelerator()",
    "Parser": "argparse.ArgumentParser()",
    "Commands": "typer.Typer()",
    "ContextManager": "contextlib.ExitStack()",
    "Cluster": "submitit.AutoExecutor()",
    "Environ": "os.environ",
    "ListOf": "[model]",
    "DictOf": "{'a': model}",
    "Enumerated": "enumerate([model])",
    "TupleOf": "(model,)",
    "Const": "'text'",
    "Text": "f'a{rank}'",
    "Unknown": "unknown",
    "Rank": "rank",
    "Instance": "Own()",
    "Class": "Own",
    "Function": "(lambda own: own)",
}


def alive_after(paper, name: str, expression: str) -> None:
    """Call something in every way, and see that the program goes on after each."""
    calls = "".join(f"reveal(({expression}({given}), 1)[1])  #: 1\n" for given in ARGUMENTS)
    root = name.partition(".")[0]
    imported = f"import {root}\n" if root.isidentifier() and root != "builtins" else ""
    paper(f"{PREPARED}{imported}{calls}", launch="spawn")


def _callable_names() -> list[str]:
    names = {*MODELS.callables, *(f"{prefix}anything" for prefix in MODELS.prefixes)}
    return sorted(name for name in names - ENDING if not any(map(keyword.iskeyword, name.split("."))))


@pytest.mark.parametrize("name", _callable_names())
def test_every_callable_answers(paper, name: str):
    alive_after(paper, name, name.removeprefix("builtins."))


METHODS = sorted({(kind.__name__, name) for kind, name in MODELS.methods if name.isidentifier()})


@pytest.mark.parametrize(("kind", "name"), [pair for pair in METHODS if pair[0] in KINDS])
def test_every_method_answers(paper, kind: str, name: str):
    alive_after(paper, "torch", f"({KINDS[kind]}).{name}")


@pytest.mark.parametrize("kind", KINDS)
def test_a_method_that_nobody_knows_answers(paper, kind: str):
    alive_after(paper, "torch", f"({KINDS[kind]}).no_such_method")
    alive_after(paper, "torch", f"({KINDS[kind]}).no_such.method")


@pytest.mark.parametrize("kind", KINDS)
def test_every_operation_answers(paper, kind: str):
    value = KINDS[kind]
    paper(
        f"""{PREPARED}
x = {value}
for each in x:
    break
reveal(1)  #: 1
y = [x + x, x[0], x['a'], x[1:], x == x, x < 1, not x, -x, x @ x, x in x, x is None, f"{{x}}", len(x), str(x)]
reveal(2)  #: 2
if x:
    y = 1
x.attribute = 1
x[0] = model
x += 1
with x as opened:
    reveal(3)  #: 3
print(x, *y)
del x
reveal(4)  #: 4
"""
    )


@pytest.mark.parametrize("name", sorted(ENDING & set(MODELS.callables)))
def test_what_ends_the_process_ends_the_path(paper, name: str):
    paper(
        f"""
        import click, os, sys
        {name.removeprefix("builtins.")}(1)
        reveal(1)  #: never
        """
    )


def test_every_kind_with_methods_is_tried():
    known = {kind.__name__ for kind, _ in MODELS.methods} | {kind.__name__ for kind in MODELS.any_method}
    # A module of the project takes another file.
    assert known - set(KINDS) == {"ProjectModule"}


NAMES_NO_LIBRARY = """
class Args:
    pass
args = Args()
for key, value in read().items():
    setattr(args, key, value)
"""


def test_what_a_program_names_says_nothing_about_which_models_there_are(tmp_path: Path):
    # In a process of its own: in this one all models are there already.
    (tmp_path / "train.py").write_text(NAMES_NO_LIBRARY)
    command = [sys.executable, "-m", "gpudoctor", "plan", "train.py"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stderr


def test_whoever_subscribes_stands_in_the_list():
    for room, listed in (("library", (*register.FILES, *register.OF_NAMES)), ("analyses", register.ANALYSES)):
        folder = Path(library_call.__file__).parents[1] / room
        told = {
            path.stem
            for path in folder.glob("*.py")
            if re.search(r"^@?(told|answers)\(HOOKS|^@?MODELS\.\w+\(", path.read_text(), re.M)
        }
        assert told == set(listed)


@pytest.fixture
def in_turn(monkeypatch):
    """Loads each file that is loaded for names alone, and gives what it registers."""
    kept = dict(vars(MODELS))

    def registered(file: str) -> dict[str, dict]:
        monkeypatch.delitem(sys.modules, f"gpudoctor.lint.library.{file}")
        for table, entries in kept.items():
            monkeypatch.setattr(MODELS, table, type(entries)())
        import_module(f"gpudoctor.lint.library.{file}")
        return dict(vars(MODELS))

    return registered


OWN_KINDS = {"Cluster", "Commands", "ManagedObject"}
"""Kinds of values that only one such file makes."""
REFUSED_TO_OTHERS = {
    ("BoundMethod", "remote"), ("Class", "apply"), ("Class", "from_argparse_args"), ("Class", "from_pretrained"),
    ("Class", "load_from_checkpoint"),
    ("Function", "main"), ("Function", "options"), ("Function", "remote"), ("Instance", "args"),
    ("Instance", "get"), ("Instance", "parse_args"), ("Instance", "start"),
    *(("Instance", "save_hyperparameters"), ("Module", "save_hyperparameters")),
    *(("Instance", name) for name in huggingface.PARSE),
    ("Scaler", "called"), ("Unknown", "shuffle"), ("Unknown", "to_iterable_dataset"), ("Unknown", "train_test_split"),
    ("Module", "merge_and_unload"), ("Module", "unload"), ("Wrapper", "backward"), ("Wrapper", "save_checkpoint"),
    *(("Module", name) for name in (*methods("torch.distributed.fsdp.FSDPModule"), "no_sync")),
}  # fmt: skip
"""What such files answer for kinds of values that others make, too: tried below."""


@pytest.mark.parametrize("file", register.OF_NAMES)
def test_a_file_that_is_loaded_for_names_knows_these_alone(file: str, in_turn):
    found = in_turn(file)
    names = {*found["callables"], *found["prefixes"], *found["names"], *found["decorators"]}
    known = tuple(f"{each}." for each in register.OF_NAMES[file])
    assert not {name for name in names if not f"{name}.".startswith(known)}
    kinds = {(kind.__name__, name) for table in ("methods", "attributes", "before_own") for kind, name in found[table]}
    for table in ("any_method", "any_attribute", "setters", "ready_objects"):
        kinds |= {(kind.__name__, table) for kind in found[table]}
    kinds |= {(kind.__name__, "called") for kind in found["calls"]}
    assert {pair for pair in kinds if pair[0] not in OWN_KINDS} <= REFUSED_TO_OTHERS
    assert names or kinds
    assert not found["fallbacks"]


ASKS_OTHERS = """
import torch, torch.nn as nn, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from elsewhere import Base

class Own(Base):
    def keep(self):
        return self.args

class Net(nn.Module):
    def forward(self, x):
        return x
    def unshard(self):
        return self.reshard

def start():
    pass

start.main()
start.options(num_gpus=1)
start.remote(Own().keep.remote(Own().start()))
dist.init_process_group("nccl")
model = DistributedDataParallel(nn.Linear(2, 2).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
loss = model(torch.zeros(2, 2).cuda()).sum()
loss.backward()
Own.apply(loss)
Own.from_pretrained(model)
Net.from_pretrained(loss)
Net.load_from_checkpoint(loss)
Own.from_argparse_args(loss)
Own().keep()(model)
Own().save_hyperparameters(model)
Own().parse_args()(model)
Own().get("model")(model)
Own().parse_dict(loss)
Own().parse_args_into_dataclasses()(model)
scaler(loss, optimizer)
model.backward(loss)
model.save_checkpoint("x.pt")
rows = Own().rows().shuffle()
rows.train_test_split(0.1)
rows.to_iterable_dataset()
for epoch in range(2):
    optimizer.step()
net = Net()
net.unshard()(loss)
net.save_hyperparameters(loss)
net.set_requires_gradient_sync(False)
net.merge_and_unload()(loss)
net.unload()
"""
SAID = """
import sys
if sys.argv.pop(1) == "all":
    from tests.support.models import every_model
    every_model()
from gpudoctor.cli import main
main(["plan", "train.py"])
main(["lint", "--no-cache", "-v", "train.py"])
"""


def test_what_is_loaded_already_changes_nothing(tmp_path: Path, repository: Path):
    (tmp_path / "train.py").write_text(ASKS_OTHERS)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

    def said(loaded: str) -> str:
        command = [sys.executable, "-c", SAID, loaded]
        run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600)
        return run.stdout + run.stderr

    first = said("what it names")
    assert "step of `optimizer`" in first, first
    assert said("all") == first
