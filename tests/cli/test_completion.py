"""Completion: what is suggested, and that bash, zsh and fish really offer it when TAB is pressed."""

import os
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpudoctor import cli
from gpudoctor.cli.command import COMMANDS, command_named
from gpudoctor.cli.completion import SCRIPTS
from gpudoctor.cli.suggestions import suggestions
from gpudoctor.registry import find_rules
from gpudoctor.report.formats import FORMATS

REPOSITORY = Path(__file__).resolve().parent.parent.parent
_TIME_LIMIT = 60


def words(line: str) -> list[str] | None:
    """What is suggested for the end of a line."""
    found = suggestions(line.split(" "))
    return None if found is None else [each.word for each in found]


class TestSuggestions:
    def test_commands(self) -> None:
        assert words("") == list(COMMANDS)
        assert words("ex") == ["explain"]
        assert words("--") == ["--help", "--version"]
        assert words("lnit --sel") == []

    @pytest.mark.parametrize("command", COMMANDS)
    def test_every_option_of_every_command(self, command: str, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit):
            cli.main([command, "--help"])
        shown = set(re.findall(r"--[a-z][a-z-]+", capsys.readouterr().out))
        assert set(words(f"{command} --") or ()) == shown

    def test_every_value_has_a_kind(self) -> None:
        """An option that is added later must say in its help what completes it."""
        import argparse

        for command in COMMANDS:
            parser = argparse.ArgumentParser()
            command_named(command).declare(parser)
            for action in parser._actions:
                if action.nargs != 0 and action.help != argparse.SUPPRESS:
                    assert "|" in str(action.metavar) or str(action.metavar).removesuffix(",...") in {
                        "FILE",
                        "GLOB",
                        "DIR",
                        "LOG",
                        "MODULE",
                        "N",
                        "NAME>=X",
                        "PATHS",
                        "PID",
                        "REV",
                        "RULE",
                        "SCRIPT",
                        "SECONDS",
                        "WORDS",
                        "cifar10:PATH",
                    }

    @pytest.mark.parametrize(
        ("line", "expected"),
        [
            ("lint --output-f", ["--output-format", "--output-file"]),
            ("lint --output-format s", ["sarif"]),
            ("lint --output-format=s", ["--output-format=sarif"]),
            ("lint --output-format = s", ["sarif"]),
            ("lint --output-format =", [*FORMATS]),
            ("lint train.py --fail-on ", ["error", "warning", "perf", "info", "not-followed", "never"]),
            ("lint --select GPU30", [card.code for card in find_rules().cards if card.code.startswith("GPU30")]),
            ("lint --select missing-set", ["missing-set-epoch"]),
            ("lint --select=GPU301,missing-set", ["--select=GPU301,missing-set-epoch"]),
            ("lint --select GPU302,GPU302", []),
            ("lint --ignore A", ["ALL"]),
            ("lint --jobs ", []),
            ("explain missing-set", ["missing-set-epoch"]),
            ("explain --color never missing-set", ["missing-set-epoch"]),
            ("explain GPU301 ", []),
            ("rules x", []),
            ("completion ", ["bash", "zsh", "fish"]),
        ],
    )
    def test_words(self, line: str, expected: list[str]) -> None:
        assert words(line) == expected

    @pytest.mark.parametrize(
        "line",
        [
            "lint ",
            "lint tra",
            "lint a.py b",
            "lint --config ",
            "lint --output-file=re",
            "plan ",
            "lint -- -",
            "lint -q x",
        ],
    )
    def test_files_are_left_to_the_shell(self, line: str) -> None:
        assert words(line) is None

    def test_with_what_they_mean(self) -> None:
        (found,) = suggestions(["explain", "GPU302"]) or ()
        assert found.meaning.startswith("A distributed sampler that shuffles")


