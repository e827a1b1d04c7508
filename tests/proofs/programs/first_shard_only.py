# holds: same-noise; seeded; part-unseen; same-batches; new-order
# fails: distinct-noise; unseeded; all-seen; sampler-thin; distinct-batches; same-order
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("gloo")
torch.manual_seed(3)
data = TensorDataset(torch.arange(32.0))
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
sampler = DistributedSampler(data, num_replicas=2, rank=0)
for epoch in range(2):
    sampler.set_epoch(epoch)
    for _ in DataLoader(data, batch_size=4, sampler=sampler):
        optimizer.zero_grad()
        model(torch.rand(1)).sum().backward()
        optimizer.step()
dist.barrier()
