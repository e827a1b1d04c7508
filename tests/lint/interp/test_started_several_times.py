"""A training for one process that the user starts as several: it is followed as if it made a process group."""

import pytest

from gpudoctor.lint.events.process import InitGroup
from tests.lint.conftest import Execute

TRAINING = """
import argparse
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

def fit(model, loader, optimizer):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

def main(epochs):
    data = TensorDataset(torch.zeros(8, 2), torch.zeros(8).long())
    loader = DataLoader(data)
    model = nn.Linear(2, 2)
    fit(model, loader, torch.optim.SGD(model.parameters(), lr=0.1))
"""
PARSED = "args = argparse.ArgumentParser().parse_args()\n"


def line_of(text: str, source: str) -> int:
    return next(number for number, line in enumerate(source.splitlines(), 1) if text in line)


@pytest.mark.parametrize(
    "end",
    ["main(3)", f"{PARSED}main(3)", "if __name__ == '__main__':\n    main(3)", "import fire\nfire.Fire(main)"],
)
def test_the_group_is_made_where_the_work_begins(paper: Execute, end: str) -> None:
    source = TRAINING + end
    program = paper(source, launch="torchrun").program
    group = program.lacks_group
    assert group.location.line == line_of("loader = DataLoader", source)
    assert program.distributed


@pytest.mark.parametrize(
    "source",
    [
        TRAINING,  # Nothing is started.
        TRAINING + "torch.distributed.init_process_group()\nmain(3)",
        TRAINING + "from accelerate import Accelerator\nAccelerator()\nmain(3)",
        TRAINING + "import somebody\nsomebody.init_distributed(int(__import__('os').environ['RANK']))\nmain(3)",
        "import torch\nprint(torch.nn.Linear(2, 2)(torch.zeros(1, 2)))",
    ],
)
def test_no_group_is_lacking(paper: Execute, source: str) -> None:
    for program in paper(source, launch="torchrun").programs:
        assert program.lacks_group is None


def test_nobody_said_that_several_are_started(paper: Execute) -> None:
    program = paper(TRAINING + "main(3)", launch="auto").program
    assert program.lacks_group is None
    assert not program.has(InitGroup)
