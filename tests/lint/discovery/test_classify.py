"""What a file is: a program, or a part of one, by what its top level leads to and not by what that is called."""

from pathlib import Path

import pytest

from gpudoctor.lint.discovery.call_search import MAX_FILES, STARTERS, is_training_call, reaches_training
from gpudoctor.lint.discovery.classify import classify, is_test
from gpudoctor.lint.library.frameworks import TAKE_CHARGE
from gpudoctor.lint.source.file import SourceFile, Sources, parse_text
from gpudoctor.lint.source.file_traits import Role
from gpudoctor.lint.source.project import Project
from gpudoctor.manifest.compiled import functions
from tests.support.linting import lint
from tests.support.models import every_model

ENGINE = """
from torch.utils.data import DataLoader

def work(data, model):
    for x in DataLoader(data):
        model(x).sum().backward()

class Engine:
    def __init__(self, model):
        self.model = model

    def go(self, data):
        work(data, self.model)

TABLE = {}

def enter(name, function):
    TABLE[name] = function

def with_settings(function, *args):
    function(*args)
"""


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def role(folder: Path, text: str, path: str = "pkg/module.py", **files: str) -> Role:
    """Of a module beside the engine, in a package."""
    write(folder, {"pkg/__init__.py": "", "pkg/engine.py": ENGINE, "pyproject.toml": "", path: text, **files})
    sources = Sources()
    project = Project(str(folder / path), sources)
    module = project.module_of(str(folder / path))
    assert module is not None
    return classify(module, project).role


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("from fastcore.script import call_parse\n@call_parse\ndef cook(pot: int = 1): pass\n", Role.MAIN),
        ("import fastcore.script as fs\n@fs.call_parse()\ndef cook(pot: int = 1): pass\n", Role.MAIN),
        ("from .kitchen import call_parse\n@call_parse\ndef cook(pot: int = 1): pass\n", Role.PART),
    ],
)
def test_a_decorator_that_starts_its_function(text: str, found: Role, tmp_path: Path) -> None:
    assert role(tmp_path, text) is found


@pytest.mark.parametrize(
    "text",
    [
        "from pkg.engine import work\nwork(1, 2)\n",
        "from .engine import work as heat\nheat(1, 2)\n",
        "from . import engine\nengine.Engine(1).go(2)\n",
        "import pkg.engine\npkg.engine.work(1, 2)\n",
        "from .engine import Engine\nmade = Engine(1)\nmade.go(2)\n",
        "def cook():\n    from .engine import work\n    work(1, 2)\ncook()\n",
        "from .engine import work, with_settings\nwith_settings(work, 1, 2)\n",
        "import sys\nfrom .engine import work\nsys.exit(work(1, 2))\n",
        "from .engine import work\nraise SystemExit(work(1, 2))\n",
        "from .engine import work\nif True:\n    with open('x') as f:\n        work(1, f)\n",
        "import fire\nfrom .engine import work\nfire.Fire(work)\n",
        "import fire\ndef cook(data):\n    from .engine import work\n    work(data, 1)\nfire.Fire()\n",
        "import torch.multiprocessing as mp\ndef cook(rank):\n    pass\nmp.spawn(cook, nprocs=2)\n",
        "import typer\nfrom .engine import work\napp = typer.Typer()\n"
        "@app.command()\ndef heat():\n    work(1, 2)\napp()\n",
        "import click\nfrom .engine import work\n@click.group()\ndef pot(): pass\n"
        "@pot.command()\ndef heat():\n    work(1, 2)\npot()\n",
        "import asyncio\nfrom .engine import work\nasync def heat():\n    work(1, 2)\nasyncio.run(heat())\n",
        "from lightning import Trainer\nt = Trainer()\nt.fit(1)\n",
        "loss.backward()\n",
    ],
)
def test_what_leads_to_training_is_a_program_inside_a_package_too(text: str, tmp_path: Path) -> None:
    assert role(tmp_path, text) is Role.SCRIPT


