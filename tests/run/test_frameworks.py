"""Programs of frameworks are watched as they come: nothing is found in them, and what they compute stays the same.

Lightning, Accelerate and Transformers take half a minute to import on a small machine and are not asked for by the
`test` extra. Where they are installed, these programs run. Each ends its process group: Lightning leaves one of gloo
to the end of the process, where its threads may still be running and abort it. They need Python's lock for what they
still have to do, and who destroys a group holds it: without a moment of rest before, one in ten stood still.
"""

import sys
from pathlib import Path

import pytest

from tests.support.watching import Watched, plain, watch

TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
LIGHTNING = """
import sys
import time
import lightning
import torch
from torch.utils.data import DataLoader, TensorDataset

class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(8, 1)

    def training_step(self, batch, index):
        x, y = batch
        loss = torch.nn.functional.mse_loss(self.net(x), y)
        sys.stdout.write(f"{self.global_rank} {loss.item().hex()}\\n")
        return loss

    def validation_step(self, batch, index):
        x, y = batch
        self.log("loss", torch.nn.functional.mse_loss(self.net(x), y), sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

def main():
    lightning.seed_everything(0)
    train = TensorDataset(torch.randn(64, 8), torch.randn(64, 1))
    held_out = TensorDataset(torch.randn(32, 8), torch.randn(32, 1))
    model = Net()
    trainer = lightning.Trainer(
        strategy="ddp", accelerator="cpu", devices=2, max_epochs=2, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )
    trainer.fit(model, DataLoader(train, batch_size=8, shuffle=True), DataLoader(held_out, batch_size=8))
    sys.stdout.write(f"{trainer.global_rank} {[p.tolist() for p in model.parameters()]} {torch.rand(1).item()}\\n")
    time.sleep(1)
    torch.distributed.destroy_process_group()

if __name__ == "__main__":
    main()
"""
FABRIC = """
import sys
import time
import torch
from lightning.fabric import Fabric
from torch.utils.data import DataLoader, TensorDataset

def main():
    fabric = Fabric(accelerator="cpu", devices=2, strategy="ddp")
    fabric.launch()
    fabric.seed_everything(0)
    data = TensorDataset(torch.randn(64, 8), torch.randn(64, 1))
    loader = fabric.setup_dataloaders(DataLoader(data, batch_size=8, shuffle=True))
    net = torch.nn.Linear(8, 1)
    model, optimizer = fabric.setup(net, torch.optim.SGD(net.parameters(), lr=0.1))
    for epoch in range(2):
        loader.sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x), y)
            fabric.backward(loss)
            optimizer.step()
            sys.stdout.write(f"{fabric.global_rank} {loss.item().hex()}\\n")
    sys.stdout.write(f"{fabric.global_rank} {[p.tolist() for p in net.parameters()]} {torch.rand(1).item()}\\n")
    time.sleep(1)
    torch.distributed.destroy_process_group()

if __name__ == "__main__":
    main()
"""
ACCELERATE = """
import sys
import time
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, TensorDataset

def main():
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    set_seed(0)
    data = TensorDataset(torch.randn(128, 8), torch.randn(128, 1))
    net = torch.nn.Linear(8, 1)
    loader = DataLoader(data, batch_size=8, shuffle=True)
    model, optimizer, loader = accelerator.prepare(net, torch.optim.AdamW(net.parameters(), lr=0.1), loader)
    for epoch in range(2):
        for x, y in loader:
            with accelerator.accumulate(model):
                loss = torch.nn.functional.mse_loss(model(x), y)
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
            sys.stdout.write(f"{accelerator.process_index} {loss.item().hex()}\\n")
    sys.stdout.write(f"{accelerator.process_index} {[p.tolist() for p in net.parameters()]} {torch.rand(1).item()}\\n")
    time.sleep(1)
    accelerator.end_training()

if __name__ == "__main__":
    main()
"""
TRANSFORMERS = """
import sys
import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

class Tokens(Dataset):
    def __init__(self):
        self.ids = torch.randint(0, 64, (32, 16), generator=torch.Generator().manual_seed(0))

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, place):
        return {"input_ids": self.ids[place], "labels": self.ids[place]}

class Show(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **keywords):
        sys.stdout.write(f"{args.process_index} {state.global_step} {logs.get('loss')}\\n")

def main():
    torch.manual_seed(0)
    sizes = dict(vocab_size=64, n_positions=16, n_embd=16, n_layer=1, n_head=2)
    model = GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=0))
    args = TrainingArguments(
        "out", num_train_epochs=2, per_device_train_batch_size=2, logging_steps=1, save_strategy="no", report_to=[],
        use_cpu=True, disable_tqdm=True, seed=0,
    )
    Trainer(model=model, args=args, train_dataset=Tokens(), callbacks=[Show()]).train()
    weights = sum(each.double().sum() for each in model.parameters()).item().hex()
    sys.stdout.write(f"{args.process_index} {weights} {torch.rand(1).item()}\\n")

if __name__ == "__main__":
    main()
"""


