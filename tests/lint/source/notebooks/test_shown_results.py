"""A notebook shows what the last statement of a cell comes to: nobody keeps that tensor, and nobody was meant to."""

import json
from pathlib import Path

import pytest

from gpudoctor import cli
from tests.support.notebooks import notebook

SHOWN = ["x.float()", "print(x)\nx.float()", "x.float()  # as floats\n"]
DROPPED = ["x.float()\nprint(x)", "if torch.cuda.is_available():\n    x.float()", "def cast():\n    x.float()\ncast()"]


@pytest.mark.parametrize("cell", [*SHOWN, *DROPPED])
def test_last_statement(
    cell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.ipynb").write_text(
        notebook("import torch\nx = torch.arange(4)", cell, "y = torch.nn.Linear(4, 1)(x)"), encoding="utf-8"
    )
    cli.main(["lint", "--no-cache", "--output-format=json", "--fail-on=never", "--select=GPU203", "a.ipynb"])
    found = [each["cell"] for each in json.loads(capsys.readouterr().out)["findings"]]
    assert found == ([2] if cell in DROPPED else [])
