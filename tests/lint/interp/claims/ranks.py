"""What holds on each of two ranks."""

import os

import torch
import torch.distributed as dist
from torch.utils.data import DistributedSampler, TensorDataset, DataLoader
from torch.nn.parallel import DistributedDataParallel as DDP
rank = int(os.environ["RANK"]); world = int(os.environ["WORLD_SIZE"]); local = int(os.environ["LOCAL_RANK"])
claim(rank >= 0)
claim(world == 2)
claim(rank < world)
claim(isinstance(os.environ["RANK"], str))
claim(os.environ.get("RANK") is not None)
claim("RANK" in os.environ)
claim(not dist.is_initialized())
dist.init_process_group("gloo")
claim(dist.is_initialized())
claim(dist.get_rank() == rank)
claim(dist.get_world_size() == world)
claim(dist.get_backend() == "gloo")
if rank == 0:
    x = 1
    claim(not rank)
else:
    x = 2
    claim(rank)
    claim(rank != 0)
    claim(rank > 0)
claim(x == rank + 1)
main = rank == 0
if main:
    claim(rank == 0)
    seen = [1]
else:
    claim(rank == 1)
    seen = []
claim(len(seen) == (1 if rank == 0 else 0))
claim(bool(seen) == main)
t = torch.tensor([float(rank)])
dist.all_reduce(t)
claim(t.item() == 1.0)
if t.item() > 0:
    claim(True)
o = [rank]
dist.broadcast_object_list(o, src=0)
claim(o[0] == 0)
g = [None] * world
dist.all_gather_object(g, rank)
claim(g == [0, 1])
claim(len(g) == 2)
claim(g[1] == 1)
f = torch.tensor([1 if rank == 0 else 0])
dist.broadcast(f, 0)
claim(f.item() == 1)
if f.item():
    claim(True)
stop = torch.tensor(0)
if rank == 1:
    stop += 1
dist.all_reduce(stop, op=dist.ReduceOp.MAX)
claim(stop.item() == 1)
if stop.item() == 1:
    claim(True)
data = TensorDataset(torch.arange(10.0).view(-1, 1))
s = DistributedSampler(data, shuffle=False)
claim(len(s) == 5)
claim(s.rank == rank and s.num_replicas == 2)
dl = DataLoader(data, batch_size=5, sampler=s)
claim(len(dl) == 1)
n = 0
for (b,) in dl:
    n += 1
    claim(b[0].item() == rank)
claim(n == 1)
claim(list(s)[0] == rank)
m = torch.nn.Linear(1, 1)
claim(not hasattr(m, "module"))
d = DDP(m)
claim(hasattr(d, "module") and d.module is m and isinstance(d, DDP))
claim(not isinstance(m, DDP))
raw = d.module if hasattr(d, "module") else d
claim(raw is m)
claim(list(d.state_dict())[0].startswith("module."))
claim(not list(m.state_dict())[0].startswith("module."))
loss = d(torch.ones(2, 1)).sum()
loss.backward()
claim(m.weight.grad is not None)
group = dist.new_group([0])
if rank == 0:
    claim(dist.get_rank(group) == 0)
    claim(dist.get_world_size(group) == 1)
else:
    claim(dist.get_rank(group) == -1)
def is_main():
    return not dist.is_available() or not dist.is_initialized() or dist.get_rank() == 0
if is_main():
    claim(rank == 0)
else:
    claim(rank == 1)
def only_main(fn):
    def inner(*a):
        if is_main():
            return fn(*a)
    return inner
@only_main
def save(v):
    return v
claim(save(3) == (3 if rank == 0 else None))
if rank != 0:
    dist.barrier()
order = ["x"]
if rank == 0:
    order.append("first")
    dist.barrier()
claim(order == (["x", "first"] if rank == 0 else ["x"]))
mine = [i for i in range(4) if i % world == rank]
claim(mine == [rank, rank + 2])
claim(list(range(rank, 4, world)) == mine)
try:
    if rank == 1:
        raise ValueError
    got = "ok"
except ValueError:
    got = "failed"
claim(got == ("failed" if rank else "ok"))
for i in range(3):
    if rank == 0 and i == 1:
        break
claim(i == (1 if rank == 0 else 2))
val = rank if rank else 5
claim(val == (5, 1)[rank])
r = {0: "a", 1: "b"}[rank]
claim(r == "ab"[rank])
match rank:
    case 0:
        w = "zero"
    case _:
        w = "other"
claim((w == "zero") == (rank == 0))
claim(os.environ["MASTER_PORT"] is not None)
os.environ["MINE"] = str(rank)
claim(os.environ["MINE"] == str(rank))
claim(f"rank{rank}".endswith(str(rank)))
dist.destroy_process_group()
