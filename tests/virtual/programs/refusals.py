"""What CUDA and NCCL refuse is refused at the call, and what they take goes on; started as two ranks."""

import os
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")


def refused(call: Callable[[], object], error: type[Exception], text: str) -> None:
    told = ""
    try:
        call()
    except error as raised:
        told = str(raised)
    assert text in told, told or f"nothing said {text}"


net = nn.Linear(4, 2).cuda()
batch = torch.ones(3, 4)
apart = "Expected all tensors to be on the same device"
refused(lambda: net(batch), RuntimeError, apart)
refused(lambda: nn.functional.cross_entropy(net(batch.cuda()), torch.zeros(3).long()), RuntimeError, apart)
refused(lambda: net(batch.cuda()) + torch.ones(3, 2), RuntimeError, apart)
refused(lambda: batch.cuda().numpy(), TypeError, "can't convert cuda")
lengths = torch.tensor([3, 1]).cuda()
refused(
    lambda: nn.utils.rnn.pack_padded_sequence(torch.ones(3, 2, 4).cuda(), lengths),
    RuntimeError,
    f"'lengths' argument should be a 1D CPU int64 tensor, but got 1D cuda:{rank} Long tensor",
)
refused(lambda: torch.cuda.set_device(rank + 4), RuntimeError, "invalid device ordinal")
refused(lambda: nn.DataParallel(net, device_ids=[0, 1, 2]), AssertionError, "Invalid device id")
refused(lambda: DistributedDataParallel(nn.Linear(4, 2), device_ids=[rank]), ValueError, "device_ids")
refused(lambda: dist.all_reduce(torch.ones(2)), RuntimeError, "No backend type associated with device type cpu")

# Indices on a GPU say where a tensor of the host is written, but not where it is read.
picked = torch.tensor([True, False, True]).cuda()
refused(
    lambda: batch[picked], RuntimeError, "indices should be either on cpu or on the same device as the indexed tensor"
)
refused(lambda: batch.index_put_((picked,), torch.ones(4).cuda()), RuntimeError, "")
written = torch.ones(3, 4)
written[picked] = 0
written[picked, 1] = torch.tensor(5.0).cuda()
assert written.device.type == "cpu"
assert written.sum(1).tolist() == [5, 4, 5]

# A number is at home everywhere, and DDP moves what it is given.
assert (net(batch.cuda()) * torch.tensor(2.0)).device == torch.device("cuda", rank)
assert DistributedDataParallel(net, device_ids=[rank])(batch).device == torch.device("cuda", rank)

dist.destroy_process_group()
print("done")
