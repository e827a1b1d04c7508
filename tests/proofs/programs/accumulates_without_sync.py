# holds: reduces-once-per-step; parameters-agree
# fails: reduces-every-backward
import contextlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Linear(3, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(8):
    with contextlib.nullcontext() if step % 2 else model.no_sync():
        model(torch.randn(4, 3)).sum().backward()
    if step % 2:
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
dist.barrier()
