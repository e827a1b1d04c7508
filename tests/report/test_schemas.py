"""The published schemas: they are renewed, and real reports and settings hold to them."""

import json
import sys
import textwrap
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from gpudoctor import cli
from gpudoctor.config import read_config
from gpudoctor.errors import ConfigError
from tests.support.told import RAISES, TRAINING
from tests.test_config import EVERYTHING
from tests.tools import make_schema

jsonschema = pytest.importorskip("jsonschema")

ROOT = Path(__file__).resolve().parent.parent.parent
RULES = ROOT / "fixtures" / "rules"
PROGRAMS = [
    *sorted(RULES.glob("data/*/bad_page.py"))[:3],
    RULES / "gradient/gradients_never_cleared/bad_page.py",
    ROOT / "fixtures/programs/broken_ddp/train.py",
]


def validator(name: str) -> Any:
    schema = json.loads(make_schema.file_of(name).read_text(encoding="utf-8"))
    kind = jsonschema.validators.validator_for(schema)
    kind.check_schema(schema)
    return kind(schema)


@pytest.mark.parametrize("name", make_schema.SCHEMAS)
def test_the_file_is_renewed(name: str) -> None:
    expected = make_schema.text(name)
    assert make_schema.file_of(name).read_text(encoding="utf-8") == expected, "run python tests/tools/make_schema.py"


def test_nothing_else_is_published() -> None:
    assert {path.stem for path in make_schema.FOLDER.iterdir()} == {*make_schema.SCHEMAS}


class TestLint:
    def report(self, capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
        cli.main(["lint", "--no-cache", "--output-format=json", *arguments])
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        validator("lint").validate(found)
        return found

    @pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.parent.name)
    def test_programs(self, program: Path, capsys: pytest.CaptureFixture[str]) -> None:
        found = self.report(capsys, str(program))
        assert found["findings"]
        assert "statistics" not in found

    def test_all_that_a_report_may_have(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.chdir(tmp_path)
        cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": FIXABLE}
        notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
        Path("n.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
        for name, text in (("tool.py", RAISES), ("engine.py", TRAINING)):
            Path(name).write_text(textwrap.dedent(text), encoding="utf-8")
        found = self.report(capsys, "--statistics", "n.ipynb", "tool.py", "gone.py")
        (finding,) = found["findings"]
        assert finding["cell"] == 1
        assert finding["fix"]["edits"][0]["cell"] == 1
        assert found["statistics"] == [
            {"code": "GPU303", "name": "shuffle-with-sampler", "severity": "error", "count": 1}
        ]
        assert [each["path"] for each in found["errors"]] == ["gone.py"]
        (tool,) = [each for each in found["programs"] if each["path"] == "tool.py"]
        assert tool["followed"] == "not"
        assert tool["ended_by"]["line"]

    def test_what_does_not_hold(self, capsys: pytest.CaptureFixture[str]) -> None:
        found = self.report(capsys, str(PROGRAMS[0]))
        first = found["findings"][0]
        for wrong in (
            {"version": 2},
            {"findings": [{**first, "severity": "bad"}]},
            {"findings": [{**first, "line": "3"}]},
            {"programs": [{"path": "x"}]},
        ):
            assert not validator("lint").is_valid({**found, **wrong})
        assert not validator("lint").is_valid({key: value for key, value in found.items() if key != "errors"})
        # What a later version adds does not disturb.
        assert validator("lint").is_valid({**found, "more": 1})


FIXABLE = [
    "import torch\n",
    "from torch.utils.data import DataLoader, RandomSampler, TensorDataset\n",
    "data = TensorDataset(torch.randn(8, 2))\n",
    "loader = DataLoader(data, sampler=RandomSampler(data), shuffle=True)\n",
]


class TestSettings:
    @pytest.mark.parametrize(
        "text",
        [
            "",
            EVERYTHING,
            *(
                f'required-version = "{version}"'
                for version in ("0.1", ">=0.1", "~=0.1.0", " >= 0.1 , < 9 ", "v0.1", "!=3")
            ),
        ],
    )
    def test_what_is_read_is_valid(self, text: str, tmp_path: Path) -> None:
        (tmp_path / "gpudoctor.toml").write_text(text, encoding="utf-8")
        read_config(str(tmp_path / "gpudoctor.toml"))
        validator("settings").validate(parsed(text))

    @pytest.mark.parametrize(
        "text",
        [
            "selct = []",
            'select = "GPU3"',
            "ignore = [3]",
            "per-file-ignores = []",
            'per-file-ignores = { "x" = "GPU3" }',
            'launch = "torchrnu"',
            'respect-gitignore = "no"',
            "unsafe-fixes = 1",
            "target-torch = 2.4",
            'target-torch = "2.4 or so"',
            "extend = 3",
            'required-version = "new"',
            'required-version = ">=0.1 <0.3"',
            'output-format = "xml"',
        ],
    )
    def test_what_is_refused_is_not(self, text: str, tmp_path: Path) -> None:
        (tmp_path / "gpudoctor.toml").write_text(text, encoding="utf-8")
        with pytest.raises(ConfigError):
            read_config(str(tmp_path / "gpudoctor.toml"))
        assert not validator("settings").is_valid(parsed(text))


def parsed(text: str) -> dict[str, Any]:
    toml = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    found: dict[str, Any] = toml.loads(text)
    return found
