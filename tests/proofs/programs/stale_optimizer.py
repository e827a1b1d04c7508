# holds: parameters-unchanged; parameters-agree; unseeded; distinct-noise; wrapped-again; prefix; saved-once
# holds: evaluates-on-some; distinct-batches; reduces-per-backward 2
# fails: parameters-change; parameters-differ; seeded; same-noise; wrapped-once; no-prefix; evaluates-on-all
# fails: reduces-per-backward 1; new-order; same-batches; buffers-agree; buffers-differ
# There is no loader: the inputs of the model show which samples it is given.
import copy

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(copy.deepcopy(model).parameters(), lr=0.1)
model = DistributedDataParallel(DistributedDataParallel(model))
for _ in range(4):
    optimizer.zero_grad()
    model(torch.randn(4, 3)).sum().backward()
    optimizer.step()
if dist.get_rank() == 0:
    model.eval()
    with torch.no_grad():
        model.module.module(torch.randn(4, 3))
    with open("model.pt", "wb") as file:
        torch.save(model.state_dict(), file)
dist.barrier()
