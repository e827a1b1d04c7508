"""What one lint says of programs that it did not follow, and programs for it."""

import json
from collections.abc import Callable
from typing import Any

TRAINING = """
    import torch
    from torch import nn

    def train(model, optimizer, x):
        for _ in range(10):
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()
    """
CLEAN = """
    import torch
    from torch import nn
    from engine import train
    model = nn.Linear(8, 1)
    train(model, torch.optim.SGD(model.parameters(), lr=0.1), torch.randn(4, 8))
    """
ANOTHER_WAY = """
    import sys, torch
    from torch import nn
    from engine import train
    import registry

    def main():
        model = nn.Linear(8, 1)
        registry.find("train")(model, torch.optim.SGD(model.parameters(), lr=0.1), torch.randn(4, 8))

    registry.start(main)
    """
RAISES = """
    import argparse, torch
    from torch import nn
    from engine import train

    class Settings:
        variant = "7b"

    def sizes(variant):
        if variant == "1b":
            return 8
        raise ValueError(f"{variant} is not supported")

    model = nn.Linear(sizes(Settings.variant), 1)
    train(model, torch.optim.SGD(model.parameters(), lr=0.1), torch.randn(4, 8))
    """
LIGHTNING = """
    import lightning as L
    import torch
    from torch import nn

    class Net(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 1)

        def training_step(self, batch, index):
            return self.layer(batch).sum()

    L.Trainer(max_epochs=3).fit(Net())
    """
ACCELERATE = """
    import torch
    from accelerate import Accelerator
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    accelerator = Accelerator()
    loader = DataLoader(TensorDataset(torch.zeros(64, 8)), batch_size=8, shuffle=True, num_workers=2)
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for (x,) in loader:
        optimizer.zero_grad()
        accelerator.backward(model(x).sum())
        optimizer.step()
    """
HELPERS = """
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 1)

        def forward(self, x):
            return self.layer(x)
    """


class Told:
    """What one run of lint has said."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.lines = code, err.splitlines()
        self.document: dict[str, Any] = json.loads(out)

    @property
    def programs(self) -> dict[str, str]:
        return {each["path"]: each["followed"] for each in self.document["programs"]}

    @property
    def silent(self) -> dict[str, list[tuple[str, int | None]]]:
        programs = self.document["programs"]
        return {each["path"]: [(one["cause"], one["line"]) for one in each["silent_for"]] for each in programs}


Tell = Callable[..., Told]
