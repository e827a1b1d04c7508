"""What holds on each of two ranks of a model that is sharded, or computed in parallel."""

import os
import torch
from torch import nn
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard, FSDPModule, MixedPrecisionPolicy
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, distribute_tensor, Shard, Replicate
from torch.distributed.tensor.parallel import parallelize_module, ColwiseParallel, RowwiseParallel
from torch.distributed.checkpoint.state_dict import get_model_state_dict, StateDictOptions
from torch.utils.data import DistributedSampler, TensorDataset
rank = int(os.environ["RANK"])
mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("dp",))
claim(dist.is_initialized())
claim(mesh.size() == 2)
claim(mesh.get_local_rank() == rank)
claim(mesh.get_rank() == rank)
claim(mesh.ndim == 1)
claim(mesh["dp"].size() == 2)
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(4, 8)
        self.down = nn.Linear(8, 4)
    def forward(self, x): return self.down(torch.relu(self.up(x)))
class Net(nn.Module):
    def __init__(self, n=2):
        super().__init__()
        self.blocks = nn.ModuleList([Block() for _ in range(n)])
        self.head = nn.Linear(4, 1)
    def forward(self, x):
        for b in self.blocks: x = b(x)
        return self.head(x)
net = Net()
claim(not isinstance(net, FSDPModule))
for b in net.blocks: fully_shard(b, mesh=mesh)
got = fully_shard(net, mesh=mesh)
claim(got is net)
claim(isinstance(net, FSDPModule))
claim(isinstance(net, Net))
claim(not hasattr(net, "module"))
claim(isinstance(net.head.weight, DTensor))
opt = torch.optim.AdamW(net.parameters(), lr=0.1)
out = net(torch.ones(2, 4))
claim(not isinstance(out, DTensor))
loss = out.sum()
claim(loss.requires_grad)
loss.backward()
norm = torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
opt.step()
opt.zero_grad()
claim(net.training)
sd = net.state_dict()
claim(isinstance(sd["head.weight"], DTensor))
full = get_model_state_dict(net, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
claim((len(full) > 0) == (rank == 0))
t = sd["head.weight"].full_tensor()
claim(not isinstance(t, DTensor))
s = DistributedSampler(TensorDataset(torch.ones(4)), num_replicas=mesh.size(), rank=mesh.get_local_rank())
claim(len(s) == 2)
m2 = init_device_mesh("cpu", (1, 2), mesh_dim_names=("dp", "tp"))
dp, tp = m2["dp"], m2["tp"]
claim(dp.size() == 1)
claim(tp.size() == 2)
claim(dp.get_local_rank() == 0)
claim(tp.get_local_rank() == rank)
claim(dist.get_world_size(dp.get_group()) == 1)
claim(dist.get_world_size(tp.get_group()) == 2)
if dp.size() > 1:
    x = 1
else:
    x = 2
claim(x == 2)
if dp.get_local_rank() == 0:
    claim(True)
if tp.get_local_rank() == 0:
    claim(rank == 0)
else:
    claim(rank == 1)
b = Block()
p = parallelize_module(b, tp, {"up": ColwiseParallel(), "down": RowwiseParallel()})
claim(p is b)
claim(isinstance(b.up.weight, DTensor))
y = b(torch.ones(2, 4))
claim(not isinstance(y, DTensor))
d = distribute_tensor(torch.ones(4, 4), tp, [Shard(0)])
claim(isinstance(d, DTensor))
claim(d.to_local().shape[0] == 2)
claim(d.shape[0] == 4)
pg = tp.get_group()
if dist.get_rank(pg) == 0:
    claim(rank == 0)
w = torch.tensor(1.0)
dist.all_reduce(w, group=pg)
claim(w.item() == 2.0)
net.set_requires_gradient_sync(False)
claim(True)
dist.destroy_process_group()
claim(True)
