# holds: sampler-thin; part-unseen; finishes
# fails: all-seen; same-batches; output-agrees; output-differs; parameters-agree
# launch: single
import torch
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

data = TensorDataset(torch.arange(32.0))
for batch in DataLoader(data, batch_size=4, sampler=DistributedSampler(data, num_replicas=2, rank=0)):
    print(len(batch))
