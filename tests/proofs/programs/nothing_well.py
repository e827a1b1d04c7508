# holds: parameters-differ; parameters-change; buffers-differ; same-batches; same-batches evaluation; same-order
# holds: all-seen; loads-in-workers; evaluation-leaks; saved-twice; logger-twice; gradients-kept; graph-grows
# holds: graph-built; trains-in-eval-mode; unregistered; clip-broken; output-differs; syncs-every-step
# holds: syncs-every-step 2; barriers-every-step; groups-grow; debug-on; evaluates-on-all; finishes
# fails: parameters-agree; buffers-agree; distinct-batches; distinct-batches evaluation; new-order
# fails: loads-in-training-process; evaluation-apart; saved-once; logger-once; gradients-cleared; graph-freed; no-graph
# fails: trains-in-train-mode; registered; clip-holds; output-agrees; syncs-rarely; syncs-every-step 4; barriers-rarely
# fails: groups-stay; wrapped-once; debug-off; hang; crash; sampler-thin; evaluates-on-some; parameters-unchanged
# holds: whole-parameters-differ
# fails: whole-parameters-agree
import os

import torch
import torch.distributed as dist
import wandb
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
        self.others = [nn.Linear(4, 4)]
        self.last = nn.Linear(4, 1)

    def forward(self, x):
        return self.last(self.others[0](self.first(x)))


dist.init_process_group("gloo")
rank = int(os.environ["RANK"])
torch.manual_seed(0)
data = TensorDataset(torch.randn(32, 3), torch.randn(32, 1))
loader = DataLoader(data, batch_size=4, num_workers=1)
torch.manual_seed(rank)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
wandb.init(project="wrong")
torch.autograd.set_detect_anomaly(True)

for _ in range(2):
    total = 0
    for x, y in loader:
        dist.barrier()
        loss = nn.functional.mse_loss(model(x), y)
        total += loss
        nn.utils.clip_grad_norm_(model.parameters(), 1e-6)
        loss.backward()
        optimizer.step()
        print(rank, loss.item(), float(loss))
    dist.new_group([0, 1])
    model.eval()
    errors = [nn.functional.l1_loss(model(x), y) for x, y in loader]
    torch.save(model.state_dict(), "checkpoint.pt")
dist.barrier()
