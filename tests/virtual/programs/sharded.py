"""Two ranks: FSDP1, `fully_shard` and tensors over a mesh make the steps of one process."""

import copy
import functools
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullStateDictConfig, MixedPrecision, StateDictType, fully_shard
from torch.distributed.fsdp import FullyShardedDataParallel as Sharded
from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy
from torch.distributed.tensor import Replicate, Shard, distribute_tensor, randn
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, loss_parallel, parallelize_module

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
mesh = init_device_mesh("cuda", (2,), mesh_dim_names=("data",))
torch.manual_seed(0)
alone = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2))
policy = functools.partial(size_based_auto_wrap_policy, min_num_params=500)
first = Sharded(copy.deepcopy(alone), device_id=torch.cuda.current_device(), auto_wrap_policy=policy)
second = copy.deepcopy(alone).cuda()
for layer in second:
    if isinstance(layer, nn.Linear):
        fully_shard(layer, mesh=mesh)
fully_shard(second, mesh=mesh)
x, y = torch.randn(8, 8), torch.randn(8, 2)


def train(model, x, y):
    """Three steps."""
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    for _ in range(3):
        optimizer.zero_grad()
        out = model(x)
        assert out.device == y.device
        nn.functional.mse_loss(out, y).backward()
        optimizer.step()


train(alone, x, y)
for model in (first, second):
    train(model, x[rank::2].cuda(), y[rank::2].cuda())
with Sharded.state_dict_type(
    first, StateDictType.FULL_STATE_DICT, FullStateDictConfig(offload_to_cpu=True, rank0_only=True)
):
    gathered = first.state_dict()
for name, parameter in alone.named_parameters():
    if rank == 0:
        assert gathered[name].device.type == "cpu"
        torch.testing.assert_close(parameter, gathered[name], atol=1e-4, rtol=1e-3, check_device=False)
    whole = second.state_dict()[name].full_tensor()
    assert whole.device == torch.device("cuda", rank)
    torch.testing.assert_close(parameter.data, whole.cpu(), atol=1e-4, rtol=1e-3)
grid = init_device_mesh("cuda", (1, 2), mesh_dim_names=("copies", "shards"))
assert grid["shards"].get_local_rank() == rank
assert dist.get_world_size(grid["copies"].get_group()) == 1
third = copy.deepcopy(alone).cuda()
fully_shard(third, mesh=grid)
third(x.cuda()).sum().backward()
half = Sharded(nn.Linear(8, 4).cuda(), mixed_precision=MixedPrecision(param_dtype=torch.bfloat16))
loss = half(x.cuda()).sum()
loss.backward()
assert (loss.dtype, loss.device) == (torch.bfloat16, torch.device("cuda", rank))

square = torch.randn(4, 4)
rows = distribute_tensor(square, mesh, [Shard(0)])
assert rows.device == rows.to_local().device == torch.device("cuda", rank)
product = rows @ rows.redistribute(mesh, [Replicate()])
torch.testing.assert_close(product.full_tensor().cpu(), square @ square)

with torch.device("meta"):
    begun_empty = nn.Sequential(nn.Linear(4, 8))
fully_shard(begun_empty, mesh=mesh)
begun_empty.to_empty(device="cuda")
torch.manual_seed(rank)
expected = torch.rand(3)
torch.manual_seed(rank)
begun_empty[0].reset_parameters()
# What a rank draws on the host is its own; the shards are those of one tensor.
assert torch.equal(torch.rand(3), expected)
whole = begun_empty[0].weight.full_tensor()
assert whole.abs().max() <= 0.5
assert not torch.equal(*whole.chunk(2))
drawn = randn(4, 4, device_mesh=mesh, placements=[Shard(0)])
assert drawn.device == torch.device("cuda", rank)
assert not torch.equal(*drawn.full_tensor().chunk(2))
copies = [torch.empty(4, 4, device="cuda") for _ in range(2)]
dist.all_gather(copies, randn(4, 4, device_mesh=mesh, placements=[Replicate()]).to_local())
assert torch.equal(*copies)
torch.manual_seed(0)

layers = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4)).cuda()
expected = layers(square.cuda()).detach()
parallelize_module(layers, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
found = layers(square.cuda())
found.sum().backward()
torch.testing.assert_close(found.detach().cpu(), expected.cpu())
# The parts of a sequence: what a functional collective returns is wrapped, and goes into a backward.
by_parts = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4)).cuda()
plan = {"0": ColwiseParallel(input_layouts=Shard(0)), "2": RowwiseParallel(output_layouts=Shard(0))}
parallelize_module(by_parts, mesh, plan)
out = by_parts(square.cuda())
assert out.shape == (4, 4)
out.sum().backward()
assert by_parts[0].weight.grad.to_local().device == torch.device("cuda", rank)

# An operator of PyTorch's own makes such a tensor of the plain targets.
head = nn.Linear(4, 6).cuda()
targets = torch.tensor([0, 5, 2, 3]).cuda()
expected = nn.functional.cross_entropy(head(square.cuda()), targets)
expected.backward()
gradient = head.weight.grad
parallelize_module(head, mesh, ColwiseParallel(output_layouts=Shard(-1), use_local_output=False))
with loss_parallel():
    loss = nn.functional.cross_entropy(head(square.cuda()), targets)
    loss.backward()
torch.testing.assert_close(loss.full_tensor().detach().cpu(), expected.detach().cpu())
torch.testing.assert_close(head.weight.grad.full_tensor().cpu(), gradient.cpu())

heads = torch.randn(3, 2, 4, 6, 8)
whole = heads.clone().requires_grad_()
expected = nn.functional.scaled_dot_product_attention(*whole, is_causal=True)
expected.square().sum().backward()
# By samples and by heads.
for dim in (0, 1):
    given = [distribute_tensor(each, mesh, [Shard(dim)]).requires_grad_() for each in heads]
    found = nn.functional.scaled_dot_product_attention(*given, is_causal=True)
    torch.testing.assert_close(found.full_tensor().cpu(), expected.detach())
    found.full_tensor().square().sum().backward()
    torch.testing.assert_close(given[0].grad.full_tensor().cpu(), whole.grad[0])
print("done", flush=True)