@pytest.mark.parametrize(
    "text",
    [
        "table.update(other)\n",
        "register(name='x')\n",
        # Called as programs are, and nothing is trained.
        "def run_main(name): pass\nrun_main('train')\n",
        "from .engine import work, enter\nenter('train', work)\n",
        "from .engine import TABLE, work\nTABLE.update(fit=work)\n",
        "from .engine import Engine, enter\nfor each in [Engine]:\n    enter('launch', each)\n",
        "from .engine import enter\n@enter\ndef train_all():\n    loss.backward()\n",
        "from detectron2.data import DatasetCatalog as D\nfrom .engine import work\nD.register('train', work)\n",
        "import atexit\nfrom .engine import work\natexit.register(work)\n",
        "try:\n    logging.basicConfig()\nexcept OSError:\n    run()\n",
        "from . import ops\nfor each in ops.ALL:\n    register(each)\n",
        "from torch.library import custom_op\n@custom_op('x::y')\ndef op(x):\n    x.backward()\nop.register_fake(op)\n",
        "import torch.distributed as dist\ndef say(): return dist.get_rank()\nsay()\n",
        "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--train')\n",
        "x = 1\n",
        "def main():\n    loss.backward()\n",
    ],
)
def test_what_registers_or_prepares_is_a_part_of_a_package(text: str, tmp_path: Path) -> None:
    assert role(tmp_path, text) is Role.PART


def test_what_is_reached_through_a_package_that_hands_it_on(tmp_path: Path) -> None:
    files = {"pkg/api/__init__.py": "from ..engine import work as heat\n"}
    assert role(tmp_path, "from pkg.api import heat\nheat(1, 2)\n", **files) is Role.SCRIPT


def test_calls_in_a_circle_end(tmp_path: Path) -> None:
    files = {"pkg/one.py": "from .two import b\ndef a(): b()\n", "pkg/two.py": "from .one import a\ndef b(): a()\n"}
    assert role(tmp_path, "from .one import a\na()\n", **files) is Role.PART


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("pkg/__main__.py", "from .app import run\n"),
        ("pkg/__main__.py", "def run(): pass\nrun()\n"),
        ("pkg/module.py", "if __name__ == '__main__':\n    pass\n"),
        ("pkg/module.py", "if '__main__' == __name__ and True:\n    pass\n"),
        ("pkg/__init__.py", "if __name__ in ('__main__', 'run'):\n    pass\n"),
        ("train.py", "try:\n    if __name__ == '__main__':\n        pass\nexcept OSError:\n    pass\n"),
    ],
)
def test_who_says_what_to_do_as_main_program_is_one(path: str, text: str, tmp_path: Path) -> None:
    assert role(tmp_path, text, path) is Role.MAIN


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("main()\n", Role.SCRIPT),
        ("for x in y:\n    pass\n", Role.SCRIPT),
        ("import sys\nsys.exit(main())\n", Role.SCRIPT),
        ("from torch.utils.data import DataLoader\nloader = DataLoader(data)\n", Role.SCRIPT),
        # What it calls stands in another file, and trains.
        ("from pkg.engine import work\nresult = work(1, 2)\n", Role.SCRIPT),
        ("import pkg.engine as e\nheat = e.Engine(1)\n", Role.SCRIPT),
        ("from pkg.engine import enter\nresult = enter('a', 1)\n", Role.PART),
        # Preparation, however the library is called here.
        ("import numpy as xp, sys\nxp.random.seed(0)\nsys.path.append(str(1))\n", Role.PART),
        ("import warnings as w\nw.filterwarnings('ignore')\ndef f(): pass\n", Role.PART),
        # What a handler says when a library is missing is none of what the file does.
        ("try:\n    import apex\nexcept ImportError:\n    print('no apex')\ndef f(): pass\n", Role.PART),
        ("if __name__ != 'pkg':\n    x = 1\n", Role.PART),
        # No Python takes it, and its parser does.
        ("await x\n", Role.PART),
        ("from easydict import EasyDict\ncfg = EasyDict()\ncfg.lr = 1\n", Role.PART),
    ],
)
def test_outside_of_packages_what_does_something_is_a_program(text: str, expected: Role, tmp_path: Path) -> None:
    assert role(tmp_path, text, "module.py") is expected


