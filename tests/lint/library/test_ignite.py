"""Engines of ignite: what they call when something happens."""

from gpudoctor.lint.domain.value import text_of
from gpudoctor.lint.events.data_loading import MakeLoader
from gpudoctor.lint.events.files import Save
from gpudoctor.lint.events.model import Wrap
from gpudoctor.lint.events.training_step import Backward, OptimizerStep

BEGIN = """
import ignite.distributed as idist
import torch
from ignite.engine import Engine, Events, create_supervised_evaluator, create_supervised_trainer
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

def came(name):
    torch.save({}, name)

net = nn.Linear(8, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.randn(64, 8)), batch_size=8)

def step(engine, batch):
    came("step")
    optimizer.zero_grad()
    net(batch[0]).mean().backward()
    optimizer.step()
"""


def _saved(found) -> list[Save]:
    return [event for event in found.events(Save) if event.path is not None]


def _came(found) -> list[str]:
    """What was called, in order, each once."""
    names = (text_of(event.path.single) for event in _saved(found))
    return list(dict.fromkeys(name for name in names if name is not None))


HANDLERS = """
trainer = Engine(step)

@trainer.on(Events.EPOCH_COMPLETED)
def at_the_end_of_an_epoch(engine):
    came("epoch")

@trainer.on(Events.ITERATION_COMPLETED(every=100) | Events.ITERATION_COMPLETED(once=3))
def now_and_then():
    came("now and then")

@trainer.on(Events.STARTED | Events.COMPLETED)
def around(engine):
    came("around")

trainer.add_event_handler(Events.COMPLETED, lambda engine, name: came(name), "done")
trainer.run(loader, max_epochs=3)
"""


def test_the_order_of_a_run(paper):
    found = paper(BEGIN + HANDLERS)
    assert _came(found) == ["around", "step", "now and then", "epoch", "done"]
    assert found.events(Backward)
    assert {text_of(event.path.single): len(event.loops) for event in _saved(found)} == {
        "around": 0, "step": 2, "now and then": 2, "epoch": 1, "done": 0,
    }  # fmt: skip
    sometimes = {text_of(event.path.single) for event in _saved(found) if event.condition}
    assert sometimes == {"now and then"}


def test_a_run_of_settings(paper):
    """What the user chooses is none of what the library's own names mean."""
    chosen = HANDLERS.replace("max_epochs=3", "**json.load(open('run.json'))")
    assert _came(paper(f"import json\n{BEGIN}{chosen}")) == ["around", "step", "now and then", "epoch", "done"]


def test_its_own_steps(paper):
    made = "create_supervised_trainer(net, optimizer, nn.functional.mse_loss, device='cuda')"
    found = paper(f"{BEGIN}{made}.run(loader)\n")
    assert found.events(Backward)[0].loss.forwards
    assert found.events(OptimizerStep)
    prepare = (
        "def prepare(batch, device, non_blocking):\n    came('prepare')\n    return batch[0].to(device), batch[0]\n"
    )
    evaluator = f"{prepare}create_supervised_evaluator(net, {{}}, prepare_batch=prepare).run(loader)\n"
    found = paper(BEGIN + evaluator)
    assert _came(found) == ["prepare"]
    assert all(event.context.evaluating for event in _saved(found))


DISTRIBUTED = """
def train(local_rank, depth):
    came(f"depth {depth}")
    model = idist.auto_model(net)
    idist.auto_dataloader(TensorDataset(torch.randn(64, 8)), batch_size=4)
    Engine(step).run(loader)

with idist.Parallel(backend="nccl") as parallel:
    parallel.run(train, 3)
"""


def test_several_processes(paper):
    found = paper(BEGIN + DISTRIBUTED)
    assert _came(found) == ["depth 3", "step"]
    assert [event.kind.value for event in found.events(Wrap)] == ["DistributedDataParallel"]
    assert found.events(MakeLoader)[-1].loader.sampler is not None


def test_a_method_of_its_own_in_a_library_file(paper):
    """The body of a stub stands in no module, in which a class could be looked up."""
    found = paper(
        """
        from ignite.engine import Engine

        class Counting(Engine):
            def fire(self, name):
                super().run()

        def test_counts(update):
            Counting(update).fire("started")
        """,
        "single",
    )
    assert found.program is not None
