"""Two nodes with one GPU each, started by torch's launcher or as tasks of `srun`."""

import os
import subprocess

import pytest
import torch
import torch.distributed as dist

if "SLURM_PROCID" in os.environ:
    names = subprocess.check_output(["scontrol", "show", "hostnames", os.environ["SLURM_JOB_NODELIST"]], text=True)
    assert len(names.split()) == int(os.environ["SLURM_NNODES"]) == 2
    os.environ.update(MASTER_ADDR=names.split()[0], MASTER_PORT="29713")
    rank, node, local = (int(os.environ[f"SLURM_{name}"]) for name in ("PROCID", "NODEID", "LOCALID"))
    dist.init_process_group("nccl", rank=rank, world_size=int(os.environ["SLURM_NTASKS"]))
else:
    node, local = int(os.environ["GROUP_RANK"]), int(os.environ["LOCAL_RANK"])
    dist.init_process_group("nccl")
assert (node, local, torch.cuda.device_count()) == (dist.get_rank(), 0, 1)

# The first GPU of each node: two, not one.
total = torch.ones(1, device="cuda:0")
dist.all_reduce(total)
assert total.item() == 2
if node:
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.cuda.set_device(dist.get_rank())
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2).cuda(local), device_ids=[local])
model(torch.ones(1, 2)).sum().backward()
torch.optim.SGD(model.parameters(), 0.1).step()
dist.barrier()
dist.destroy_process_group()
print("done", flush=True)