def test_the_functions_of_commands_start_programs(tmp_path: Path) -> None:
    commands = '[project]\nname = "x"\n[project.scripts]\nheat = "pkg.module:heat"\n'
    text = "def heat():\n    loss.backward()\nregister(1)\n"
    assert role(tmp_path, text) is Role.PART
    assert role(tmp_path, text, **{"pyproject.toml": commands}) is Role.MAIN


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("test_x.py", "def test_it(): pass\n", True),
        ("x_test.py", "class TestIt: pass\n", True),
        ("x_test.py", "from elsewhere import Base\nclass It(Base):\n    def test_it(self): pass\n", True),
        ("x.py", "import unittest\nclass It(unittest.TestCase): pass\n", True),
        ("conftest.py", "", True),
        # A program that measures, or one that is tried out.
        ("torchrun_test.py", "def main(): pass\nmain()\n", False),
        ("test.py", "def test(model): pass\ntest(1)\n", False),
        ("net_test.py", "from elsewhere import Base\nclass Trainer(Base):\n    def test(self): pass\n", False),
        ("latest.py", "def test_it(): pass\n", False),
    ],
)
def test_tests_are_what_their_runners_collect(name: str, text: str, expected: bool) -> None:
    source = parse_text(text.encode(), f"/project/{name}", name)
    assert isinstance(source, SourceFile)
    assert is_test(source) is expected


ONLY_PREPARE = {
    "accelerate.PartialState", "accelerate.state.PartialState", "bagua.torch_api.init_process_group",
    "byteps.torch.init", "deepspeed.add_config_arguments", "deepspeed.init_distributed", "deepspeed.init_inference",
    "horovod.torch.init", "torch.distributed.rpc.init_rpc",
}  # fmt: skip


def test_what_takes_charge_of_a_training_is_known_to_train() -> None:
    assert {name for name in TAKE_CHARGE if not is_training_call(name)} == ONLY_PREPARE
    assert all(map(is_training_call, (*functions("starts_ranks"), *functions("trains"))))


def test_what_calls_what_it_is_given_is_known_to_the_models() -> None:
    commands = {name for name, handler in every_model().callables.items() if handler.__name__ == "_run_command"}
    assert commands
    assert commands <= STARTERS


# The epochs of a sampler: that nobody sets one can only be said of a program that is followed from its start.
WORK = """import torch
import torch.distributed as dist
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

def cook(data):
    dist.init_process_group("nccl")
    net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2).cuda())
    steps = torch.optim.SGD(net.parameters(), lr=0.1)
    loader = DataLoader(data, batch_size=2, sampler=DistributedSampler(data))
    for epoch in range(3):
        for x in loader:
            steps.zero_grad()
            net(x.cuda()).sum().backward()
            steps.step()
    dist.destroy_process_group()
"""
BEGIN = "from .work import cook\nfrom .store import data\n\ndef everything():\n    cook(data())\n"
STORE = "import numpy\n\ndef data():\n    return numpy.load('x')\n"


@pytest.mark.parametrize(
    "files",
    [
        {"pkg/begin.py": f"{BEGIN}\neverything()\n"},
        # All that the file does is to keep what another one returns.
        {"pkg/begin.py": BEGIN, "cook.py": "from pkg.begin import everything\nresult = everything()\n"},
        {"pkg/begin.py": f"{BEGIN}\nif len('x'):\n    everything()\n"},
        {"pkg/begin.py": BEGIN, "pkg/__main__.py": "from .begin import everything\neverything()\n"},
        {"pkg/begin.py": BEGIN, "pyproject.toml": "[project]\n[project.scripts]\ncook-it = 'pkg.begin:everything'\n"},
        # `python -m pkg` would do nothing.
        {"pkg/__main__.py": BEGIN, "pyproject.toml": "[project.scripts]\ncook-it = 'pkg.__main__:everything'\n"},
        {
            "pkg/begin.py": BEGIN,
            "pkg/__init__.py": "from .begin import everything\n",
            "setup.cfg": "[options.entry_points]\nconsole_scripts =\n    cook-it = pkg:everything\n",
        },
        # A command beside what the file does when it is imported.
        {
            "pkg/begin.py": f"{BEGIN}\nimport logging\nlogging.getLogger(__name__).info(everything)\n",
            "setup.py": "from setuptools import setup\n"
            "setup(entry_points={'console_scripts': ['cook-it=pkg.begin:everything']})\n",
        },
    ],
)
def test_a_launcher_that_names_no_training_is_followed(files: dict[str, str], tmp_path: Path) -> None:
    write(tmp_path, {"pyproject.toml": "", "pkg/__init__.py": "", "pkg/work.py": WORK, "pkg/store.py": STORE, **files})
    assert [(each.path, each.code) for each in lint(tmp_path, folder=tmp_path, select=("GPU302",))] == [
        ("pkg/work.py", "GPU302")
    ]


