"""`gpudoctor run` on a GPU, beside torch's profiler: where a step went, what was copied, what it cost to watch."""

from tests.on_gpu.part import Here, Step, Tell, gpudoctor, json_of, launched

ASKS = "what a watched run says of a training on the GPU, and what torch's profiler says of the same"
SECONDS = 120.0
GPUS = 1

TRAINING = """
import json, os, sys, time
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

pinned, out, device = sys.argv[1] == "pinned", sys.argv[2], sys.argv[3]
gpu = device == "cuda"
dist.init_process_group("nccl" if gpu else "gloo")
width, batches = (2048, 64) if gpu else (32, 4)
torch.manual_seed(0)
data = TensorDataset(torch.randn(64 * batches, width), torch.randn(64 * batches, width))
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=64, sampler=sampler, pin_memory=pinned)
layers = [layer for _ in range(8) for layer in (nn.Linear(width, width), nn.ReLU())]
model = DistributedDataParallel(nn.Sequential(*layers).to(device))
optimizer = torch.optim.Adam(model.parameters())
activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if gpu else [])]


def epoch(number):
    sampler.set_epoch(number)
    for inputs, targets in loader:
        inputs, targets = inputs.to(device, non_blocking=pinned), targets.to(device, non_blocking=pinned)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        loss.item()


epoch(0)
with profile(activities=activities) as profiled:
    epoch(1)
rows = {}
for event in profiled.key_averages():
    on_gpu = getattr(event, "self_device_time_total", getattr(event, "self_cuda_time_total", 0))
    rows[event.key] = {"count": event.count, "gpu": on_gpu / 1e6, "host": event.self_cpu_time_total / 1e6}
copies = {name: row for name, row in rows.items() if "memcpy" in name.lower()}
busiest = dict(sorted(rows.items(), key=lambda each: -each[1]["gpu"])[:8])
said = {"copies": copies, "busiest": busiest, "gpu_seconds": sum(row["gpu"] for row in rows.values()), "steps": batches}
json.dump(said, open(out, "w"))
for number in range(2, 4):
    epoch(number)
torch.cuda.synchronize() if gpu else None
dist.destroy_process_group() if gpu else time.sleep(0.5)
"""

STUCK = """
import torch
import torch.distributed as dist
torch.cuda.set_device(0)
dist.init_process_group("nccl")
value = torch.ones(1, device="cuda")
dist.all_reduce(value)
torch.cuda.synchronize()
for _ in range(30):
    torch.cuda._sleep(4_000_000_000)
dist.all_reduce(value)
print(value.item())
"""
"""The only rank waits for a kernel that does not end for a minute."""


def _pageable(tell: Tell, here: Here) -> None:
    _training(tell, here, "pageable")


def _pinned(tell: Tell, here: Here) -> None:
    if not here.rehearsal:
        _training(tell, here, "pinned")


def _training(tell: Tell, here: Here, kind: str) -> None:
    script = here.folder / "training.py"
    script.write_text(TRAINING, encoding="utf-8")
    report, profile = here.folder / f"{kind}.json", here.folder / f"{kind}-profile.json"
    command = [*launched(script, 1), kind, str(profile), here.device]
    options = ["--no-lint", "--output-format", "json", "--output-file", str(report)]
    ended = gpudoctor(["run", *options, "--", *command], min(60.0, here.left))
    found = json_of(report)
    kept = ("findings", "timing", "samples_per_second", "faults", "status")
    told = {name: found[name] for name in kept if name in found}
    tell(kind, status=ended.status, seconds=ended.seconds, report=told, profile=json_of(profile), err=ended.err[-1500:])


def _stuck(tell: Tell, here: Here) -> None:
    if here.rehearsal:
        return
    script, report = here.folder / "sleeping.py", here.folder / "sleeping.json"
    script.write_text(STUCK, encoding="utf-8")
    options = [
        "--no-lint",
        "--hang-after",
        "5",
        "--kill-on-hang",
        "--output-format",
        "json",
        "--output-file",
        str(report),
    ]
    ended = gpudoctor(["run", *options, "--", *launched(script, 1)], min(50.0, here.left))
    found = json_of(report)
    tell("stuck", status=ended.status, hang=found.get("hang"), verdict=found.get("hang_verdict"), err=ended.err[-1500:])


STEPS = (
    Step("pageable memory", 25.0, _pageable),
    Step("pinned memory", 25.0, _pinned),
    Step("a kernel that is stuck", 30.0, _stuck),
)
