"""One process: DataParallel makes the steps of one GPU, and refuses what it refuses."""

import copy

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
alone = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
model = nn.DataParallel(copy.deepcopy(alone).cuda())
x, y = torch.randn(10, 8), torch.randint(0, 2, (10,))
optimizers = [torch.optim.SGD(each.parameters(), 0.1) for each in (alone, model)]
seen = []
model.module[0].register_forward_hook(lambda layer, given, made: seen.append(made.device))
for _ in range(3):
    for optimizer in optimizers:
        optimizer.zero_grad()
    nn.functional.cross_entropy(alone(x), y).backward()
    out = model(x)
    assert out.device == torch.device("cuda:0")
    nn.functional.cross_entropy(out, y.cuda()).backward()
    for ours, theirs in zip(alone.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad.cpu())
    for optimizer in optimizers:
        optimizer.step()
assert sorted(map(str, seen)) == ["cuda:0"] * 3 + ["cuda:1"] * 3
assert nn.DataParallel(nn.Linear(8, 2).cuda(), output_device=1)(x).device == torch.device("cuda:1")
with pytest.raises(RuntimeError, match=r"device cuda:0 \(device_ids\[0\]\) but found one of them on device: cpu"):
    nn.DataParallel(nn.Linear(8, 2))(x)


class Loss(nn.Module):
    """Returns a number: each GPU has its own."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 2)

    def forward(self, x, y):
        return nn.functional.cross_entropy(self.layer(x), y)


losses = nn.DataParallel(Loss().cuda())(x.cuda(), y.cuda())
with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
    losses.backward()
losses.mean().backward()


class Twice(nn.Module):
    """Computes what lies in its middle again for the backward."""

    def __init__(self, reentrant):
        super().__init__()
        self.middle = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3))
        self.last = nn.Linear(8, 2)
        self.reentrant = reentrant

    def forward(self, x):
        return self.last(checkpoint(self.middle, x, use_reentrant=self.reentrant))


for reentrant in (False, True):
    model = nn.DataParallel(Twice(reentrant).cuda())
    model(x.cuda().requires_grad_()).sum().backward()
    assert {each.grad.device for each in model.parameters()} == {torch.device("cuda:0")}
print("done", flush=True)
