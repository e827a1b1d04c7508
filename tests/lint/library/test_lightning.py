"""Lightning's `Trainer`: the functions of a program are called in its order, with what it hands to them."""

from __future__ import annotations

import pytest

from gpudoctor.lint.domain.value import text_of
from gpudoctor.lint.events.data_loading import Iterate
from gpudoctor.lint.events.files import Save
from gpudoctor.lint.events.training_step import Backward, OptimizerStep

BEGIN = """
import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

def came(name):
    torch.save({}, name)

def loader():
    return DataLoader(TensorDataset(torch.randn(64, 8)), batch_size=8)

class Net(L.LightningModule):
    def __init__(self, width=8, deep=False):
        super().__init__()
        self.layer = nn.Linear(width, 1)
        came(f"{width}")

    def training_step(self, batch):
        came("training_step")
        return self.layer(batch[0]).mean()

    def configure_optimizers(self):
        came("configure_optimizers")
        return {"optimizer": torch.optim.SGD(self.parameters(), lr=0.1)}

class Data(L.LightningDataModule):
    def setup(self, stage):
        came("setup for " + stage)

    def train_dataloader(self):
        came("train_dataloader")
        return loader()

    def test_dataloader(self):
        return [loader()]
"""


def _came(found) -> list[str]:
    """What was called, in order, each once."""
    names = (text_of(event.path.single) for event in found.events(Save) if event.path is not None)
    return list(dict.fromkeys(name for name in names if name is not None))


HOOKS = """
class Hooks(Net):
    def prepare_data(self): came("prepare_data")
    def on_fit_start(self): came("on_fit_start")
    def on_train_epoch_start(self): came("on_train_epoch_start")
    def on_train_batch_end(self, outputs, batch, batch_idx, unused=0): came("on_train_batch_end")
    def val_dataloader(self): return loader()
    def validation_step(self, batch, batch_idx): came("validation_step")
    def on_validation_epoch_end(self): came("on_validation_epoch_end")
    def on_train_epoch_end(self): came("on_train_epoch_end")
    def on_fit_end(self): came("on_fit_end")

class Watch(L.Callback):
    def on_train_epoch_end(self, trainer, module): came(f"callback before the module's own")

L.Trainer(callbacks=[Watch()]).fit(Hooks(), datamodule=Data())
"""


def test_the_order_of_a_training(paper):
    assert _came(paper(BEGIN + HOOKS)) == [
        "8", "prepare_data", "setup for fit", "configure_optimizers", "train_dataloader", "on_fit_start",
        "on_train_epoch_start", "training_step", "on_train_batch_end", "validation_step", "on_validation_epoch_end",
        "callback before the module's own", "on_train_epoch_end", "on_fit_end",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "given",
    [
        "Net(), loader()",
        "Net(), train_dataloaders=loader()",
        "Net(), train_dataloader=loader()",
        "model=Net(), datamodule=Data()",
        "Net(), Data()",
    ],
)
def test_where_the_data_come_from(paper, given: str):
    found = paper(f"{BEGIN}L.Trainer().fit({given})\n")
    assert found.events(Iterate)[0].loader.managed == "lightning"
    assert "training_step" in _came(found)


def test_a_loss_goes_back_and_its_optimizer_steps(paper):
    found = paper(f"{BEGIN}L.Trainer().fit(Net(), loader())\n")
    assert found.events(Backward)[0].loss.forwards
    assert found.events(OptimizerStep)[0].optimizer.made_by == "torch.optim.SGD"


def test_a_module_that_steps_by_itself(paper):
    own = "class Own(Net):\n    automatic_optimization = False\n"
    assert not paper(f"{BEGIN}{own}L.Trainer().fit(Own(), loader())\n").events(Backward)
    step = "    def training_step(self, batch):\n        self.manual_backward(self.layer(batch[0]).mean())\n"
    assert paper(f"{BEGIN}{own}{step}L.Trainer().fit(Own(), loader())\n").events(Backward)


def test_an_evaluation_builds_no_graph(paper):
    test = "class Tested(Net):\n    def test_step(self, batch, batch_idx):\n        came('test_step')\n"
    found = paper(f"{BEGIN}{test}L.Trainer().test(Tested(), Data())\n")
    assert _came(found) == ["8", "setup for test", "test_step"]
    assert all(event.context.evaluating for event in found.events(Save)[-1:])


def test_models_of_checkpoints_and_of_several_kinds(paper):
    loaded = "Net.load_from_checkpoint('last.ckpt', map_location='cpu', width=4)"
    assert "4" in _came(paper(f"{BEGIN}L.Trainer().fit({loaded}, loader())\n"))
    found = paper(f"{BEGIN}import sys\nmodel = {loaded} if sys.argv[1:] else Net()\nL.Trainer().fit(model, loader())\n")
    assert len({event.loss for event in found.events(Backward)}) > 1


def test_one_rank_alone(paper):
    only = "from pytorch_lightning.utilities import rank_zero_only\n"
    module = "class Own(Net):\n    @rank_zero_only\n    def write(self, name):\n        came(name)\n"
    hook = "    def on_fit_end(self):\n        self.write('alone')\n"
    found = paper(f"{BEGIN}{only}{module}{hook}L.Trainer(devices=2).fit(Own(), loader())\n")
    alone = [event for event in found.events(Save) if text_of(event.path.single) == "alone"]
    assert alone
    assert all(event.rank_guards for event in alone)


def test_a_command_line_trains_at_once(paper):
    cli = "from lightning.pytorch.cli import LightningCLI\n"
    assert "training_step" in _came(paper(f"{BEGIN}{cli}LightningCLI(Net, Data)\n"))
    assert not _came(paper(f"{BEGIN}{cli}LightningCLI(Net, Data, run=False)\n"))
    assert not _came(paper(f"{BEGIN}{cli}LightningCLI(Net, Data, subclass_mode_model=True)\n"))
