"""Settings as the command line meets them: which hold, who says so, and what is told of files that are not read."""

import re
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from gpudoctor import cli
from gpudoctor.config import read_config

Settings = Callable[..., dict[str, tuple[str, str]]]

UNSAFE = Path(__file__).resolve().parent.parent.parent / "fixtures/rules/gradient/gradients_never_cleared/bad_page.py"
"""Of this mistake the fix changes what is trained, which is its purpose."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> Settings:
    """What `--show-settings` says of each key, and who says it."""

    def call(*options: str) -> dict[str, tuple[str, str]]:
        assert cli.main(["lint", "--show-settings", *options]) == 0
        lines = re.findall(r"^([a-z-]+) = (.*)  # (.*)$", capsys.readouterr().out, re.MULTILINE)
        return {key: (value, who) for key, value, who in lines}

    return call


def test_who_says_what(folder: Path, shown: Settings) -> None:
    (folder / "base.toml").write_text('fail-on = "error"\nignore = ["GPU805"]\nselect = ["GPU8"]\n', encoding="utf-8")
    (folder / "gpudoctor.toml").write_text('extend = "base.toml"\nlaunch = "spawn"\n', encoding="utf-8")
    assert shown("--ignore=GPU801", "--output-format=json", "--no-respect-gitignore") == {
        "select": ('["GPU8"]', "base.toml"),
        "ignore": ('["GPU805", "GPU801"]', "base.toml and the command line"),
        "extend-select": ("[]", "default"),
        "per-file-ignores": ("{}", "default"),
        "exclude": ("[]", "default"),
        "respect-gitignore": ("false", "the command line"),
        "launch": ('"spawn"', "gpudoctor.toml"),
        "output-format": ('"json"', "the command line"),
        "fail-on": ('"error"', "base.toml"),
        "unsafe-fixes": ("false", "default"),
    }


def test_what_the_command_line_selects_replaces_what_a_file_says(folder: Path, shown: Settings) -> None:
    (folder / "gpudoctor.toml").write_text('select = ["GPU8"]\nignore = ["GPU805"]\n', encoding="utf-8")
    found = shown("--select=GPU80")
    assert found["select"] == ('["GPU80"]', "the command line")
    assert found["ignore"] == ("[]", "default")


def test_it_is_a_settings_file_that_says_the_same(
    folder: Path, shown: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    said = 'exclude = ["a/*"]\ntarget-torch = "2.4"\nunsafe-fixes = true\nper-file-ignores = { "x*" = ["GPU3"] }\n'
    (folder / "gpudoctor.toml").write_text(said, encoding="utf-8")
    assert cli.main(["lint", "--show-settings"]) == 0
    text = capsys.readouterr().out
    toml = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    assert toml.loads(text)["per-file-ignores"] == {"x*": ["GPU3"]}
    before = shown()
    (folder / "gpudoctor.toml").write_text(text, encoding="utf-8")
    assert read_config("gpudoctor.toml").exclude == ("a/*",)
    assert {key: value for key, (value, _) in shown().items()} == {key: value for key, (value, _) in before.items()}


def test_the_rules_that_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["lint", "--show-settings", "--select=GPU301,GPU302"]) == 0
    assert capsys.readouterr().out.endswith("\n# 2 rules: GPU301 GPU302\n")


def test_a_misspelt_file_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / ".gpudocter.toml").write_text('select = ["GPU3"]\n', encoding="utf-8")
    (folder / "train.py").touch()
    note = "gpudoctor: .gpudocter.toml is not read: did you mean `.gpudoctor.toml`?\n"
    cli.main(["lint", "--no-cache", "train.py"])
    assert note in capsys.readouterr().err
    cli.main(["lint", "--no-cache", "--quiet", "train.py"])
    assert capsys.readouterr().err == ""


def test_unsafe_fixes_as_a_setting(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "train.py").write_text(UNSAFE.read_text(encoding="utf-8"), encoding="utf-8")
    lint = ["lint", "--no-cache", "--select=GPU709", "train.py"]
    cli.main([*lint, "--diff"])
    assert capsys.readouterr().out == ""
    (folder / "gpudoctor.toml").write_text("unsafe-fixes = true\n", encoding="utf-8")
    cli.main(lint)
    assert "[!] 1 fixable with `--fix`." in capsys.readouterr().err
    cli.main([*lint, "--diff"])
    assert "+" in capsys.readouterr().out
    cli.main([*lint, "--diff", "--no-unsafe-fixes"])
    assert capsys.readouterr().out == ""
