# holds: finishes; parameters-agree; distinct-batches; new-order; loads-in-workers; output-differs; prints "rank 1 of 2"
# holds: saved-twice
# fails: crash; hang; parameters-differ; same-order; output-agrees
# launch: spawn
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def work(rank, world_size):
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT="29541")
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    data = TensorDataset(torch.randn(16, 3))
    sampler = DistributedSampler(data)
    model = DistributedDataParallel(nn.Linear(3, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for (x,) in DataLoader(data, batch_size=2, sampler=sampler, num_workers=1):
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()
    torch.save(model.state_dict(), "model.pt")
    print(f"rank {rank} of {world_size}")
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(work, args=(2,), nprocs=2)
