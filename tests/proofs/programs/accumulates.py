# holds: reduces-every-backward; gradients-cleared
# fails: reduces-once-per-step; gradients-kept
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Linear(3, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(8):
    model(torch.randn(4, 3)).sum().backward()
    if step % 2:
        optimizer.step()
        optimizer.zero_grad()
dist.barrier()
