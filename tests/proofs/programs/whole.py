# holds: all-seen; trains-in-train-mode
# fails: sampler-thin; part-unseen; distinct-batches
# launch: single
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Linear(1, 1)
for (x,) in DataLoader(TensorDataset(torch.arange(32.0)[:, None]), batch_size=5, drop_last=True):
    model(x).sum().backward()