def test_a_program_that_only_a_test_imports_is_a_program_of_its_own(tmp_path: Path) -> None:
    """A test keeps it from doing what it does for its users."""
    train = f"{WORK}\nimport store\n\nif not store.dry:\n    cook(store.data())\nprint(cook)\n"
    test = "import store\nstore.dry = True\nimport train, unittest\n\nclass It(unittest.TestCase):\n    pass\n"
    write(tmp_path, {"train.py": train, "store.py": f"{STORE}\ndry = bool(data())\n", "pyproject.toml": ""})
    alone = lint(tmp_path, folder=tmp_path, select=("GPU302",))
    write(tmp_path, {"test_train.py": f"{test}\nif __name__ == '__main__':\n    unittest.main()\n"})
    assert alone
    assert lint(tmp_path, folder=tmp_path, select=("GPU302",)) == alone


def test_a_file_that_only_the_package_of_a_program_imports_is_read_for_itself(tmp_path: Path) -> None:
    """The program has executed it, and called nothing of it."""
    steps = WORK.replace("steps.step()", "steps.step()\n            print(x.cuda().sum().item())")
    write(tmp_path, {"pyproject.toml": "", "pkg/__init__.py": "from .work import cook\n", "pkg/work.py": steps})
    write(tmp_path, {"pkg/store.py": STORE})
    alone = lint(tmp_path, folder=tmp_path, select=("GPU801",))
    assert alone
    write(tmp_path, {"tool.py": "from pkg.store import data\n\nif __name__ == '__main__':\n    print(data())\n"})
    assert lint(tmp_path, folder=tmp_path, select=("GPU801",)) == alone


def test_a_class_that_needs_what_others_prepare_is_not_judged_alone(tmp_path: Path) -> None:
    options = "_OPTIONS = None\n\ndef get():\n    _ask(_OPTIONS)\n    return _OPTIONS\n"
    options += "\ndef _ask(given):\n    assert given is not None, 'not parsed'\n"
    layers = """
from torch import nn
from options import get

class Words(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.words = nn.Embedding(get().words, size)

    def add_types(self, count, size):
        self.types = nn.Embedding(count, size)
"""
    write(tmp_path, {"pyproject.toml": "", "options.py": options, "layers.py": layers})
    assert not lint(tmp_path, folder=tmp_path, select=("GPU214",))
    write(tmp_path, {"layers.py": layers.replace("super().__init__()", "pass").replace("get().words", "9")})
    assert lint(tmp_path, folder=tmp_path, select=("GPU214",))


IN_A_GROUP = """
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

def {name}(path):
    dist.init_process_group("gloo", rank=0, world_size=2)
    model = DistributedDataParallel(torch.nn.Linear(4, 4))
    model(torch.ones(1, 4)).sum().backward()
    torch.save(model.state_dict(), path / "model.pt")
    dist.destroy_process_group()
"""


@pytest.mark.parametrize(("name", "codes"), [("test_saves", []), ("saves", ["GPU601"])])
def test_what_a_test_says_of_ranks_is_made_up(name: str, codes: list[str], tmp_path: Path) -> None:
    (tmp_path / "test_model.py").write_text(IN_A_GROUP.format(name=name))
    found = lint(tmp_path / "test_model.py", folder=tmp_path, select=("GPU601",))
    assert [each.code for each in found] == codes


def test_the_nearest_files_are_asked_first_for_training(tmp_path: Path):
    many = {f"pkg/part{number}.py": "" for number in range(MAX_FILES)}
    imports = "".join(f"from pkg import part{number}\n" for number in range(MAX_FILES))
    write(tmp_path, {"pkg/cli.py": "import torch\n", "pkg/__init__.py": imports, **many})
    write(tmp_path, {"go.py": "from pkg.cli import run\nrun()\n"})
    project = Project(str(tmp_path / "go.py"))
    module = project.module_of(str(tmp_path / "go.py"))
    assert module is not None
    assert reaches_training(module, project)
