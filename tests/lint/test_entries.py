"""Ways into a program: however it finds its modules and whatever calls its first function, its training is reached."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from gpudoctor.coverage import Coverage, Followed
from gpudoctor.lint.pipeline import lint
from gpudoctor.lint.request import Request
from gpudoctor.registry import find_rules

ENGINE = """
    import torch
    from torch import nn

    def train(rounds=10):
        model = nn.Linear(8, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(rounds):
            optimizer.zero_grad()
            model(torch.randn(4, 8)).sum().backward()
            optimizer.step()
    """


def followed(entry: str, files: dict[str, str]) -> list[Coverage]:
    """What was followed of a program."""
    for name, text in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(dedent(text), encoding="utf-8")
    cards = find_rules().select()
    programs = lint(Request(paths=(entry,), rules=cards, known=cards, jobs=1)).programs
    return [each for each in programs if each.path == entry]


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def assert_trains(programs: list[Coverage]) -> None:
    assert [(each.followed, each.training_loops, each.ended_by) for each in programs] == [(Followed.WHOLE, 1, None)]


def test_a_step_of_each_optimizer_in_a_list_counts_as_training() -> None:
    train = """
        import torch
        from torch import nn
        model = nn.Linear(8, 8)
        optimizers = [torch.optim.SGD([model.weight], lr=0.1), torch.optim.SGD([model.bias], lr=0.1)]
        for step in range(100):
            model(torch.randn(2, 8)).sum().backward()
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
        """
    assert_trains(followed("train.py", {"train.py": train}))


def test_a_script_that_calls_nothing_of_the_project_is_not_followed() -> None:
    """It imports what trains, and prints: `print` is no code of the project."""
    engine = """
        import torch
        from torch import nn

        def work():
            model = nn.Linear(8, 8)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for step in range(100):
                model(torch.randn(2, 8)).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
        """
    files = {"engine.py": engine, "pyproject.toml": ""}
    assert not followed("notes.py", {**files, "notes.py": "import engine\nprint('nothing')\n"})
    assert_trains(followed("begin.py", {**files, "begin.py": "import engine\nengine.work()\n"}))


SEARCH_PATHS = [
    'sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "code", "core"))',
    'sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../code/core"))',
    'sys.path.append(os.path.dirname(os.path.dirname(os.path.realpath(__file__))) + "/code/core")',
    'sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "code" / "core"))',
    'sys.path.insert(0, str(Path(__file__).resolve().parents[1].joinpath("code", "core")))',
    'sys.path.append(f"{os.path.dirname(__file__)}/../code/core")',
    'sys.path.append(os.path.abspath(os.path.join(__file__, os.pardir, os.pardir, "code", "core")))',
    'sys.path.append(os.path.join(os.path.split(os.path.abspath(__file__))[0], "..", "code", "core"))',
    'sys.path += [os.path.join(os.path.dirname(__file__), "..", "code", "core")]',
    'sys.path.extend([os.path.join(os.path.dirname(__file__), "..", "code", each) for each in ("core", "more")])',
    'sys.path[:0] = [os.path.join(os.path.dirname(__file__), "..", "code", "core")]',
    'sys.path = [os.path.join(os.path.dirname(__file__), "..", "code", "core"), *sys.path]',
    'sys.path = [os.path.join(os.path.dirname(__file__), "..", "code", "core")] + sys.path',
    'site.addsitedir(os.path.join(os.path.dirname(__file__), "..", "code", "core"))',
    'from sys import path; path.append(os.path.join(os.path.dirname(__file__), "..", "code", "core"))',
    'sys.path.append("../code/core")',
]  # fmt: skip


@pytest.mark.parametrize("change", SEARCH_PATHS)
def test_a_search_path_that_the_program_computes(change: str) -> None:
    start = f"import os, site, sys\nfrom pathlib import Path\n{change}\nfrom loops.engine import train\ntrain()\n"
    assert_trains(followed("tools/train.py", {"tools/train.py": start, "code/core/loops/engine.py": ENGINE}))


def test_a_search_path_that_an_imported_helper_changes() -> None:
    helper = """
        import os.path as osp
        import sys

        def add(path):
            if path not in sys.path:
                sys.path.insert(0, path)

        here = osp.dirname(__file__)
        add(osp.join(here, "..", "code", "core"))
        add(osp.join(here, "..", "code", "more"))
        """
    start = "import _paths\nfrom loops.engine import train\ntrain()\n"
    files = {"tools/train.py": start, "tools/_paths.py": helper, "code/core/loops/engine.py": ENGINE}
    assert_trains(followed("tools/train.py", files))


def test_what_a_program_puts_first_comes_first() -> None:
    start = (
        "import os, sys\nsys.path.insert(0, os.path.dirname(__file__) + '/../code')\nimport engine\nengine.train()\n"
    )
    files = {"tools/train.py": start, "code/engine.py": ENGINE, "tools/engine.py": "def train(): pass\n"}
    assert_trains(followed("tools/train.py", files))
    later = start.replace("insert(0, ", "append(")
    assert followed("tools/train.py", {"tools/train.py": later})[0].training_loops == 0


def test_a_package_that_counts_from_a_folder_around_the_script() -> None:
    start = "from kit.core.engine import train\nif __name__ == '__main__':\n    train()\n"
    around = dict.fromkeys(("requirements.txt", "models/__init__.py", "models/kit/__init__.py"), "")
    inside = {"models/kit/scripts/__init__.py": "", "models/kit/core/engine.py": ENGINE}
    assert_trains(followed("models/kit/scripts/train.py", {**around, **inside, "models/kit/scripts/train.py": start}))


STARTS = {
    "status": """
        import sys
        if __name__ == '__main__':
            sys.exit(main())
        """,
    "raised": """
        if __name__ == '__main__':
            raise SystemExit(main())
        """,
    "fire": """
        import fire
        if __name__ == '__main__':
            fire.Fire(main)
        """,
    "fire of all": """
        import fire
        if __name__ == '__main__':
            fire.Fire()
        """,
    "fire of a table": """
        import fire
        if __name__ == '__main__':
            fire.Fire({'train': main})
        """,
    "fire of a class": """
        import fire
        class Jobs:
            def run(self):
                main()
        if __name__ == '__main__':
            fire.Fire(Jobs)
        """,
    "fire of an object": """
        import fire
        class Jobs:
            def __init__(self, rounds):
                self.rounds = rounds
            def run(self):
                main(self.rounds)
        if __name__ == '__main__':
            fire.Fire(Jobs(3))
        """,
    "docopt": """
        from docopt import docopt
        if __name__ == '__main__':
            options = docopt(__doc__)
            if options['train']:
                main(int(options['--rounds']))
        """,
    "absl": """
        from absl import app
        def start(argv):
            main()
        if __name__ == '__main__':
            app.run(start)
        """,
    "absl without a guard": """
        from absl import app
        def start(argv):
            main()
        app.run(start)
        """,
    "click": """
        import click
        @click.command()
        @click.option('--rounds', default=3)
        def start(rounds):
            main(rounds)
        if __name__ == '__main__':
            start()
        """,
    "click without a guard": """
        import click
        @click.command()
        def start():
            main()
        start()
        """,
    "click that returns": """
        import click
        @click.command()
        def start():
            main()
        if __name__ == '__main__':
            start.main(standalone_mode=False)
        """,
    "click group": """
        import click
        @click.group()
        def cli(): pass
        @cli.command()
        def start():
            main()
        if __name__ == '__main__':
            cli()
        """,
    "click added": """
        import click
        @click.group()
        def cli(): pass
        @click.command()
        def start():
            main()
        cli.add_command(start)
        if __name__ == '__main__':
            cli()
        """,
    "typer": """
        import typer
        if __name__ == '__main__':
            typer.run(main)
        """,
    "typer app": """
        import typer
        app = typer.Typer()
        @app.command()
        def start(rounds: int = 3):
            main(rounds)
        if __name__ == '__main__':
            app()
        """,
    "typer added": """
        import typer
        app = typer.Typer()
        app.command()(main)
        if __name__ == '__main__':
            app()
        """,
    "hydra": """
        import hydra
        @hydra.main(version_base=None, config_path='conf', config_name='config')
        def start(cfg):
            main(cfg.rounds)
        if __name__ == '__main__':
            start()
        """,
    "hydra called": """
        import hydra
        def start(cfg):
            main(cfg.rounds)
        if __name__ == '__main__':
            hydra.main(config_name='config')(start)()
        """,
    "tyro": """
        import tyro
        if __name__ == '__main__':
            tyro.cli(main)
        """,
    "tyro of settings": """
        import dataclasses, tyro
        @dataclasses.dataclass
        class Args:
            rounds: int = 3
        if __name__ == '__main__':
            args = tyro.cli(Args)
            main(args.rounds)
        """,
    "jsonargparse": """
        from jsonargparse import CLI
        if __name__ == '__main__':
            CLI(main)
        """,
    "jsonargparse auto": """
        import jsonargparse
        if __name__ == '__main__':
            jsonargparse.auto_cli(main, as_positional=False)
        """,
    "defopt": """
        import defopt
        if __name__ == '__main__':
            defopt.run(main)
        """,
    "plac": """
        import plac
        if __name__ == '__main__':
            plac.call(main)
        """,
    "argh": """
        import argh
        if __name__ == '__main__':
            argh.dispatch_command(main)
        """,
    "argh commands": """
        import argh
        if __name__ == '__main__':
            argh.dispatch_commands([main])
        """,
    "cyclopts": """
        import cyclopts
        if __name__ == '__main__':
            cyclopts.run(main)
        """,
    "cyclopts app": """
        import cyclopts
        app = cyclopts.App()
        @app.default
        def start():
            main()
        if __name__ == '__main__':
            app()
        """,
    "draccus": """
        import draccus
        @draccus.wrap()
        def start(cfg: object):
            main()
        if __name__ == '__main__':
            start()
        """,
    "pyrallis": """
        import pyrallis
        @pyrallis.wrap()
        def start(cfg: object):
            main()
        if __name__ == '__main__':
            start()
        """,
    "sacred": """
        from sacred import Experiment
        ex = Experiment('x')
        @ex.automain
        def start():
            main()
        """,
    "sacred main": """
        from sacred import Experiment
        ex = Experiment('x')
        @ex.main
        def start():
            main()
        if __name__ == '__main__':
            ex.run_commandline()
        """,
    "accelerate": """
        from accelerate import notebook_launcher
        notebook_launcher(main, num_processes=1)
        """,
    "record": """
        from torch.distributed.elastic.multiprocessing.errors import record
        @record
        def start():
            main()
        if __name__ == '__main__':
            start()
        """,
    "submitit": """
        import submitit
        if __name__ == '__main__':
            executor = submitit.AutoExecutor(folder='log')
            job = executor.submit(main)
            job.result()
        """,
    "ray": """
        import ray
        @ray.remote(num_gpus=1)
        def start():
            main()
        if __name__ == '__main__':
            ray.get(start.remote())
        """,
    "wandb sweep": """
        import wandb
        if __name__ == '__main__':
            wandb.agent('id', function=main)
        """,
    "optuna": """
        import optuna
        def objective(trial):
            main()
            return 1.0
        if __name__ == '__main__':
            optuna.create_study().optimize(objective, n_trials=3)
        """,
    "asyncio": """
        import asyncio
        async def start():
            main()
        if __name__ == '__main__':
            asyncio.run(start())
        """,
    "thread": """
        import threading
        if __name__ == '__main__':
            worker = threading.Thread(target=main)
            worker.start()
            worker.join()
        """,
    "table of modes": """
        import argparse
        MODES = {'train': main, 'eval': print}
        if __name__ == '__main__':
            parser = argparse.ArgumentParser()
            parser.add_argument('mode', choices=sorted(MODES))
            MODES[parser.parse_args().mode]()
        """,
    "table without a guard": """
        import sys
        MODES = {'train': lambda: main(3), 'eval': print}
        MODES[sys.argv[1]]()
        """,
    "globals": """
        import argparse
        if __name__ == '__main__':
            parser = argparse.ArgumentParser()
            parser.add_argument('mode', default='main')
            globals()[parser.parse_args().mode]()
        """,
    "sub-parsers": """
        import argparse
        if __name__ == '__main__':
            parser = argparse.ArgumentParser()
            commands = parser.add_subparsers()
            one = commands.add_parser('train')
            one.set_defaults(func=lambda args: main(args.rounds))
            one.add_argument('--rounds', default=3, type=int)
            args = parser.parse_args()
            args.func(args)
        """,
    "guard turned": """
        if __name__ != '__main__':
            raise ImportError('a script')
        main()
        """,
    "guard within": """
        def start():
            if __name__ == '__main__':
                main()
        start()
        """,
    "caught": """
        if __name__ == '__main__':
            try:
                main()
            except KeyboardInterrupt:
                pass
        """,
    "partial": """
        from functools import partial
        if __name__ == '__main__':
            partial(main, 3)()
        """,
}
BEGIN = "from engine import train\ndef main(rounds: int = 3):\n    train(rounds)\n"


@pytest.mark.parametrize("way", STARTS)
def test_what_calls_the_first_function(way: str) -> None:
    files = {"train.py": BEGIN + dedent(STARTS[way]), "engine.py": ENGINE}
    assert_trains(followed("train.py", files))


FABRIC = """
from engine import train
from lightning.fabric import Fabric

if __name__ == "__main__":
    Fabric(devices=2).launch(lambda fabric, rounds: train(rounds), 3)
"""


def test_a_function_that_fabric_launches() -> None:
    (program,) = followed("train.py", {"train.py": FABRIC, "engine.py": ENGINE})
    # Lightning is in charge of a part of it.
    assert (program.followed, program.training_loops) == (Followed.PARTLY, 1)


PACKAGED = {
    "guard": ("kit/train.py", "from .engine import train\nif __name__ == '__main__':\n    train()\n"),
    "main file": ("kit/__main__.py", "from kit.engine import train\ntrain()\n"),
    "relative main file": ("kit/__main__.py", "from .engine import train\ntrain()\n"),
    "no guard": ("kit/train.py", "from .engine import train\ntrain()\n"),
}


@pytest.mark.parametrize("folder", ["", "src/"])
@pytest.mark.parametrize("way", PACKAGED)
def test_a_module_of_a_package(folder: str, way: str) -> None:
    path, text = PACKAGED[way]
    files = {"kit/__init__.py": "", path: text, "kit/engine.py": ENGINE}
    assert_trains(followed(folder + path, {folder + name: text for name, text in files.items()}))


REGISTRY = """
    import importlib

    NETS = {}
    HERE = __package__

    def register(cls):
        NETS[cls.__name__] = cls
        return cls

    def build(settings):
        if settings["type"] not in NETS:
            importlib.import_module(f"{HERE}.{settings['type'].lower()}_net")
        made = NETS.get(settings["type"])
        if made is None:
            raise KeyError(settings["type"])
        return made(settings["width"])
    """
REGISTERED = """
    from torch import nn
    from kit import register

    @register
    class {name}(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.layer = nn.Linear(width, 1)

        def forward(self, x):
            return self.layer(x)
    """
BY_SETTINGS = """
    import argparse
    import torch
    import yaml
    from kit import build

    def loaders(settings):
        train, tests = None, []
        for phase, options in settings["datasets"].items():
            if phase == "train":
                train = [torch.randn(options["size"], 8)]
            elif phase.split("_")[0] == "val":
                tests.append([torch.randn(options["size"], 8)])
            else:
                raise ValueError(f"{phase} is not known")
        return train, tests

    def main():
        parser = argparse.ArgumentParser()
        parser.add_argument("--settings", required=True)
        with open(parser.parse_args().settings) as file:
            settings = yaml.safe_load(file)
        train, tests = loaders(settings)
        model = build(settings["net"])
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x in train:
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()

    if __name__ == "__main__":
        main()
    """


@pytest.mark.parametrize("count", [1, 6, 50])
def test_settings_from_a_file_that_name_what_modules_register(count: int) -> None:
    nets = {f"kit/n{number}_net.py": REGISTERED.format(name=f"N{number}") for number in range(count)}
    (program,) = followed("train.py", {"train.py": BY_SETTINGS, "kit/__init__.py": REGISTRY, **nets})
    assert (program.ended_by, program.training_loops) == (None, 1)


CONFIGURED = """
    import dataclasses
    import fire
    from engine import train

    @dataclasses.dataclass
    class Config:
        variant: str = "huge"
        rounds: int = 3

    def update(config, **given):
        for name, value in given.items():
            if hasattr(config, name):
                setattr(config, name, value)

    def rounds_of(config):
        if config.variant == "small":
            return config.rounds
        raise ValueError(f"{config.variant} is not known")

    def main(**given):
        config = Config()
        update(config, **given)
        train(rounds_of(config))

    if __name__ == "__main__":
        fire.Fire(main)
    """


def test_settings_whose_defaults_end_the_program() -> None:
    """Whoever starts it gives others."""
    assert_trains(followed("train.py", {"train.py": CONFIGURED, "engine.py": ENGINE}))


TASKS = """
    import argparse
    import os
    import torch
    import torch.distributed as dist
    import torch.multiprocessing as mp
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

    def begin(rank, count):
        torch.cuda.set_device(rank)
        dist.init_process_group("nccl", "tcp://localhost:12345", rank=rank, world_size=count)

    def test(rank, count):
        begin(rank, count)
        print(nn.Linear(8, 1).cuda()(torch.zeros(8, device="cuda")))

    def train(rank, count):
        begin(rank, count)
        model = DistributedDataParallel(nn.Linear(8, 1).cuda(), device_ids=[rank])
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(10):
            optimizer.zero_grad()
            model(torch.randn(4, 8, device="cuda")).sum().backward()
            optimizer.step()

    if __name__ == "__main__":
        parser = argparse.ArgumentParser()
        parser.add_argument("--task", default="test")
        task, count = parser.parse_args().task, torch.cuda.device_count()
        if task == "test":
            mp.spawn(test, args=(count,), nprocs=count)
        elif task == "train":
            mp.spawn(train, args=(count,), nprocs=count)
    """


def test_the_second_of_several_tasks_that_start_ranks() -> None:
    assert_trains(followed("train.py", {"train.py": TASKS}))


RUNNER = """
    from engine import train

    class Runner:
        def __init__(self, rounds):
            self.rounds = rounds

        def run(self):
            train(self.rounds)
    """
OTHER = """
    class Idle:
        def run(self):
            pass
    """
BY_HYDRA = """
    import hydra
    from hydra.utils import instantiate

    @hydra.main(config_path="conf", config_name="main", version_base=None)
    def main(cfg):
        job = instantiate(cfg.job, rounds=3)
        job.run()

    if __name__ == "__main__":
        main()
    """
BY_HAND = """
    import argparse
    import importlib
    from omegaconf import OmegaConf

    def made_of(settings):
        module, name = settings["target"].rsplit(".", 1)
        return getattr(importlib.import_module(module), name)(**settings.get("params", {}))

    if __name__ == "__main__":
        parser = argparse.ArgumentParser()
        parser.add_argument("--settings", nargs="+", required=True)
        files = [OmegaConf.load(each) for each in parser.parse_args().settings]
        made_of(OmegaConf.merge(*files).job).run()
    """
IN_SETTINGS = {
    "nested": (BY_HYDRA, "conf/main.yaml", "job:\n  _target_: kit.runner.Runner\n  rounds: 5\n"),
    "quoted": (BY_HYDRA, "conf/main.yaml", "# all\njob:\n    rounds: 5  # many\n    _target_: 'kit.runner.Runner'\n"),
    "a group": (BY_HYDRA, "conf/job/long.yaml", "_target_: kit.runner.Runner\n"),
    "by hand": (BY_HAND, "settings/base.yaml", "job:\n  target: kit.runner.Runner\n  params:\n    rounds: 3\n"),
}


@pytest.mark.parametrize("way", IN_SETTINGS)
def test_a_class_that_only_a_setting_file_names(way: str) -> None:
    start, path, text = IN_SETTINGS[way]
    files = {"train.py": start, path: text, "kit/__init__.py": "", "kit/runner.py": RUNNER, "kit/idle.py": OTHER}
    assert_trains(followed("train.py", {**files, "engine.py": ENGINE}))


OBJECTS_IN_SETTINGS = """
job:
  _target_: kit.runner.Trains
  rounds: 5
  net:
    _target_: torch.nn.Linear
    in_features: 8
    out_features: 1
  loss:
    _target_: kit.runner.Error
  optimizer:
    _target_: torch.optim.SGD
    _partial_: true
  later:
    _target_: kit.runner.Ends
    _partial_: True
"""
TRAINS = """
    from torch import nn
    import torch

    class Error(nn.Module):
        def forward(self, x):
            return x.square().mean()

    class Ends:
        def __init__(self):
            raise SystemExit

    class Trains:
        def __init__(self, rounds, net, loss, optimizer, later):
            self.rounds, self.net, self.loss = rounds, net, loss
            self.optimizer = optimizer(net.parameters(), lr=0.1)

        def run(self):
            for _ in range(self.rounds):
                self.optimizer.zero_grad()
                self.loss(self.net(torch.randn(4, 8))).backward()
                self.optimizer.step()
    """


def test_objects_that_stand_among_the_settings_of_another() -> None:
    files = {
        "train.py": BY_HYDRA,
        "conf/main.yaml": OBJECTS_IN_SETTINGS,
        "kit/__init__.py": "",
        "kit/runner.py": TRAINS,
    }
    assert_trains(followed("train.py", files))


@pytest.mark.parametrize(
    "text", ["other:\n  _target_: kit.runner.Runner\n", "job:\n  _target_: kit.idle.Idle\n", "job:\n  rounds: 3\n"]
)
def test_what_a_setting_file_names_elsewhere(text: str) -> None:
    files = {"kit/__init__.py": "", "kit/runner.py": RUNNER, "kit/idle.py": OTHER, "engine.py": ENGINE}
    (program,) = followed("train.py", {"train.py": BY_HYDRA, "conf/main.yaml": text, **files})
    assert program.training_loops == 0


def test_files_that_register_themselves_when_their_package_is_imported() -> None:
    table = """
        TABLE = {}

        def register(cls):
            TABLE[cls.__name__] = cls
            return cls
        """
    package = """
        import importlib
        import os

        for each in os.listdir(os.path.dirname(__file__)):
            if each.endswith("_job.py"):
                importlib.import_module(f"kit.{each[:-3]}")
        """
    runner = RUNNER.replace("    class Runner", "    from kit.table import register\n\n    @register\n    class Runner")
    start = """
        import sys
        from kit.table import TABLE

        TABLE[sys.argv[1]](3).run()
        """
    files = {"kit/table.py": table, "kit/__init__.py": package, "kit/long_job.py": runner}
    assert_trains(followed("train.py", {"train.py": start, "engine.py": ENGINE, **files}))
