"""What `DataParallel` gathers: whether a loss is one number when it goes backward, or one for each GPU."""

from __future__ import annotations

import textwrap

import pytest

from gpudoctor.lint.values.event import Backward

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
