# holds: finishes; parameters-agree; parameters-change; buffers-agree; distinct-batches; distinct-batches evaluation
# holds: new-order; all-seen; global-batch 8; loads-in-training-process; evaluation-apart; saved-once; no-prefix
# holds: logger-once; gradients-cleared; graph-freed; no-graph; trains-in-train-mode; registered; clip-holds
# holds: output-agrees; silent-about "no such text"; prints "all is well"; syncs-rarely; barriers-rarely
# holds: reduces-per-backward 1; groups-stay; wrapped-once; debug-off; evaluates-on-all; seeded; distinct-noise
# fails: crash; hang; parameters-differ; parameters-unchanged; buffers-differ; same-batches; same-batches evaluation
# fails: same-order; part-unseen; sampler-thin; global-batch 4; loads-in-workers; evaluation-leaks; saved-twice; prefix
# fails: logger-twice; gradients-kept; graph-grows; graph-built; trains-in-eval-mode; unregistered; clip-broken
# fails: output-differs; silent-about "all is well"; prints "no such text"; syncs-every-step; barriers-every-step
# fails: reduces-per-backward 2; reduces-every-backward; reduces-once-per-step; groups-grow; wrapped-again; debug-on
# fails: evaluates-on-some; unseeded; same-noise; clip-overdone; such-a-claim
# holds: whole-parameters-agree
# fails: whole-parameters-differ
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset, random_split
from torch.utils.data.distributed import DistributedSampler
from torch.utils.tensorboard import SummaryWriter
from tqdm import tqdm


def sharded(data):
    return DataLoader(data, batch_size=4, sampler=DistributedSampler(data))


dist.init_process_group("gloo")
rank = int(os.environ["RANK"])
torch.manual_seed(0)
data = TensorDataset(torch.randn(44, 3), torch.randn(44, 1))
training, validation = random_split(data, [32, 12])
training, validation = sharded(training), sharded(validation)
model = DistributedDataParallel(
    nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)), broadcast_buffers=True
)
optimizer = torch.optim.Adam(model.parameters())
writer = SummaryWriter() if rank == 0 else None
torch.manual_seed(rank)

for epoch in range(2):
    training.sampler.set_epoch(epoch)
    model.train()
    for x, y in tqdm(training):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        for buffer in model.buffers():
            dist.broadcast(buffer, 0)
        optimizer.step()
    model.eval()
    with torch.no_grad():
        losses = [nn.functional.mse_loss(model(x), y) for x, y in validation]
    total = torch.stack(losses).mean()
    if rank == 0:
        writer.add_scalar("validation", total.item(), epoch)
        torch.save({"model": model.module.state_dict(), "epoch": epoch}, "checkpoint.pt")
print("all is well")
dist.barrier()
dist.destroy_process_group()
