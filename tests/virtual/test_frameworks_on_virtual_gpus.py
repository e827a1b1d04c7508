"""Frameworks choose their devices as on a machine with GPUs, and train, evaluate and save there."""

import importlib.util
import sys
from pathlib import Path

import pytest

from tests.support.installs import require_torch
from tests.support.watching import watch

require_torch()
DATA = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.randn(50, 6), torch.randint(0, 3, (50,)))
"""
ACCELERATE = f"""\
{DATA}
import time
from accelerate import Accelerator

accelerator = Accelerator(gradient_accumulation_steps=2, mixed_precision="fp16")
net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.AdamW(net.parameters(), 1e-2)
parts = accelerator.prepare(net, optimizer, DataLoader(data, 4, shuffle=True), DataLoader(data, 4))
model, optimizer, training, validation = parts
assert accelerator.device == torch.device("cuda", accelerator.local_process_index)
for x, y in training:
    assert x.device == accelerator.device
    with accelerator.accumulate(model):
        accelerator.backward(nn.functional.cross_entropy(model(x), y))
        if accelerator.sync_gradients:
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
model.eval()
with torch.no_grad():
    assert sum(len(accelerator.gather_for_metrics(model(x))) for x, _ in validation) == 50
accelerator.save_state("state")
accelerator.wait_for_everyone()
accelerator.load_state("state")
print("done", flush=True)
time.sleep(0.5)
accelerator.end_training()
"""
LIGHTNING = f"""\
{DATA}
import lightning


class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))

    def training_step(self, batch, index):
        x, y = batch
        assert x.device == self.device == torch.device("cuda", self.local_rank)
        return nn.functional.cross_entropy(self.net(x), y)

    def validation_step(self, batch, index):
        x, y = batch
        self.log("accuracy", (self.net(x).argmax(1) == y).float().mean(), sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), 1e-2)


trainer = lightning.Trainer(
    accelerator="gpu", devices=2, strategy="ddp", max_epochs=1, precision="16-mixed", sync_batchnorm=True, logger=False,
    enable_progress_bar=False, default_root_dir=".",
)
trainer.fit(Net(), DataLoader(data, 5, shuffle=True), DataLoader(data, 5))
assert trainer.num_devices == 2
print("done", flush=True)
"""
TRAINER = """\
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

rows = [{"input_ids": torch.randint(5, 60, (8,)), "labels": number % 2} for number in range(32)]
config = BertConfig(vocab_size=64, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16)
arguments = TrainingArguments("out", per_device_train_batch_size=4, max_steps=3, save_steps=3, bf16=True, report_to=[])
trainer = Trainer(BertForSequenceClassification(config), arguments, train_dataset=rows, eval_dataset=rows)
assert arguments.n_gpu == 1
assert arguments.device == torch.device("cuda", arguments.local_process_index)
trainer.train()
assert trainer.evaluate()["eval_loss"] > 0
assert trainer.model.device == arguments.device
print("done", flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("library", "program", "alone"),
    [("accelerate", ACCELERATE, False), ("lightning", LIGHTNING, True), ("transformers", TRAINER, False)],
    ids=["accelerate", "lightning", "transformers"],
)
def test_a_framework_finds_two_gpus(tmp_path: Path, library: str, program: str, alone: bool) -> None:
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed: pip install -c constraints.txt -e '.[test,frameworks]'")
    (tmp_path / "train.py").write_text(program)
    command = ["--", sys.executable, "train.py"] if alone else ["train.py"]
    seen = watch(tmp_path, "--virtual-gpus=2", "--no-lint", "--hang-after=60", "--kill-on-hang", *command, cold=alone)
    assert seen.out.count("done") == 2, seen.err[-3000:]
    assert seen.status == 0, seen.err[-3000:]
    assert [each["device"] for each in seen.report["ranks"]] == ["cuda:0", "cuda:1"]
    assert seen.codes == set()
