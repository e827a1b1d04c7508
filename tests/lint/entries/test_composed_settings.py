"""Programs that hydra configures: their objects are made of what the setting files of their defaults say."""

from pathlib import Path
from textwrap import dedent

import pytest

from tests.support.linting import linted

PROGRAM = """
    import hydra
    from hydra.utils import instantiate
    from omegaconf import DictConfig

    @hydra.main(version_base=None, config_path="conf", config_name="train")
    def main(cfg: DictConfig):
        if not isinstance(cfg, DictConfig):
            raise TypeError(cfg)
        data, model = instantiate(cfg.data), instantiate(cfg.model)
        instantiate(cfg.trainer).fit(model, data)

    main()
    """
PARTS = """
    import lightning.pytorch as pl
    import torch
    from torch.nn.functional import cross_entropy
    from torch.utils.data import DataLoader, TensorDataset

    class Lit(pl.LightningModule):
        def __init__(self, net, optimizer, loud=False):
            super().__init__()
            self.net, self.make, self.loud = net, optimizer, loud

        def training_step(self, batch, _):
            x, y = batch
            return cross_entropy(self.net(x), y)

        def validation_step(self, batch, _):
            x, y = batch
            self.log("loss", cross_entropy(self.net(x), y), sync_dist=self.loud)

        def configure_optimizers(self):
            return self.make(self.parameters())

    class Data(pl.LightningDataModule):
        def __init__(self, size):
            super().__init__()
            self.set = TensorDataset(torch.randn(256, size), torch.zeros(256).long())

        def train_dataloader(self):
            return DataLoader(self.set, 8, shuffle=True, num_workers=2)

        def val_dataloader(self):
            return DataLoader(self.set, 8, num_workers=2)
    """
FILES = {
    "train.py": PROGRAM,
    "parts.py": PARTS,
    "conf/train.yaml": "defaults:\n  - model: net\n  - trainer: gpu\ndata:\n  _target_: parts.Data\n  size: 8\n",
    "conf/model/net.yaml": "_target_: parts.Lit\nnet:\n  _target_: torch.nn.Linear\n  _args_: [8, 2]\n"
    "optimizer:\n  _target_: torch.optim.SGD\n  _partial_: true\n  lr: 0.1\n",
    "conf/trainer/gpu.yaml": "_target_: lightning.pytorch.Trainer\naccelerator: gpu\ndevices: 1\n",
}
SEVERAL = "_target_: lightning.pytorch.Trainer\naccelerator: gpu\ndevices: 4\nstrategy: ddp\n"


def _codes(folder: Path, files: dict[str, str], code: str = "GPU312") -> list[tuple[str, str]]:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(dedent(text), encoding="utf-8")
    return [(each.code, each.path) for each in linted(folder / "train.py", folder=folder, select=(code,)).seen]


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ({}, False),
        ({"conf/trainer/ddp.yaml": SEVERAL}, True),
        ({"conf/trainer/gpu.yaml": SEVERAL}, True),
        (
            {"conf/trainer/gpu.yaml": SEVERAL, "conf/model/net.yaml": FILES["conf/model/net.yaml"] + "loud: true\n"},
            False,
        ),
    ],
)
def test_a_trainer_of_several_processes(more: dict[str, str], found: bool, tmp_path: Path) -> None:
    assert _codes(tmp_path, {**FILES, **more}) == ([("GPU312", "parts.py")] if found else [])


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("trainer=ddp", True),
        ("trainer=gpu", False),
        ("", True),
        ("trainer=ddp model.loud=true", False),
    ],
)
def test_what_a_launch_file_says(words: str, found: bool, tmp_path: Path) -> None:
    files = {**FILES, "conf/trainer/ddp.yaml": SEVERAL, "run.sh": f"python train.py {words}\n"}
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(dedent(text), encoding="utf-8")
    said = linted(tmp_path, folder=tmp_path, select=("GPU312",)).seen
    assert [each.code for each in said] == (["GPU312"] if found else [])


def test_the_environment_says_where_the_root_is(tmp_path: Path) -> None:
    """Whatever it says, the folder of the settings lies above the program."""
    program = PROGRAM.replace('config_path="conf"', 'config_path=str(Path(os.environ["PROJECT_ROOT"]) / "conf")')
    files = {**FILES, "src/train.py": "import os\nfrom pathlib import Path\n" + dedent(program)}
    files |= {"conf/trainer/ddp.yaml": SEVERAL}
    del files["train.py"]
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(dedent(text), encoding="utf-8")
    said = linted(tmp_path / "src" / "train.py", folder=tmp_path, select=("GPU312",)).seen
    assert [each.code for each in said] == ["GPU312"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "start"),
    [
        ("", 'initialize(version_base=None, config_path="conf")\ncfg = compose(config_name="train")'),
        ("", 'initialize_config_module("conf", version_base=None)\ncfg = compose("train")'),
        ("--config train", 'initialize_config_module("conf")\ncfg = compose(parser.parse_args().config)'),
    ],
)
def test_a_program_that_composes_itself(words: str, start: str, tmp_path: Path) -> None:
    program = f"""
import argparse
from hydra import compose, initialize, initialize_config_module
from hydra.utils import instantiate

parser = argparse.ArgumentParser()
parser.add_argument("--config", required=True)
{start}
data, model = instantiate(cfg.data), instantiate(cfg.model)
instantiate(cfg.trainer).fit(model, data)
"""
    files = {"train.py": program, "run.sh": f"python train.py {words}\n", "conf/trainer/gpu.yaml": SEVERAL}
    assert _codes(tmp_path, {**FILES, **files}) == [("GPU312", "parts.py")]


