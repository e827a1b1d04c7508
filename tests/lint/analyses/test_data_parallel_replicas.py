"""What `DataParallel` gathers: whether a loss is one number when it goes backward, or one for each GPU."""

import textwrap

import pytest

from gpudoctor.lint.events.model import ReplicaRead, ReplicaWrite
from gpudoctor.lint.events.training_step import Backward

PROGRAM = """
import torch
from torch import nn
from torch.nn import functional as F
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.criterion = nn.CrossEntropyLoss()
        self.each = nn.CrossEntropyLoss(reduction="none")
    def forward(self, x, y, how="number"):
        logits = self.layer(x)
        loss = self.criterion(logits, y)
        if how == "number":
            return 0.5 * loss + logits.abs().mean()
        if how == "each":
            return self.each(logits, y)
        if how == "dict":
            return {{"loss": loss, "logits": logits}}
        if how == "mixed":
            return loss if x.shape[0] > 3 else logits
        return loss, logits
model = nn.DataParallel(Net().cuda())
x, y = torch.randn(8, 4).cuda(), torch.randint(0, 4, (8,)).cuda()
{lines}
"""


@pytest.mark.parametrize(
    ("lines", "extent"),
    [
        ("model(x, y).backward()", "EACH_GPU"),
        ("(model(x, y) / 2 + 1).float().backward()", "EACH_GPU"),
        ("model(x, y).mean().backward()", "NUMBER"),
        ("torch.sum(model(x, y)).backward()", "NUMBER"),
        ("model(x, y, 'pair')[0].backward()", "EACH_GPU"),
        ("loss, _ = model(x, y, 'pair')\\nloss.backward()", "EACH_GPU"),
        ("_, logits = model(x, y, 'pair')\\nF.cross_entropy(logits, y).backward()", "NUMBER"),
        ("model(x, y, how='dict')['loss'].backward()", "EACH_GPU"),
        ("model(x, y, how='dict')['logits'].backward()", None),
        ("model(x, y, how='each').backward()", None),
        ("model(x, y, how='mixed').backward()", None),
        ("model(x, y)[0].backward()", None),
        ("loss = model(x, y)\\nloss.backward(torch.ones_like(loss))", None),
        ("model.module(x, y).backward()", None),
    ],
)
def test_extent_of_a_loss(paper, lines: str, extent: str | None):
    found = paper(textwrap.dedent(PROGRAM.format(lines=lines.replace("\\n", "\n"))), launch="single")
    shown = found.event(Backward).loss.extent
    assert (shown.name if shown is not None else None) == extent


STATE = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.count, self.cache, self.kept = 0, None, None
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("seen", torch.zeros(1))
    def forward(self, x):
        self.count += 1
        self.seen += 1
        if self.cache is None:
            self.cache = torch.ones(4)
        self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
        self.kept = self.layer(x)
        return self.kept
model = {model}
out = model(torch.randn(8, 4).cuda())
{lines}
"""


def test_what_a_forward_sets_on_a_copy(paper):
    found = paper(STATE.format(model="nn.DataParallel(Net().cuda())", lines="model.module.count = 5"), launch="single")
    writes = {event.name: event.carried for event in found.events(ReplicaWrite)}
    assert writes == {"count": True, "cache": False, "mean": True, "kept": False}


def test_nothing_is_lost_without_copies(paper):
    found = paper(STATE.format(model="Net().cuda()", lines="print(model.count)"), launch="single")
    assert not found.events(ReplicaWrite, ReplicaRead)


@pytest.mark.parametrize(
    ("lines", "names"),
    [
        ("print(model.module.kept)", ["kept"]),
        ("model.module.count = 0\nprint(model.module.count)", []),
        ("print(model.module.layer.weight)", []),
    ],
)
def test_what_is_read_from_the_model_later(paper, lines: str, names: list[str]):
    found = paper(STATE.format(model="nn.DataParallel(Net().cuda())", lines=lines), launch="single")
    assert [event.name for event in found.events(ReplicaRead)] == names
