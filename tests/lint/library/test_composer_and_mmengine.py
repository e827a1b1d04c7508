"""The trainers of Composer and OpenMMLab: what they call of a program, in their order."""

from gpudoctor.lint.domain.value import text_of
from gpudoctor.lint.events.collective import Collective
from gpudoctor.lint.events.data_loading import Iterate
from gpudoctor.lint.events.files import Save
from gpudoctor.lint.events.training_step import Backward, OptimizerStep

DATA = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

def came(name):
    torch.save({}, name)

data = TensorDataset(torch.randn(64, 8))
loader = DataLoader(data, batch_size=8)
"""
COMPOSER = """
from composer import Callback, Trainer
from composer.models import ComposerModel

class Net(ComposerModel):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 1)
    def forward(self, batch):
        return self.layer(batch[0])
    def loss(self, outputs, batch):
        came("loss")
        return outputs.mean()
    def update_metric(self, batch, outputs, metric):
        came("update_metric")

class Watch(Callback):
    def epoch_start(self, state, logger): came("epoch_start")
    def batch_end(self, state, logger): came("batch_end")
    def eval_end(self, state, logger): came("eval_end")
    def fit_end(self, state, logger): came("fit_end")

net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
"""
MMENGINE = """
from mmengine.hooks import Hook
from mmengine.model import BaseModel
from mmengine.runner import Runner

class Net(BaseModel):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 1)
    def forward(self, data, mode="loss"):
        return {"loss": self.layer(data[0]).mean()}
    def val_step(self, data):
        came("val_step")

class Watch(Hook):
    def before_train_epoch(self, runner): came("before_train_epoch")
    def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None): came("after_train_iter")
    def after_run(self, runner): came("after_run")
"""


def _came(found) -> list[str]:
    """What was called, in order, each once."""
    names = (text_of(event.path.single) for event in found.events(Save) if event.path is not None)
    return list(dict.fromkeys(name for name in names if name is not None))


def test_the_order_of_composer(paper):
    given = "model=net, train_dataloader=loader, eval_dataloader=loader, optimizers=optimizer, callbacks=[Watch()]"
    found = paper(f"{DATA}{COMPOSER}Trainer({given}, max_duration='3ep').fit()\n")
    assert _came(found) == ["epoch_start", "loss", "batch_end", "update_metric", "eval_end", "fit_end"]
    assert found.events(Backward)[0].loss.forwards
    assert {event.optimizer.made_by for event in found.events(OptimizerStep)} == {"torch.optim.SGD"}


def test_what_composer_may_be_given_later(paper):
    found = paper(f"{DATA}{COMPOSER}Trainer(model=net, max_duration='3ep').fit(train_dataloader=loader)\n")
    assert _came(found) == ["loss"]


def test_composer_sums_up_losses(paper):
    own = COMPOSER.replace("return outputs.mean()", "return {'mean': outputs.mean(), 'total': 2 * outputs.mean()}")
    found = paper(f"{DATA}{own}Trainer(model=net, train_dataloader=loader, max_duration='3ep').fit()\n")
    assert found.events(Backward)[0].loss.forwards


def test_adapters_of_composer(paper):
    plain = "from composer.models import ComposerClassifier, HuggingFaceModel\n"
    for made in ("ComposerClassifier(nn.Linear(8, 2), num_classes=2)", "HuggingFaceModel(model=nn.Linear(8, 2))"):
        trained = f"Trainer(model={made}, train_dataloader=loader, max_duration='3ep').fit()\n"
        assert paper(f"{DATA}{COMPOSER}{plain}{trained}").events(Backward)[0].loss.forwards


def test_the_order_of_mmengine(paper):
    given = "Net(), 'out', loader, loader, optim_wrapper=dict(optimizer=dict(type='SGD')), custom_hooks=[Watch()]"
    found = paper(f"{DATA}{MMENGINE}Runner({given}).train()\n")
    assert _came(found) == ["before_train_epoch", "after_train_iter", "val_step", "after_run"]
    assert found.events(Backward)[0].loss.forwards


def test_a_validation_asks_all_ranks(paper):
    found = paper(
        f"{DATA}{MMENGINE}runner = Runner(Net(), 'out', loader, loader)\nif runner.rank == 0:\n    runner.val()\n"
    )
    assert [event.call for event in found.events(Collective) if event.rank_guards] == ["val"]


def test_a_step_and_a_loader_of_settings(paper):
    own = "class Own(Net):\n    def train_step(self, data, optim_wrapper):\n        came('train_step')\n"
    found = paper(f"{DATA}{MMENGINE}{own}Runner(Own(), 'out', dict(dataset=data, batch_size=4)).train()\n")
    assert _came(found) == ["train_step"]
    assert found.events(Iterate)[0].loader.managed == "mmengine"


REGISTERED = """
from mmengine.registry import HOOKS, MODELS, Registry

@MODELS.register_module()
class Named(Net):
    pass

@HOOKS.register_module(name="Other")
class Own(Watch):
    def after_run(self, runner): came(f"{runner.work_dir}/last")
"""


def test_classes_that_settings_name(paper):
    given = "dict(type='Named'), 'out', loader, custom_hooks=[dict(type='Other'), dict(type='Timer')]"
    steps = "optim_wrapper=dict(optimizer=dict(type='SGD'))"
    found = paper(f"{DATA}{MMENGINE}{REGISTERED}Runner({given}, {steps}).train()\n")
    assert _came(found) == ["before_train_epoch", "after_train_iter", "out/last"]
    assert found.events(Backward)[0].loss.forwards
    own = "PARTS = Registry('part')\nPARTS.register_module(module=Net)\nPARTS.build({'type': 'Net'}).val_step(0)\n"
    assert _came(paper(f"{DATA}{MMENGINE}{REGISTERED}{own}")) == ["val_step"]


def test_a_runner_of_a_file(paper):
    assert not paper(f"{DATA}{MMENGINE}Runner.from_cfg('settings.py').train()\n").events(Backward)


def test_a_configuration_is_written_where_a_file_is_named(paper):
    found = paper(
        "import sys\nfrom mmengine.config import Config\ncfg = Config.fromfile(sys.argv[1])\ncfg.merge_from_dict({})\n"
        "print(cfg.dump())\ncfg.dump('config.py')\n"
    )
    assert [(each.location.line, each.checkpoint) for each in found.events(Save)] == [(6, False)]
