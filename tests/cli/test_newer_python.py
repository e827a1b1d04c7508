"""Syntax of a newer Python is no mistake of the author's: it is told, with what to do, and the command does not look
as if all were well."""

import json
import sys
from pathlib import Path

import pytest

from gpudoctor import cli
from tests.support.notebooks import notebook

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.version_info >= (3, 14), reason="this Python reads it")]

NEWER = "import torch\nmessage = t'{torch}'\n"
WRONG = "import torch\nmodel = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))\n"


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def lint(*arguments: str) -> int:
    return cli.main(["lint", "--no-cache", "--output-format=concise", *arguments])


def test_told_and_not_clean(capsys: pytest.CaptureFixture[str]) -> None:
    Path("train.py").write_text(NEWER)
    assert lint("train.py") == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "train.py:2: this is syntax of Python 3.14" in said.err
    assert "install it with Python 3.14 or newer" in said.err
    assert "No mistake found in 1 file." not in said.err


def test_other_findings_stay(capsys: pytest.CaptureFixture[str]) -> None:
    Path("helper.py").write_text(NEWER)
    Path("train.py").write_text(f"import helper\n{WRONG}")
    assert lint("train.py") == 2
    said = capsys.readouterr()
    assert said.out.startswith("train.py:3:9: error: GPU401")
    assert "helper.py:2: this is syntax of Python 3.14" in said.err


def test_of_many_some_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(9):
        Path(f"m{number}.py").write_text(NEWER)
    assert lint(".") == 2
    said = capsys.readouterr()
    assert said.err.count("this is syntax of") == 4
    assert "5 more files likewise; Python 3.14 reads all of them" in said.err
    assert lint(".", "--exclude=m*.py") == 0


def test_a_cell(capsys: pytest.CaptureFixture[str]) -> None:
    Path("nb.ipynb").write_text(notebook("import torch", "!ls\nx = t'{torch}'", "x = ("))
    assert lint("nb.ipynb") == 2
    said = capsys.readouterr()
    assert "nb.ipynb:cell 2" in said.err
    assert "nothing in this cell was checked" in said.err
    assert said.out.count("GPU001") == 1


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    Path("train.py").write_text(NEWER)
    assert lint("train.py", "--output-format=json") == 2
    document = json.loads(capsys.readouterr().out)
    assert document["findings"] == []


def test_cache(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUDOCTOR_CACHE_DIR", str(Path.cwd() / "kept"))
    Path("train.py").write_text(f"import helper\n{WRONG}")
    Path("helper.py").write_text(NEWER)
    said = []
    for _ in range(2):
        assert cli.main(["lint", "train.py"]) == 2
        said.append(capsys.readouterr())
    assert said[0] == said[1]
