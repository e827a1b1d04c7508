"""A script that starts a process for each GPU that it counts, and all that such scripts ask of their device."""

import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler


def work(rank, world, folder):
    """One rank."""
    dist.init_process_group("nccl", init_method=f"file://{folder}/meet", rank=rank, world_size=world)
    torch.cuda.set_device(rank)
    own = torch.device("cuda", rank)
    torch.set_default_device("cuda")
    assert nn.Linear(4, 2).weight.device == own
    torch.set_default_device(None)
    with torch.device("cuda:0"):
        assert torch.zeros(2).device == torch.device(0)
    assert torch.ones(2).to(1).get_device() == 1
    assert torch.accelerator.device_count() == world
    net = nn.Sequential(nn.Linear(4, 4), nn.SyncBatchNorm(4), nn.Linear(4, 1)).cuda()
    model = DistributedDataParallel(net, device_ids=[rank])
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    scaler = torch.amp.GradScaler("cuda")
    data = torch.randn(48, 4)
    loader = DataLoader(data, 4, num_workers=1, pin_memory=True, sampler=DistributedSampler(data))
    started, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    started.record()
    for x in loader:
        assert x.is_pinned()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(x.cuda(non_blocking=True)).square().mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    ended.record()
    torch.cuda.synchronize()
    assert started.elapsed_time(ended) >= 0
    if rank == 0:
        torch.save(model.state_dict(), f"{folder}/model.pt")
    dist.barrier()
    for there in (f"cuda:{rank}", {"cuda:0": f"cuda:{rank}"}):
        found = torch.load(f"{folder}/model.pt", map_location=there)
        assert {each.device for each in found.values()} == {own}
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    count = torch.cuda.device_count()
    assert count == 2
    mp.spawn(work, args=(count, os.getcwd()), nprocs=count)
    print("done", flush=True)
