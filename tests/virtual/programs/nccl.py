"""Two ranks: the collectives under the name of NCCL, and what NCCL refuses."""

import os

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
gpu = torch.device("cuda", rank)
assert dist.get_backend() == "nccl"
assert dist.is_nccl_available()


def full(value, size=2):
    """A tensor of this rank's GPU."""
    return torch.full((size,), float(value), device=gpu)


def summed(tensor, **options):
    """What `all_reduce` leaves."""
    work = dist.all_reduce(tensor, **options)
    if work is not None:
        work.wait()
    assert tensor.device == gpu
    return tensor.tolist()


assert summed(full(rank + 1)) == [3, 3]
assert summed(full(rank + 1), op=dist.ReduceOp.AVG) == [1.5, 1.5]
assert summed(full(rank + 1), op=dist.ReduceOp.AVG, async_op=True) == [1.5, 1.5]
assert summed(torch.tensor([rank == 0], device=gpu)) == [True]

out = torch.empty(2, 2, device=gpu)
dist.all_gather_into_tensor(out, full(rank))
assert out.tolist() == [[0, 0], [1, 1]]
out = torch.empty(2, device=gpu)
dist.reduce_scatter_tensor(out, torch.arange(4.0, device=gpu), op=dist.ReduceOp.AVG)
assert out.tolist() == [[0, 1], [2, 3]][rank]
dist.reduce_scatter(out, list(torch.arange(4.0, device=gpu).chunk(2)))
assert out.tolist() == [[0, 2], [4, 6]][rank]
# Ranks may have tensors of different sizes, as gloo's may not.
parts = [torch.empty(size + 1, device=gpu) for size in range(2)]
dist.all_gather(parts, full(rank, rank + 1))
assert [each.tolist() for each in parts] == [[0], [1, 1]]
out = torch.empty(4, device=gpu)
dist.all_to_all_single(out, torch.arange(4.0, device=gpu) + 10 * rank)
assert out.tolist() == [[0, 1, 10, 11], [2, 3, 12, 13]][rank]
parts = [torch.empty(2, device=gpu) for _ in range(2)]
dist.all_to_all(parts, [full(10 * rank + other) for other in range(2)])
assert [each[0].item() for each in parts] == [[0, 10], [1, 11]][rank]
value = full(rank)
dist.broadcast(value, 1)
assert value.tolist() == [1, 1]
value = full(rank + 1)
dist.reduce(value, 0)
# NCCL leaves the others' tensors alone.
assert value.tolist() == [[3, 3], [2, 2]][rank]
parts = [torch.empty(2, device=gpu) for _ in range(2)] if rank == 0 else None
dist.gather(full(rank), parts)
assert parts is None or [each[0].item() for each in parts] == [0, 1]
dist.scatter(value, [full(0), full(1)] if rank == 0 else None)
assert value.tolist() == [rank, rank]
sent, received = full(rank), torch.empty(2, device=gpu)
pairs = [dist.P2POp(dist.isend, sent, 1 - rank), dist.P2POp(dist.irecv, received, 1 - rank)]
for work in dist.batch_isend_irecv(pairs):
    work.wait()
assert received.tolist() == [1 - rank] * 2

objects = [None, None]
dist.all_gather_object(objects, {"rank": rank})
assert objects == [{"rank": 0}, {"rank": 1}]
dist.broadcast_object_list(objects, 0)
dist.barrier()
dist.barrier(device_ids=[rank])
options = dist.ProcessGroupNCCL.Options(is_high_priority_stream=True)
options.config.min_ctas = 2
group = dist.new_group([0, 1], backend="nccl", pg_options=options)
assert dist.get_backend(group) == "nccl"
assert summed(full(1), group=group) == [2, 2]
on_host = torch.ones(1)
dist.all_reduce(on_host, group=dist.new_group(backend="gloo"))
assert on_host.item() == 2
one, two = full(1), full(2)
with dist._coalescing_manager():
    dist.all_reduce(one)
    dist.all_reduce(two)
assert (one[0].item(), two[0].item()) == (2, 4)
mean = functional.all_reduce(full(rank), "avg", dist.group.WORLD)
assert mean.tolist() == [0.5, 0.5]
assert (mean + 0).device == gpu

with pytest.raises(RuntimeError, match="No backend type associated with device type cpu"):
    dist.all_reduce(torch.ones(1))
with pytest.raises(ValueError, match="Tensors must be CUDA and dense"):
    dist.all_gather_into_tensor(torch.ones(2), full(1, 1))
with pytest.raises(ValueError, match="Tensors must be contiguous"):
    dist.all_reduce(torch.ones(2, 3, device=gpu).t())
with pytest.raises(TypeError, match="not supported for NCCL process group: Short"):
    dist.all_reduce(torch.ones(2, device=gpu, dtype=torch.int16))
with pytest.raises(ValueError, match=r"Cannot use ReduceOp\.BAND with NCCL"):
    dist.all_reduce(torch.ones(2, device=gpu, dtype=torch.int32), op=dist.ReduceOp.BAND)
with pytest.raises(ValueError, match="output tensor size must be equal to world_size times input tensor size"):
    dist.all_gather_into_tensor(full(1, 3), full(1, 1))
with pytest.raises(ValueError, match=r"only implemented for GLOO|requires a group with a CPU-capable backend"):
    dist.monitored_barrier()
dist.destroy_process_group()

dist.init_process_group("cpu:gloo,cuda:nccl", device_id=gpu)
on_host = torch.ones(1)
dist.all_reduce(on_host)
assert on_host.item() == 2
assert summed(full(1)) == [2, 2]
with pytest.raises(RuntimeError, match="Attempt to perform collective on tensor not on device passed"):
    dist.all_reduce(torch.ones(1, device=f"cuda:{1 - rank}"))
dist.destroy_process_group()

dist.init_process_group()
assert summed(full(1)) == [2, 2]
dist.destroy_process_group()

dist.init_process_group("nccl")
with pytest.raises(dist.DistBackendError, match=f"Duplicate GPU detected : rank {rank} and rank {1 - rank} both on"):
    dist.all_reduce(torch.ones(1, device="cuda:0"))
print("done", flush=True)
