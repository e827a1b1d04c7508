"""Modules, tensors, optimizers and loaders of one process."""

import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset, Dataset, Subset, random_split, ConcatDataset
import copy

model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
claim(model.training)
model.eval()
claim(not model.training)
claim(not model[0].training)
model.train()
claim(model.training and model[0].training)
claim(len(model) == 3)
claim(isinstance(model[0], nn.Linear))
claim(isinstance(model, nn.Module))
claim(not hasattr(model, "module"))
claim(all(p.requires_grad for p in model.parameters()))
for p in model[0].parameters():
    p.requires_grad = False
claim(not model[0].weight.requires_grad)
claim(model[2].weight.requires_grad)
claim(any(p.requires_grad for p in model.parameters()))
params = [p for p in model.parameters() if p.requires_grad]
claim(len(params) == 2)
opt = torch.optim.SGD(params, lr=0.1)
claim(len(opt.param_groups) == 1)
claim(opt.param_groups[0]["lr"] == 0.1)
for g in opt.param_groups:
    g["lr"] = 0.05
claim(opt.param_groups[0]["lr"] == 0.05)
x = torch.randn(8, 4)
claim(not x.requires_grad)
y = model(x)
claim(y.requires_grad)
claim(y.grad_fn is not None)
loss = F.cross_entropy(y, torch.zeros(8, dtype=torch.long))
claim(loss.requires_grad)
claim(not loss.detach().requires_grad)
claim(isinstance(loss.item(), float))
loss.backward()
claim(model[2].weight.grad is not None)
opt.step()
opt.zero_grad()
with torch.no_grad():
    z = model(x)
    claim(not torch.is_grad_enabled())
claim(not z.requires_grad)
claim(torch.is_grad_enabled())
claim(x.device.type == "cpu")
claim(not x.is_cuda)
claim(str(x.device) == "cpu")
claim(x.shape[0] == 8 and x.size(1) == 4 and x.dim() == 2 and len(x) == 8 and x.ndim == 2)
ds = TensorDataset(x, torch.zeros(8))
claim(len(ds) == 8)
dl = DataLoader(ds, batch_size=4)
claim(len(dl) == 2)
claim(dl.batch_size == 4 and dl.dataset is ds)
n = 0
for i, (a, b) in enumerate(dl):
    n += 1
    claim(a.shape[0] == 4 and not a.requires_grad)
claim(n == 2)
claim(len(Subset(ds, [0, 1])) == 2)
s1, s2 = random_split(ds, [6, 2])
claim(len(s1) == 6)
claim(len(ConcatDataset([ds, ds])) == 16)


class D(Dataset):
    def __init__(self):
        self.n = 5

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return torch.tensor(i)


claim(len(D()) == 5)
sd = model.state_dict()
claim("0.weight" in sd and len(sd) == 4)
claim(list(sd)[0] == "0.weight")
m2 = copy.deepcopy(model)
claim(m2 is not model and isinstance(m2, nn.Sequential))
m2.load_state_dict(sd)
claim(torch.equal(m2[0].weight, model[0].weight))


class Net(nn.Module):
    def __init__(self, k=3):
        super().__init__()
        self.k = k
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(k)])
        self.register_buffer("steps", torch.zeros(1))
        self.head = nn.Parameter(torch.zeros(2))

    def forward(self, x, mask=None):
        self.called = True
        for l in self.layers:
            x = l(x)
        return {"out": x, "mask": mask} if mask is not None else x


net = Net()
claim(len(net.layers) == 3 and net.k == 3)
claim(len(list(net.parameters())) == 7)
claim(len(list(net.buffers())) == 1)
claim("steps" in net.state_dict())
out = net(x)
claim(net.called and isinstance(out, torch.Tensor) and not isinstance(out, dict))
claim(isinstance(net(x, mask=1), dict) and net(x, 1)["mask"] == 1)
claim(len(list(net.children())) == 1 and len(list(net.named_children())) == 1)
claim(sum(1 for m in net.modules() if isinstance(m, nn.Linear)) == 3)
claim([k for k, _ in net.named_parameters()][0] == "head")
sch = torch.optim.lr_scheduler.StepLR(torch.optim.SGD(net.parameters(), lr=1.0), 1)
claim(sch.get_last_lr() == [1.0] and sch.last_epoch == 0)
claim(torch.cuda.device_count() >= 0 and isinstance(torch.cuda.is_available(), bool))
net.requires_grad_(False)
claim(not any(p.requires_grad for p in net.parameters()))
net.layers.requires_grad_(True)
claim(net.layers[0].weight.requires_grad and not net.head.requires_grad)
t = torch.zeros(3, requires_grad=True)
claim(t.requires_grad and t.is_leaf)
w = (t * 2).sum()
claim(w.requires_grad and not w.is_leaf)
claim(torch.tensor(1.0).item() == 1.0)
w.backward()
claim(t.grad is not None)
import torch.distributed as dist

claim(not dist.is_initialized())
claim(dist.is_available())
claim(
    x.float().dtype == torch.float32 and x.half().dtype == torch.float16 and x.to(torch.float64).dtype == torch.float64
)
claim(x.numel() == 32 and x.view(-1).shape[0] == 32 and x.reshape(4, 8).shape == (4, 8))
claim(torch.cat([x, x]).shape[0] == 16 and torch.stack([x, x]).dim() == 3)
claim(x[0].dim() == 1 and x[:2].shape[0] == 2)
claim(isinstance(x.tolist(), list) and isinstance(x.numpy().shape, tuple))
scaler = torch.amp.GradScaler("cpu", enabled=False)
claim(not scaler.is_enabled())
claim(
    isinstance(nn.ModuleDict({"a": nn.Linear(1, 1)})["a"], nn.Linear) and "a" in nn.ModuleDict({"a": nn.Linear(1, 1)})
)
heads = nn.ModuleDict({"a": nn.Linear(1, 1), "b": nn.ReLU()})
heads["c"] = nn.Sigmoid()
claim(isinstance(heads["a"], nn.Linear) and isinstance(heads["b"], nn.ReLU) and isinstance(heads["c"], nn.Sigmoid))
heads["a"] = nn.Tanh()
claim(not isinstance(heads["a"], nn.Linear) and len(heads) == 3)
net.add_module("extra", nn.Linear(1, 1))
claim(isinstance(net.extra, nn.Linear))
net(x)
with torch.set_grad_enabled(False):
    claim(not model(x).requires_grad)
with torch.inference_mode():
    claim(not model(x).requires_grad)


@torch.no_grad()
def ev():
    return model(x)


claim(not ev().requires_grad)
with torch.enable_grad():
    claim(model(x).requires_grad)
claim(type(model).__name__ == "Sequential" and net.__class__.__name__ == "Net")
claim(getattr(net, "nope", None) is None and getattr(net, "k") == 3)
ema = copy.deepcopy(net).eval()
claim(not ema.training and net.training)
for p in ema.parameters():
    p.requires_grad_(False)
claim(not ema.head.requires_grad)


class Frozen(Net):
    def train(self, mode=True):
        super().train(False)
        return self


fr = Frozen()
fr.train()
claim(not fr.training)
seen = []
net.layers[0].register_forward_hook(lambda module, given, made: seen.append(1))
net(x)
claim(len(seen) == 1)
claim(str(torch.device("cuda", 1)) == "cuda:1" and str(torch.device("cpu")) == "cpu")
