"""Programs of a few files in the working directory, and whether their training was reached."""

from pathlib import Path
from textwrap import dedent

from gpudoctor.coverage import Coverage, Followed
from gpudoctor.lint.pipeline import lint
from gpudoctor.lint.request import Request
from gpudoctor.registry import find_rules

ENGINE = """
    import torch
    from torch import nn

    def train(rounds=10):
        model = nn.Linear(8, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(rounds):
            optimizer.zero_grad()
            model(torch.randn(4, 8)).sum().backward()
            optimizer.step()
    """


def followed(entry: str, files: dict[str, str]) -> list[Coverage]:
    """What was followed of a program."""
    for name, text in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(dedent(text), encoding="utf-8")
    cards = find_rules().select()
    programs = lint(Request(paths=(entry,), rules=cards, known=cards, jobs=1)).programs
    return [each for each in programs if each.path == entry]


def assert_trains(programs: list[Coverage]) -> None:
    assert [(each.followed, each.training_loops, each.ended_by) for each in programs] == [(Followed.WHOLE, 1, None)]
