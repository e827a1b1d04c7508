"""Several processes train a model that no wrapper keeps in step.

## What goes wrong

Training on several GPUs starts the same program once for each GPU; each such process is called a rank. PyTorch does
not know that the ranks belong together just because a process group exists. Unless the model is wrapped, each rank
computes gradients from its own batches and applies only those. No error is raised. The ranks train separate models,
rank 0 saves its own, and the work of the other GPUs is thrown away.

## Bad

    import os

    import torch
    import torch.distributed as dist
    from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dataset = TensorDataset(torch.randn(512, 8), torch.randn(512, 1))
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=32, sampler=sampler)
    model = torch.nn.Linear(8, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x.cuda()), y.cuda()).backward()
            optimizer.step()

## Good

    import os

    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dataset = TensorDataset(torch.randn(512, 8), torch.randn(512, 1))
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=32, sampler=sampler)
    model = DistributedDataParallel(torch.nn.Linear(8, 1).cuda(), device_ids=[local_rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x.cuda()), y.cuda()).backward()
            optimizer.step()

## Fix

Wrap the model once it is on its GPU, and call the wrapper in the training loop: it averages the gradients over the
ranks during `backward()`. Unsafe, because the training changes; that is the point. Checkpoints are then written from
`model.module`.

## Silent when

No process group is made; the model or its optimizer is handed to code that could not be read; a framework such as
Accelerate or DeepSpeed is in charge; the program sends gradients or parameters between the ranks itself; only some
ranks train; nothing is stepped, or only once.

## Sources

https://docs.pytorch.org/tutorials/intermediate/ddp_tutorial.html, innnky/so-vits-svc#70, speechbrain/speechbrain#1517,
kubeflow/pytorch-operator#122.
"""

from __future__ import annotations