@pytest.mark.parametrize("library", ["rootutils", "pyrootutils"])
@pytest.mark.parametrize(("mark", "found"), [("pyproject.toml", True), (".git", False)])
def test_the_root_of_the_project_is_looked_for(library: str, mark: str, found: bool, tmp_path: Path) -> None:
    """The settings lie beside the program's folder, where the files of the project begin: not those that are nearer."""
    looks = f"""
    import {library}
    ROOT = {library}.setup_root(search_from=__file__, indicator=[".here", "{mark}"], pythonpath=True)
    GIVEN = {{"config_path": str(ROOT / "conf"), "config_name": "train"}}
    """
    program = PROGRAM.replace('version_base=None, config_path="conf", config_name="train"', "**GIVEN")
    files = {
        **FILES,
        **{f"src/{path}": text for path, text in FILES.items() if path.startswith("conf/")},
        "src/train.py": dedent(looks) + dedent(program),
        "conf/trainer/ddp.yaml": SEVERAL,
        "pyproject.toml": "",
    }
    del files["train.py"]
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(dedent(text), encoding="utf-8")
    said = linted(tmp_path / "src" / "train.py", folder=tmp_path, select=("GPU312",)).seen
    assert [each.code for each in said] == (["GPU312"] if found else [])


CLI = """
    from lightning.pytorch.cli import LightningCLI

    LightningCLI({given})
    """
NETS = """
    import torch

    class Net(torch.nn.Module):
        def __init__(self, width: int):
            super().__init__()
            self.layer = torch.nn.Linear(width, 2)

        def forward(self, x):
            return self.layer(x)
    """
CLASSES = """
    model:
      class_path: parts.Lit
      init_args:
        net:
          class_path: nets.Net
          init_args: {width: 8}
    data:
      class_path: parts.Data
    """


@pytest.mark.parametrize("given", ["", "parts.Lit, parts.Data, subclass_mode_model=True"])
def test_classes_that_a_setting_file_gives_a_command_line(given: str, tmp_path: Path) -> None:
    program = f"import parts\n{dedent(CLI).format(given=given)}"
    parts = PARTS.replace(", sync_dist=self.loud", "")
    files = {"train.py": program, "parts.py": parts, "nets.py": NETS, "config.yaml": CLASSES}
    assert _codes(tmp_path, files) == [("GPU312", "parts.py")]
    assert _codes(tmp_path, {**files, "config.yaml": "model: parts.Lit\n"}) == []


@pytest.mark.parametrize(("words", "found"), [("several=false", 0), ("several=true", 1), ("", 1)])
def test_what_is_off_in_a_launch_is_off_there(words: str, found: int, tmp_path: Path) -> None:
    """What a file says to be off somebody may turn on; what a launch says is so."""
    program = """
    import hydra, torch
    from torch import distributed as dist, nn

    @hydra.main(version_base=None, config_path="conf", config_name="train")
    def main(cfg):
        if cfg.several:
            dist.init_process_group("gloo")
            nn.parallel.DistributedDataParallel(nn.Linear(1, 1))
            torch.save({}, "a.pt")

    main()
    """
    files = {"train.py": program, "conf/train.yaml": "several: false\n", "run.sh": f"torchrun train.py {words}\n"}
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(dedent(text), encoding="utf-8")
    said = linted(tmp_path, folder=tmp_path, select=("GPU601",)).seen
    assert len(said) == found


def test_another_word_may_choose_what_trains(tmp_path: Path) -> None:
    """`trainer=Sharded` on the command line starts several processes, whatever the file says."""
    program = """
    import hydra, torch
    from torch import distributed as dist, nn

    @hydra.main(version_base=None, config_path="conf", config_name="train")
    def main(cfg):
        if "Sharded" in cfg.trainer:
            dist.init_process_group("gloo")
            nn.parallel.DistributedDataParallel(nn.Linear(1, 1))
            torch.save({}, "a.pt")

    main()
    """
    for path, text in {"train.py": program, "conf/train.yaml": "trainer: Plain\n"}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(dedent(text), encoding="utf-8")
    said = linted(tmp_path / "train.py", folder=tmp_path, select=("GPU601",)).seen
    assert [each.code for each in said] == ["GPU601"]


TRAINER = """
    trainer:
      devices: 4
      strategy: ddp
      use_distributed_sampler: {deals}
      callbacks:
        - class_path: lightning.pytorch.callbacks.LearningRateMonitor
    """


@pytest.mark.parametrize(("deals", "found"), [("false", [("GPU301", "parts.py")]), ("true", [])])
def test_what_the_file_of_a_command_line_says_of_its_trainer(deals: str, found: list[object], tmp_path: Path) -> None:
    files = {
        "train.py": f"import parts\n{dedent(CLI).format(given='parts.Lit, parts.Data, subclass_mode_model=True')}",
        "parts.py": PARTS,
        "nets.py": NETS,
        "fit.yaml": dedent(CLASSES) + dedent(TRAINER).format(deals=deals),
        "run.sh": "python train.py fit --config fit.yaml\n",
    }
    assert _codes(tmp_path, files, "GPU301") == found