def own_lines(out: str) -> list[str]:
    """What the program itself has printed: each of its lines begins with its rank."""
    return sorted(line for line in out.splitlines() if line[:2] in ("0 ", "1 "))


def healthy(folder: Path, program: str, command: tuple[str, ...], steps: int, samples: int) -> Watched:
    """Run it alone and watched: the same output, nothing found, and figures that are right."""
    (folder / "train.py").write_text(program)
    # Forked, it saves two loads of torch; watched, it is one that begins.
    alone = plain(folder, *command, "train.py", timeout=600)
    watched = watch(folder, "--", *command, "train.py", timeout=600, cold=True)
    assert watched.status == alone.returncode == 0, watched.err
    assert own_lines(watched.out) == own_lines(alone.stdout) != []
    assert [each for each in watched.report["findings"] if each["severity"] in ("error", "warning")] == []
    assert [(each["steps"], each["faults"]) for each in watched.report["ranks"]] == [(steps, [])] * 2
    timing = watched.report["timing"]
    parts = ("data", "forward", "backward", "communication", "optimizer")
    assert all(sum(each[f"{part}_seconds"] or 0 for part in parts) <= 1.5 * each["step_seconds"] for each in timing)
    # Of both ranks together, in the middle step.
    rate = watched.report["samples_per_second"]
    assert rate == pytest.approx(sum(samples / each["step_seconds"] for each in timing), rel=0.05)
    return watched


def test_lightning(tmp_path: Path) -> None:
    pytest.importorskip("lightning", reason="Lightning is not installed")
    watched = healthy(tmp_path, LIGHTNING, (sys.executable,), steps=8, samples=8)
    # The step is given a closure, which is not the optimizer's time.
    assert all(each["forward_seconds"] > 0 and each["backward_seconds"] > 0 for each in watched.report["timing"])


def test_a_trainer_that_is_told_not_to_share_the_data_out(tmp_path: Path) -> None:
    pytest.importorskip("lightning", reason="Lightning is not installed")
    (tmp_path / "train.py").write_text(LIGHTNING.replace("devices=2,", "devices=2, use_distributed_sampler=False,"))
    watched = watch(tmp_path, "train.py", timeout=600, cold=True)
    line = next(number for number, text in enumerate(LIGHTNING.splitlines(), 1) if "DataLoader(train" in text)
    named = [(each["code"], each["path"], each["line"]) for each in watched.report["findings"]]
    assert ("GPU301", "train.py", line) in named


def test_fabric(tmp_path: Path) -> None:
    pytest.importorskip("lightning", reason="Lightning is not installed")
    healthy(tmp_path, FABRIC, (sys.executable,), steps=8, samples=8)


def test_accelerate(tmp_path: Path) -> None:
    pytest.importorskip("accelerate", reason="Accelerate is not installed")
    healthy(tmp_path, ACCELERATE, TORCHRUN, steps=8, samples=16)


def test_the_trainer_of_transformers(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="Transformers is not installed")
    pytest.importorskip("accelerate", reason="Accelerate is not installed")
    healthy(tmp_path, TRANSFORMERS, TORCHRUN, steps=16, samples=2)
