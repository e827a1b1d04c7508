"""Two ranks: DDP with SyncBatchNorm makes the steps of one process, and refuses what it refuses on GPUs."""

import copy
import os

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
torch.manual_seed(0)
alone = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2))
inner = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(alone)).cuda()
model = DistributedDataParallel(inner, device_ids=[rank])
x, y = torch.randn(8, 3, 6, 6), torch.randn(8, 2)
optimizers = [torch.optim.SGD(each.parameters(), 0.1) for each in (alone, model)]
for _ in range(3):
    for optimizer in optimizers:
        optimizer.zero_grad()
    nn.functional.mse_loss(alone(x), y).backward()
    # DDP moves what it is given.
    nn.functional.mse_loss(model(x[rank::2]), y[rank::2].cuda()).backward()
    for ours, theirs in zip(alone.parameters(), model.parameters(), strict=True):
        assert theirs.grad.device == theirs.device == torch.device("cuda", rank)
        torch.testing.assert_close(ours.grad, theirs.grad.cpu(), atol=1e-5, rtol=1e-4)
    for optimizer in optimizers:
        optimizer.step()
for ours, theirs in zip(alone.buffers(), inner.buffers(), strict=True):
    torch.testing.assert_close(ours, theirs.cpu(), atol=1e-5, rtol=1e-4)
with pytest.raises(ValueError, match="SyncBatchNorm expected input tensor to be on GPU"):
    nn.SyncBatchNorm(3)(torch.randn(4, 3, 2, 2))


def averaged(state, bucket):
    """A hook: what it is given was born in C++."""
    return dist.all_reduce(bucket.buffer().div_(2), async_op=True).get_future().then(lambda done: done.value()[0])


hooked = DistributedDataParallel(nn.Linear(2, 2).cuda(), device_ids=[rank], gradient_as_bucket_view=True)
hooked.register_comm_hook(None, averaged)
hooked(torch.full((1, 2), float(rank))).sum().backward()
assert hooked.module.weight.grad.tolist() == [[0.5, 0.5], [0.5, 0.5]]
plain = nn.Linear(2, 2).cuda()
for parameter in plain.parameters():
    parameter.register_hook(lambda gradient: (dist.all_reduce(gradient), gradient)[1])
plain(torch.full((1, 2), float(rank)).cuda()).sum().backward()
assert plain.weight.grad.tolist() == [[1, 1], [1, 1]]

with pytest.raises(RuntimeError, match="No backend type associated with device type cpu"):
    DistributedDataParallel(nn.Linear(2, 2))
for module in (nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2).to(0), nn.Linear(2, 2).to(1))):
    with pytest.raises(ValueError, match="arguments only work with single-device/multiple-device GPU modules"):
        DistributedDataParallel(module, device_ids=[rank])
print("done", flush=True)
