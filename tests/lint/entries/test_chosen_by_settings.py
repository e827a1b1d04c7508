"""Programs whose settings name what they make: registries, setting files, and the objects in them."""

from textwrap import dedent

import pytest

from gpudoctor.coverage import Cause
from tests.support.entry_files import ENGINE, assert_trains, followed

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


FOUND = """
    import argparse
    import torch
    from omegaconf import OmegaConf
    from dataclasses import dataclass, field
    from kit import find

    @dataclass
    class Config:
        system_type: str = ""
        system: dict = field(default_factory=dict)

    def main():
        parser = argparse.ArgumentParser()
        parser.add_argument("--config", required=True)
        loaded = OmegaConf.merge(OmegaConf.load(parser.parse_args().config), OmegaConf.from_cli())
        config = OmegaConf.structured(Config(**loaded))
        model = find(config.system_type)(8)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(10):
            optimizer.zero_grad()
            model(torch.randn(4, 8)).sum().backward()
            optimizer.step()

    if __name__ == "__main__":
        main()
    """
FIND = """
    NETS = {}

    def register(cls):
        NETS[cls.__name__] = cls
        return cls

    def find(name):
        if ":" in name:
            return type(name, tuple(NETS[each] for each in name.split(":")), {})
        return NETS[name]

    from . import nets
    """


def test_one_table_of_all_that_a_project_has_is_asked_for_what_its_settings_name() -> None:
    others = "".join(f"@register\nclass Data{number}:\n    folder = {number}\n\n" for number in range(30))
    net = dedent(REGISTERED.format(name="Small"))
    files = {
        "train.py": FOUND,
        "kit/__init__.py": FIND,
        "kit/nets.py": f"{net}\n{others}",
        "configs/small.yaml": "system_type: Small\nsystem:\n  data_type: Data3\n",
    }
    (program,) = followed("train.py", files)
    assert (program.ended_by, program.training_loops) == (None, 1)
    assert not any(each.cause is Cause.UNKNOWN_MODEL for each in program.silent_for)


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
BY_PARTS = BY_HAND.replace(
    'module, name = settings["target"].rsplit(".", 1)',
    'parts = settings["target"].split(".")\n        module, name = ".".join(parts[:-1]), parts[-1]',
)
BY_DEFAULT = """
    import argparse
    import importlib
    import yaml

    def found(path):
        module, name = path.rsplit(".", 1)
        return getattr(importlib.import_module(module), name)

    if __name__ == "__main__":
        parser = argparse.ArgumentParser()
        parser.add_argument("--settings", default="settings/base.yaml")
        settings = yaml.safe_load(open(parser.parse_args().settings))
        found(settings["job"]["target"])(**settings["job"]["params"]).run()
    """
BY_MODULE = """
    import argparse
    import importlib
    import yaml

    def opened(given):
        found = argparse.Namespace()
        for key, value in given.items():
            setattr(found, key, opened(value) if isinstance(value, dict) else value)
        return found

    if __name__ == "__main__":
        parser = argparse.ArgumentParser()
        parser.add_argument("settings")
        with open(parser.parse_args().settings) as file:
            settings = opened(yaml.safe_load(file))
        importlib.import_module(settings.job.module).Runner(settings.job.rounds).run()
    """
IN_SETTINGS = {
    "nested": (BY_HYDRA, "conf/main.yaml", "job:\n  _target_: kit.runner.Runner\n  rounds: 5\n"),
    "quoted": (BY_HYDRA, "conf/main.yaml", "# all\njob:\n    rounds: 5  # many\n    _target_: 'kit.runner.Runner'\n"),
    "a group": (BY_HYDRA, "conf/job/long.yaml", "_target_: kit.runner.Runner\n"),
    "a module": (BY_MODULE, "settings/base.yaml", "job:\n  module: kit.runner\n  rounds: 3\n"),
    "by hand": (BY_HAND, "settings/base.yaml", "job:\n  target: kit.runner.Runner\n  params:\n    rounds: 3\n"),
    "by its parts": (BY_PARTS, "settings/base.yaml", "job:\n  target: kit.runner.Runner\n  params:\n    rounds: 3\n"),
    "by default": (BY_DEFAULT, "settings/base.yaml", "job:\n  target: kit.runner.Runner\n  params:\n    rounds: 3\n"),
}


@pytest.mark.parametrize("way", IN_SETTINGS)
def test_a_class_that_only_a_setting_file_names(way: str) -> None:
    start, path, text = IN_SETTINGS[way]
    files = {"train.py": start, path: text, "kit/__init__.py": "", "kit/runner.py": RUNNER, "kit/idle.py": OTHER}
    assert_trains(followed("train.py", {**files, "engine.py": ENGINE}))


SECTIONS = """
job:
  target: kit.runner.Work
  params:
    net:
      target: kit.nets.Deep
    data:
      target: kit.runner.Data
      params:
        train:
          target: kit.runner.Numbers
"""
WORK = """
    import torch
    from train import made_of

    class Numbers(torch.utils.data.Dataset):
        def __len__(self):
            return 9

        def __getitem__(self, index):
            return torch.zeros(8)

    class Data:
        def __init__(self, train=None):
            self.train = made_of(train)

        def loader(self):
            return torch.utils.data.DataLoader(self.train, batch_size=4)

    class Work:
        def __init__(self, net, data):
            self.net = made_of(net)
            self.teacher = made_of(net)
            self.loader = made_of(data).loader()

        def run(self):
            optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
            for _ in range(3):
                for batch in self.loader:
                    optimizer.zero_grad()
                    self.net(batch).mean().backward()
                    optimizer.step()
    """
