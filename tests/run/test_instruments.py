"""Instruments that stand in for functions of torch do what these do, and stay out of the way."""

import sys
from pathlib import Path

import pytest

from tests.support.installs import require_torch
from tests.support.watching import TRAINING, plain, watch

require_torch()

LOOKED_FOR = """
import importlib.util, sys
from gpudoctor.run.import_hooks import when_imported
told = []
when_imported("colorsys", lambda: told.append("colorsys"))
importlib.util.find_spec("colorsys")
print(told, "colorsys" in sys.modules)
import colorsys
print(told)
when_imported("colorsys", lambda: told.append("again"))
print(told, len([each for each in sys.meta_path if "gpudoctor" in type(each).__module__]))
"""


def test_a_module_that_is_only_looked_for_is_waited_for(tmp_path: Path) -> None:
    said = plain(tmp_path, sys.executable, "-c", LOOKED_FOR, cold=True).stdout.splitlines()
    assert said == ["[] False", "['colorsys']", "['colorsys', 'again'] 0"]


COMPILED = """
import sys
import torch
torch._dynamo.config.capture_scalar_outputs = True

def scaled(x):
    return x * x.sum().item() + float(x.sum())

print(torch.compile(scaled, backend="eager", fullgraph=True)(torch.ones(2)).tolist())
adam, optimizer = (sys.modules[f"torch.optim.{name}"] for name in ("adam", "optimizer"))
print(adam._get_value is optimizer._get_value)
# What watches for collectives that go on while an optimizer steps comes with the first one of them.
print(len(optimizer._global_optimizer_pre_hooks))
"""


def test_what_is_compiled_is_compiled_without_us(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(COMPILED)
    watched = watch(tmp_path, "--no-lint", "train.py")
    assert (watched.status, watched.out) == (0, "[4.0, 4.0]\nTrue\n1\n")
    assert "Dynamo" not in watched.err


ODD = """
    optimizer.zero_grad()
    weights = list(model.parameters())
    torch.autograd.backward(loss for loss in [model(x).sum(), model(x).mean()])
    torch.nn.utils.clip_grad_norm_((each for each in weights), float("inf"))
    norm = torch.nn.utils.clip_grad_norm_((each for each in weights), 1.0)
    count = torch.ones(1)
    waited = dist.all_reduce(count, async_op=True).wait()
    asks = count.item
    seen = [f"{norm:.3f} {loss:.3f}", float(loss) == loss, waited, count, torch.Tensor.item(count), asks()]
    sys.stdout.write(f"{seen}\\n")
"""


def test_calls_in_odd_ways_mean_what_they_mean(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAINING.replace('"gloo")', '"gloo"); torch.manual_seed(1)') + ODD)
    ranks = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "train.py")
    alone = plain(tmp_path, sys.executable, *ranks)
    watched = watch(tmp_path, "--no-lint", "--", sys.executable, *ranks)
    assert (watched.status, alone.returncode) == (0, 0)
    assert sorted(watched.out.splitlines()) == sorted(alone.stdout.splitlines())
    assert not [fault for rank in watched.report["ranks"] for fault in rank.get("faults", ())]


NEAR_MISSES = """
import collections, torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.nn.utils import clip_grad_norm_

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(rank)
model = DDP(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1)))
optimizer = torch.optim.AdamW(model.parameters())
critic = DDP(nn.Linear(1, 1))
critics = torch.optim.AdamW(critic.parameters())
last = collections.deque(maxlen=5)
groups = {}

def mean(value):
    total = value.detach().clone()
    work = dist.all_reduce(total, async_op=True)
    work.wait()
    return (total / world).item()

def group_for(name):
    if name not in groups:
        groups[name] = dist.new_group()
    return groups[name]

for step in range(24):
    x = torch.randn(8, 8)
    loss = model(x).square().mean()
    optimizer.zero_grad()
    (loss / 2).backward()
    (model(x).abs().mean() / 2).backward()
    norm = clip_grad_norm_(model.parameters(), 1.0)
    out = model(x)
    critic_loss = critic(out.detach()).square().mean()
    critics.zero_grad()
    critic_loss.backward()
    clip_grad_norm_(critic.parameters(), 1.0)
    optimizer.step()
    critics.step()
    last.append(loss)
    own = loss.item()
    shared = mean(loss)
    count = torch.ones(1)
    dist.all_reduce(count, group=group_for("a"))
    dist.all_reduce(torch.zeros(1))
    if step % 6 == 5:
        print(f"rank {rank} step {step}: {own:.4f} of {shared:.4f}, {sum(last).item() / 5:.4f}")
        if rank == 0:
            torch.save(model.module.state_dict(), "last.pt")
        torch.save(torch.get_rng_state(), f"rng{rank}.pt")
dist.destroy_process_group()
"""


