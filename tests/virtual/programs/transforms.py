"""Where results of C++ live: of scripted modules, within `torch.func`, of shared memory, of recordable steps."""

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

gpu = torch.device("cuda", 0)
data = torch.ones(4, 6, device=gpu)
model = nn.Sequential(nn.Linear(6, 6), nn.ReLU()).cuda()

assert torch.jit.script(model)(data).device == gpu
assert torch.jit.trace(model, data, check_trace=False)(data).device == gpu
assert torch.from_dlpack(data).device == gpu
assert torch.from_dlpack(torch.ones(2)).device.type == "cpu"


def scaled(row):
    """Makes a tensor where the row lives."""
    assert row.device == gpu
    return model(row) * torch.full((6,), 2.0, device=row.device)


assert torch.vmap(scaled)(data).device == gpu
assert torch.func.jvp(model, (data,), (data,))[1].device == gpu
assert torch.func.grad(lambda row: scaled(row).sum())(data[0]).device == gpu
told = ""
try:
    torch.vmap(lambda row: row + torch.ones(6))(data)
except RuntimeError as error:
    told = str(error)
assert "Expected all tensors to be on the same device" in told, told

# Followed as on the host, and at home on the GPU again; who compiles for GPUs cannot.
exported = torch.export.export(model, (data,))
assert exported.module()(data).device == gpu
assert make_fx(lambda row: model(row).relu())(data)(data).device == gpu
told = ""
try:
    FakeTensorMode().from_tensor(data)
except RuntimeError as error:
    told = str(error)
assert "not linked with support for cuda" in told, told
assert torch.compile(model, backend="aot_eager")(data).device == gpu
torch.compiler.set_stance("default")
assert torch.compile(scaled, backend="aot_eager")(data[0]).device == gpu
torch._dynamo.reset()

for kind in (torch.optim.Adam, torch.optim.NAdam, torch.optim.RMSprop):
    optimizer = kind(model.parameters(), lr=0.1, capturable=True)
    model(data).sum().backward()
    optimizer.step()

print("done", flush=True)