DEEP = """
    from torch import nn

    class Deep(nn.Module):
        def __init__(self):
            super().__init__()
            layers = []
            for width in (8, 16, 32, 64, 128):
                layers.append(nn.Linear(width, 2 * width))
                layers.append(nn.ReLU())
                layers.append(nn.LayerNorm(2 * width))
            self.layers = nn.Sequential(*layers)

        def forward(self, x):
            return self.layers(x)
    """


def test_sections_of_sections_are_made_by_one_function() -> None:
    """What it made of one of them, which took long, says nothing of the next."""
    files = {"kit/__init__.py": "", "kit/runner.py": WORK, "kit/nets.py": DEEP, "settings/base.yaml": SECTIONS}
    assert_trains(followed("train.py", {"train.py": BY_HAND, **files}))


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


def test_a_class_of_the_program_itself_by_the_name_that_python_has_for_it() -> None:
    start = f"{BY_HYDRA}\n".replace("    import hydra", RUNNER.strip("\n") + "\n    import hydra", 1)
    files = {"conf/main.yaml": "job:\n  _target_: __main__.Runner\n  rounds: 5\n", "engine.py": ENGINE}
    assert_trains(followed("train.py", {"train.py": start, **files}))


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


@pytest.mark.parametrize(
    "cut",
    [
        "rsplit('.', 1)",
        "rpartition('.')[::2]",
        "split('/', 1)[1].rsplit('.', maxsplit=1)",
        "partition('/')[2].rsplit('.', 1)",
    ],
)
def test_a_class_of_which_a_setting_names_the_module(cut: str) -> None:
    begins = "any/" if "/" in cut else ""
    start = f"""
        import importlib
        import sys

        import yaml

        settings = yaml.safe_load(open(sys.argv[1]))
        settings.update(yaml.safe_load(sys.argv[2]))
        module, name = f"{begins}jobs.{{settings['job']}}.JOB".{cut}
        getattr(importlib.import_module(module), name)(3).run()
        """
    job = RUNNER.replace("    class Runner", "    class Job") + "JOB = Job\n"
    files = {"train.py": start, "engine.py": ENGINE, "jobs/long.py": job, "jobs/short.py": job}
    assert_trains(followed("train.py", files))


def test_a_class_of_which_a_setting_file_names_one_that_runs_by_itself() -> None:
    start = """
        import hydra

        @hydra.main(config_path="conf")
        def main(cfg):
            hydra.utils.get_class(cfg._target_)(cfg).run()

        if __name__ == "__main__":
            main()
        """
    work = """
        from engine import train

        class Workspace:
            def __init__(self, cfg):
                self.cfg = cfg

            def run(self):
                train()

        class Net:
            pass
        """
    conf = "_target_: work.Workspace\nnet:\n  _target_: work.Net\n"
    files = {"start.py": start, "engine.py": ENGINE, "work.py": work, "conf/base.yaml": conf, "pyproject.toml": ""}
    assert_trains(followed("start.py", files))


BY_LIGHTNING = """
    import hydra

    @hydra.main(config_path="conf", config_name="main")
    def main(cfg):
        model = hydra.utils.instantiate(cfg.model)
        trainer = hydra.utils.instantiate(cfg.trainer)
        trainer.fit(model=model, datamodule=hydra.utils.instantiate(cfg.data))

    if __name__ == "__main__":
        main()
    """
LIGHTNING = """
    import lightning as L
    import torch
    from torch.utils.data import DataLoader

    class Net(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(8, 1)

        def training_step(self, batch, index):
            return self.layer(batch).mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    class Data(L.LightningDataModule):
        def train_dataloader(self):
            return DataLoader(torch.randn(64, 8), batch_size=8)
    """


@pytest.mark.parametrize(
    "trainer", ["lightning.Trainer", "lightning.pytorch.trainer.Trainer", "pytorch_lightning.Trainer"]
)
def test_a_trainer_that_only_a_setting_file_names(trainer: str) -> None:
    conf = f"model:\n  _target_: kit.net.Net\ndata:\n  _target_: kit.net.Data\ntrainer:\n  _target_: {trainer}\n"
    files = {"train.py": BY_LIGHTNING, "conf/main.yaml": conf, "kit/__init__.py": "", "kit/net.py": LIGHTNING}
    (program,) = followed("train.py", files)
    assert program.training_loops == 1


MODULE_GIVEN = """
    import argparse
    from importlib import import_module
    import torch

    def named(text):
        module, name = text.split(":")
        return getattr(import_module(module), name)

    def main():
        parser = argparse.ArgumentParser()
        parser.add_argument("--config", required=True)
        config = import_module(parser.parse_args().config).Config()
        model = named(config.get_net())(8)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(10):
            optimizer.zero_grad()
            model(torch.randn(4, 8)).sum().backward()
            optimizer.step()

    if __name__ == "__main__":
        main()
    """


@pytest.mark.parametrize("count", [1, 2, 6])
def test_a_module_of_which_only_that_is_known_what_it_defines(count: int) -> None:
    config = "class Config:\n    def get_net(self):\n        return 'nets:Net{}'\n"
    net = dedent(REGISTERED.format(name="Net{}")).replace("from kit import register", "").replace("@register", "")
    files = {
        "train.py": MODULE_GIVEN,
        "nets.py": "\n".join(net.format(number) for number in range(count)),
        # Programs of the same kind have the name for what they import.
        **{
            f"test_{number}.py": "Config = None\nif __name__ == '__main__':\n    print(Config)\n" for number in range(9)
        },
        **{f"configs/c{number}.py": config.format(number) for number in range(count)},
    }
    (program,) = followed("train.py", files)
    assert (program.ended_by, program.training_loops) == (None, 1)
    assert not any(each.cause is Cause.UNKNOWN_MODEL for each in program.silent_for)