def test_near_misses_are_no_findings(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(NEAR_MISSES)
    watched = watch(tmp_path, "--nproc-per-node", "2", "--no-lint", "train.py")
    assert (watched.status, watched.codes) == (0, set())


def test_what_a_library_writes_on_every_rank_is_not_for_the_program_to_mend(tmp_path: Path) -> None:
    library = tmp_path / "site-packages" / "trainers.py"
    library.parent.mkdir()
    library.write_text("import torch\n\ndef save(obj, path):\n    torch.save(obj, path)\n")
    last = "        torch.save(torch.get_rng"
    program = NEAR_MISSES.replace(last, f"        save({{'scale': 1.0}}, 'scaler.pt')\n{last}")
    assert program != NEAR_MISSES
    head = f"import sys\nsys.path.append({str(library.parent)!r})\nfrom trainers import save\n"
    (tmp_path / "train.py").write_text(head + program)
    watched = watch(tmp_path, "--nproc-per-node", "2", "--no-lint", "train.py")
    assert (watched.status, watched.codes) == (0, set())


NEW, OLD = "TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"


@pytest.mark.parametrize(
    ("version", "given", "then"),
    [
        ("2.8.0+cu128", {}, {OLD: "2000"}),
        ("2.10.0", {}, {NEW: "2000"}),
        ("2.10.0", {OLD: "9"}, {OLD: "9"}),
        ("2.10.0", {NEW: "0"}, {NEW: "0"}),
    ],
)
def test_collectives_are_kept_unless_the_user_has_said_how_many(
    monkeypatch: pytest.MonkeyPatch, version: str, given: dict[str, str], then: dict[str, str]
) -> None:
    import os

    import torch

    from gpudoctor.run.instruments.listener import keep_collectives

    monkeypatch.setattr(os, "environ", dict(given))
    monkeypatch.setattr(torch, "__version__", version)
    monkeypatch.setattr(torch._C._distributed_c10d, "_dump_fr_trace", lambda: b"", raising=False)
    keep_collectives()
    assert os.environ == then


def test_a_tensor_that_the_backend_still_holds_is_waited_for_and_not_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from gpudoctor.run.instruments import collective_calls

    tensor = torch.ones(4)
    held, waits = [tensor.view(2, 2)], []
    monkeypatch.setattr(collective_calls.time, "sleep", lambda _: held.clear())
    collective_calls._wait_for_backend(tensor)
    assert tensor._use_count() == 1
    held.append(tensor.view(2, 2))
    monkeypatch.setattr(collective_calls.time, "sleep", waits.append)
    collective_calls._wait_for_backend(tensor)
    assert 0 < len(waits) < 100


def test_batches_are_known_where_numpy_is_not_installed(tmp_path: Path) -> None:
    gone = "import torch\ndef gone(*_, **__): raise RuntimeError('Numpy is not available')\ntorch.Tensor.numpy = gone\n"
    (tmp_path / "train.py").write_text(gone + TRAINING.replace("    sampler.set_epoch(epoch)\n", ""))
    watched = watch(tmp_path, "--nproc-per-node", "2", "train.py")
    assert watched.codes == {"GPU302"}
    assert [rank["faults"] for rank in watched.report["ranks"]] == [[], []]


BY_HAND = """
import time
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(dist.get_rank())
kept = []
for step in range(4):
    optimizer.zero_grad()
    model(torch.randn(8, 8)).square().mean().backward()
    # Rank 0 comes to its step long before the other one has sent anything.
    time.sleep(0.3 * dist.get_rank())
    kept += [dist.all_reduce(each.grad.div_(2), async_op=True) for each in model.parameters()]
    {waits}
    optimizer.step()
    dist.barrier()
time.sleep(0.5)
"""


@pytest.mark.parametrize(
    ("waits", "codes"), [("", {"GPU509"}), ("[each.wait() for each in kept[-2:]]", set())], ids=["not waited", "waited"]
)
def test_gradients_that_come_too_late(tmp_path: Path, waits: str, codes: set[str]) -> None:
    (tmp_path / "train.py").write_text(BY_HAND.replace("{waits}", waits))
    watched = watch(tmp_path, "--no-lint", "--nproc-per-node", "2", "train.py")
    # Of weights that are not broadcast nothing is said: they began alike.
    assert watched.codes == codes