class TestCommand:
    @pytest.mark.parametrize("shell", SCRIPTS)
    def test_script(self, shell: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert cli.main(["completion", shell]) == 0
        assert f"gpudoctor completion {shell}" in capsys.readouterr().out.splitlines()[0 if shell != "zsh" else 1]

    @pytest.mark.parametrize(
        ("shell", "expected"),
        [
            ("bash", "--jobs\n"),
            ("zsh", "--jobs:use at most N processes\n"),
            ("fish", "--jobs\tuse at most N processes\n"),
        ],
    )
    def test_answers(self, shell: str, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert cli.main(["completion", shell, "--", "lint", "--select", "GPU3", "--jo"]) == 0
        assert capsys.readouterr().out == expected

    def test_files(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert cli.main(["completion", "bash", "--", "lint", "--", "tra"]) == 0
        assert capsys.readouterr().out == ":files\n"

    def test_a_shell_that_is_not_known(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert cli.main(["completion", "fihs"]) == 2
        assert "did you mean `fish`?" in capsys.readouterr().err


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with a program `gpudoctor` in `bin`, and with files to complete."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "gpudoctor"
    path = f"{REPOSITORY}{os.pathsep}{REPOSITORY / 'rules'}"
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{path}" exec "{sys.executable}" -m gpudoctor "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    (tmp_path / "train model.py").touch()
    return tmp_path


def environment(home: Path) -> dict[str, str]:
    path = f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return {"PATH": path, "HOME": str(home), "TERM": "dumb", "LC_ALL": "C.UTF-8", "PS1": "$ "}


class Shell:
    """A shell at a terminal, in which somebody types."""

    def __init__(self, command: list[str], home: Path) -> None:
        self.seen = ""
        # Not by `pty.fork`, which Python warns of once there are threads.
        self.terminal, inside = os.openpty()
        self.process = subprocess.Popen(
            command, cwd=home, env=environment(home), stdin=inside, stdout=inside, stderr=inside, start_new_session=True
        )
        os.close(inside)

    def type(self, text: str, until: str) -> str:
        """Types, and waits until that is seen."""
        os.write(self.terminal, text.encode())
        start, deadline = len(self.seen), time.monotonic() + _TIME_LIMIT
        while not re.search(until, self.seen[start:]):
            ready, _, _ = select.select([self.terminal], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"{until!r} was not seen in {self.seen!r}"
            self.seen += os.read(self.terminal, 65536).decode(errors="replace")
        return self.seen[start:]

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.terminal)


@pytest.fixture
def shell(home: Path) -> Iterator[Callable[..., Shell]]:
    """Starts a shell, or skips the test where it is not installed."""
    started: list[Shell] = []

    def start(*command: str) -> Shell:
        if shutil.which(command[0]) is None:
            pytest.skip(f"{command[0]} is not installed")
        started.append(Shell(list(command), home))
        return started[-1]

    yield start
    for each in started:
        each.close()


LINES = [
    ("gpudoctor exp\t", "gpudoctor explain"),
    ("gpudoctor explain missing-set\t", "explain missing-set-epoch"),
    ("gpudoctor lint --output-format sa\t", "--output-format sarif"),
    ("gpudoctor lint --output-format=sa\t", "--output-format=sarif"),
    ("gpudoctor lint --select GPU301,missing-set\t", "GPU301,missing-set-epoch"),
    ("gpudoctor lint trai\t", r"lint train\\ model\.py"),
]
"""What somebody types, and what the line becomes."""

_CLEAR_LINE = "\x15"


def test_bash_at_a_terminal(shell: Callable[..., Shell]) -> None:
    bash = shell("bash", "--norc", "--noprofile", "-i")
    bash.type('bind "set enable-bracketed-paste off"; eval "$(gpudoctor completion bash)"; echo rea""dy\n', "ready")
    for typed, becomes in LINES:
        bash.type(typed, becomes)
        bash.type(f"{_CLEAR_LINE}echo ne''xt\n", "next")


def test_zsh_at_a_terminal(shell: Callable[..., Shell]) -> None:
    zsh = shell("zsh", "-f", "-i")
    setup = 'unsetopt zle_bracketed_paste; autoload -U compinit; compinit -u -D; eval "$(gpudoctor completion zsh)"'
    zsh.type(f"{setup}; echo rea''dy\n", "ready")
    for typed, becomes in LINES:
        zsh.type(typed, becomes)
        zsh.type(f"{_CLEAR_LINE}echo ne''xt\n", "next")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("gpudoctor exp", "explain\tShow the page of a rule."),
        ("gpudoctor lint --output-format=sa", "--output-format=sarif"),
        ("gpudoctor lint --select GPU301,missing-set", "GPU301,missing-set-epoch\tA distributed sampler that shuffles"),
        ("gpudoctor lint ", "train model.py"),
    ],
)
def test_fish(line: str, expected: str, home: Path) -> None:
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed")
    script = f"gpudoctor completion fish | source; complete -C '{line}'"
    run = subprocess.run(
        ["fish", "--no-config", "--command", script],
        cwd=home,
        env=environment(home),
        capture_output=True,
        text=True,
        timeout=_TIME_LIMIT,
        check=False,
    )
    assert any(found.startswith(expected) for found in run.stdout.splitlines()), run.stdout + run.stderr
