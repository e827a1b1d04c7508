"""Programs of the fixtures cut into cells: what is found and fixed in such a notebook is what it is in the program."""

import ast
import json
import random
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from gpudoctor import cli
from tests.support.fixture_marks import PRELUDES, label_of
from tests.support.notebooks import notebook

pytestmark = pytest.mark.slow

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "rules"
SAMPLE = 40
UNLIKE = {
    # A notebook has no command line with options.
    "GPU104/bad_never_wrapped.py",
    "GPU104/bad_wrapped_by_option.py",
    # A comment above the cell that a statement leaves stays where it is.
    "GPU110/bad_converted_last.py",
    # A notebook shows what the last statement of a cell comes to.
    "GPU203/bad_model_stays_on_the_cpu.py",
    # Classes alone are a file that others import, and no notebook.
    "GPU214/bad_local_names.py",
    "GPU601/bad_trainer_of_a_package.py",
}


def programs() -> list[Path]:
    found = (path for path in FIXTURES.glob("*/*/bad_*.py") if not path.name.endswith(".fixed.py"))
    # What lint says of comments and of broken files is not about programs.
    alike = (path for path in found if path.parts[-3] != "tool" and label_of(path) not in UNLIKE)
    return random.Random(1).sample(sorted(alike, key=label_of), SAMPLE)


def cells_of(text: str) -> list[str]:
    """Each statement of the top level with what stands above it."""
    lines, starts = text.rstrip("\n").split("\n"), [0]
    for node in ast.parse(text).body[1:]:
        first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
        if first - 1 > starts[-1]:
            starts.append(first - 1)
    cuts = [*starts, len(lines)]
    return ["\n".join(lines[one:other]) for one, other in pairwise(cuts)]


def findings(path: Path, capsys: pytest.CaptureFixture[str]) -> list[tuple[Any, ...]]:
    """Rule, text of the line, column and message, in the order of the program."""
    options = ("--no-cache", "--launch=torchrun", "--output-format=json", "--fail-on=never", "--ignore=GPU002,GPU003")
    assert cli.main(["lint", *options, path.name]) == 0
    found = json.loads(capsys.readouterr().out)["findings"]
    return [(each["code"], _line(path.parent, each), each["column"], each["message"]) for each in found]


def _line(folder: Path, place: dict[str, Any]) -> str:
    text = (folder / place["path"]).read_text(encoding="utf-8")
    if place["cell"] is not None:
        text = "".join(json.loads(text)["cells"][place["cell"] - 1]["source"])
    return text.split("\n")[place["line"] - 1]


@pytest.mark.parametrize("path", [pytest.param(path, id=label_of(path)) for path in programs()])
def test_twins(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    text = path.read_text(encoding="utf-8")
    program, twin = tmp_path / "train.py", tmp_path / "twin.ipynb"
    for prelude in PRELUDES:
        shutil.copy(prelude, tmp_path)
    program.write_text(text, encoding="utf-8")
    twin.write_text(notebook(*cells_of(text)), encoding="utf-8")
    assert findings(twin, capsys) == findings(program, capsys)
    for each in (program, twin):
        cli.main(["lint", "--no-cache", "--launch=torchrun", "--fix", "--unsafe-fixes", "--quiet", each.name])
    cells = ["".join(each["source"]) for each in json.loads(twin.read_text(encoding="utf-8"))["cells"]]
    assert _filled("\n".join(cells)) == _filled(program.read_text(encoding="utf-8"))


def _filled(text: str) -> list[str]:
    return [line for line in text.split("\n") if line.strip()]
