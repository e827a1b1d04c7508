# holds: broadcasts-per-step 2; finishes
# fails: broadcasts-per-step 1
"""Trains a wrapped model with BatchNorm: its statistics and their counter are sent at each call."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, x):
        return self.layers(x)


def main():
    use_cuda = torch.cuda.is_available()
    local_rank = int(os.environ["LOCAL_RANK"])
    if use_cuda:
        torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl" if use_cuda else "gloo")
    device = torch.device("cuda", local_rank) if use_cuda else torch.device("cpu")
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(64, 8))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=8, sampler=sampler)
    critic = DistributedDataParallel(Critic().to(device), device_ids=[local_rank] if use_cuda else None)
    optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for (real,) in loader:
            real = real.to(device)
            fake = torch.randn_like(real)
            made, true = critic(torch.cat([fake, real])).chunk(2)
            loss = made.mean() - true.mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
