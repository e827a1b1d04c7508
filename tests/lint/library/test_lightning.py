"""Lightning's `Trainer`: the functions of a program are called in its order, with what it hands to them."""

import pytest

from gpudoctor.lint.domain.value import text_of
from gpudoctor.lint.events.data_loading import Iterate
from gpudoctor.lint.events.files import Save
from gpudoctor.lint.events.training_step import Backward, OptimizerStep

BEGIN = """
from argparse import Namespace

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
        "Net(), Data.from_argparse_args(Namespace(batch_size=8))",
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


HYPERPARAMETERS = """
class Kept(Net):
    def __init__(self, make, width=4, left_out="x", **more):
        super().__init__()
        self.save_hyperparameters(ignore=["left_out"], logger=False)

    def configure_optimizers(self):
        came(f"{self.hparams.width} {self.hparams.name}")
        came(self.hparams.left_out)
        return self.hparams.make(self.trainer.model.parameters())

class KeptData(Data):
    def __init__(self, settings):
        super().__init__()
        self.save_hyperparameters(settings)

    def setup(self, stage):
        came(self.hparams["where"])

L.Trainer().fit(Kept(torch.optim.Adam, name="kept"), KeptData({"where": "given"}))
"""


def test_data_made_of_options(paper):
    data = "class Given(Data):\n    def __init__(self, a, b=2, c=3, d=4): came(f'{a} {b} {c} {d}')\n"
    assert "0 1 3 5" in _came(paper(f"{BEGIN}{data}Given.from_argparse_args(Namespace(a=0, b=1, d=2, more=6), d=5)\n"))


def test_hyperparameters_are_those_of_the_constructor(paper):
    found = paper(BEGIN + HYPERPARAMETERS)
    assert _came(found) == ["8", "given", "4 kept", "train_dataloader", "training_step"]
    assert found.events(OptimizerStep)[0].optimizer.made_by == "torch.optim.Adam"


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
    later = "made = LightningCLI(Net, Data, run=False)\n"
    assert not paper(f"{BEGIN}{cli}{later}").events(Backward)
    trained = f"{later}made.trainer.fit(made.model, datamodule=made.datamodule)\n"
    assert "training_step" in _came(paper(f"{BEGIN}{cli}{trained}"))
    assert not _came(paper(f"{BEGIN}{cli}LightningCLI(Net, Data, subclass_mode_model=True)\n"))


PARTS = """
from lightning.pytorch.cli import LightningCLI

class Part(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.layer = nn.Linear(width, 1)

class Whole(Net):
    def __init__(self, part: Part, weights="", out: str = "out"):
        super().__init__()
        self.part = part
        if len(weights) > 0:
            came("weights are given")

    def training_step(self, batch):
        return self.part.layer(batch[0]).mean()

LightningCLI(Whole, Data)
"""


def test_a_command_line_makes_the_parts(paper):
    found = paper(BEGIN + PARTS)
    assert "weights are given" in _came(found)
    assert found.events(Backward)[0].loss.forwards


OWN_CLI = """
from lightning.pytorch.cli import LightningCLI

class Own(LightningCLI):
    def add_arguments_to_parser(self, parser):
        came("add_arguments_to_parser")
    def before_fit(self):
        came("before_fit")
    def after_fit(self):
        came("after_fit")

Own(Net, Data)
"""


def test_a_command_line_of_its_own(paper):
    assert _came(paper(BEGIN + OWN_CLI)) == [
        "add_arguments_to_parser", "before_fit", "setup for fit", "configure_optimizers", "train_dataloader",
        "training_step", "after_fit",
    ]  # fmt: skip


TWO = """
class Two(Net):
    automatic_optimization = False
    def configure_optimizers(self):
        return torch.optim.SGD(self.layer.parameters(), lr=0.1), torch.optim.Adam(self.layer.parameters())
    def training_step(self, batch, batch_idx):
        first, second = self.optimizers()
        loss = self.layer(batch[0]).mean()
        second.zero_grad()
        self.manual_backward(loss)
        second.step()

L.Trainer().fit(Two(), loader())
"""


def test_optimizers_that_a_module_asks_for(paper):
    found = paper(BEGIN + TWO)
    assert {event.optimizer.made_by for event in found.events(OptimizerStep)} == {"torch.optim.Adam"}
    one = TWO.replace("return torch.optim.SGD(self.layer.parameters(), lr=0.1), ", "return ")
    found = paper(BEGIN + one.replace("first, second = ", "second = "))
    assert found.events(OptimizerStep)[0].optimizer.made_by == "torch.optim.Adam"


BY_INDEX = """
class Turns(Net):
    def configure_optimizers(self):
        return [torch.optim.SGD(self.layer.parameters(), lr=0.1), torch.optim.Adam(self.layer.parameters())], []
    def training_step(self, batch, batch_idx, optimizer_idx):
        came(f"turn {optimizer_idx}")
        return self.layer(batch[0]).mean()

L.Trainer().fit(Turns(), loader())
"""


def test_a_step_for_each_optimizer(paper):
    found = paper(BEGIN + BY_INDEX)
    assert _came(found) == ["8", "turn 0", "turn 1"]
    assert [event.optimizer.made_by for event in found.events(OptimizerStep)][:2] == [
        "torch.optim.SGD", "torch.optim.Adam",
    ]  # fmt: skip


ENDED = """
class Ended(Net):
    def training_step(self, batch, batch_idx):
        return {"loss": 0, "out": self.layer(batch[0])}
    def training_step_end(self, parts):
        came("training_step_end")
        return parts["out"].mean()

L.Trainer().fit(Ended(), loader())
"""


def test_what_a_step_returns_may_be_no_loss_yet(paper):
    found = paper(BEGIN + ENDED)
    assert _came(found)[-1] == "training_step_end"
    assert found.events(Backward)[0].loss.forwards


HOOKS_OF_A_STEP = """
class Watch(L.Callback):
    def on_train_start(self, trainer, module): came("callback of the module")

class Own(Net):
    def configure_callbacks(self): return [Watch()]
    def backward(self, loss):
        came("backward")
        super().backward(loss)
    def optimizer_step(self, epoch, batch_idx, optimizer, optimizer_closure):
        came("optimizer_step")
        optimizer.step(closure=optimizer_closure)

L.Trainer(callbacks=Watch()).fit(Own(), loader())
"""


def test_hooks_around_a_step(paper):
    found = paper(BEGIN + HOOKS_OF_A_STEP)
    assert _came(found)[-4:] == ["callback of the module", "training_step", "backward", "optimizer_step"]
    assert len({event.location for event in found.events(Backward)}) == 1
    assert found.events(OptimizerStep)


SEVERAL = """
class Several(Net):
    def training_step(self, batch, batch_idx):
        first, second = batch
        reveal(second[0])  #: Tensor
        return self.layer(first[0]).mean()
    def validation_step(self, batch, batch_idx, dataloader_idx=0):
        came(f"loader {dataloader_idx}")

L.Trainer().fit(Several(), [loader(), loader()], [loader(), loader()])
"""


def test_several_loaders(paper):
    assert _came(paper(BEGIN + SEVERAL))[-2:] == ["loader 0", "loader 1"]
