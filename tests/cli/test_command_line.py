"""The frame of the command line: commands, options, errors, exit codes, what start-up loads."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gpudoctor import __version__, cli
from gpudoctor.cli.command import COMMANDS, CommandParser, command_named
from gpudoctor.cli.error_boundary import at_the_edge
from gpudoctor.errors import ConfigError, InternalError, UsageError
from gpudoctor.report.formats import FORMATS

REPOSITORY = Path(__file__).resolve().parent.parent.parent

# What scripts, hooks and editors rely on. To add one is fine, to take one away breaks somebody.
OPTIONS = {
    "lint": """--add-ignores --baseline --color --config --diff --exclude --extend-select --fail-on --fix --help
        --ignore --jobs --launch --no-cache --no-config --no-respect-gitignore --no-unsafe-fixes --output-file
        --output-format --quiet --select --show-settings --since --statistics --stdin-filename --try --try-arguments
        --unsafe-fixes --update-baseline --verbose --watch""",
    "explain": "--color --help",
    "rules": "--color --help --output-format",
    "plan": "--color --help --launch --output-format",
    "probe": """--color --compare --data --from --help --html --nproc-per-node --output-file --output-format --quick
        --ranks --require --strategy --thorough --timeout --workload""",
    "run": """--attach --check --color --hang-after --help --html --kill-on-hang --no-lint --nproc-per-node
        --output-file --output-format --skip-kernels --steps --trace --virtual-gpus
        --virtual-nodes""",
    "read": "--code --color --help --output-format",
    "env": "--gpus --help --output-format",
    "server": "--help --stdio",
    "completion": "--help",
}

SLOW = {
    "concurrent.futures",
    "difflib",
    "importlib.metadata",
    "json",
    "libcst",
    "multiprocessing",
    "pathspec",
    "platform",
    "rich",
    "subprocess",
    "torch",
}


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "rules"), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-m", "gpudoctor", *arguments],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "PYTHONPATH": path, **environment},
    )


def test_the_module_is_the_program() -> None:
    ended = run("--version")
    assert (ended.returncode, ended.stdout) == (0, f"gpudoctor {__version__}\n")


def test_commands() -> None:
    assert " ".join(COMMANDS) == "lint explain rules plan probe run read env server completion"
    for name, summary in COMMANDS.items():
        assert (command_named(name).__doc__ or "").startswith(summary)


@pytest.mark.parametrize("command", COMMANDS)
def test_options_are_frozen(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main([command, "--help"])
    assert ended.value.code == 0
    assert sorted(set(re.findall(r"--[a-z][a-z-]+", capsys.readouterr().out))) == sorted(OPTIONS[command].split())


def test_help_names_what_takes_all_that_remains(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["run", "--help"])
    shown = capsys.readouterr().out
    assert "-m MODULE ..." in shown
    assert "SCRIPT ..." in shown


def test_help_names_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    text = capsys.readouterr().out
    assert all(command in text for command in COMMANDS)


def test_nothing_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "usage: gpudoctor" in shown.err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["lnit"], "there is no command `lnit`; did you mean `lint`?"),
        (["halp"], "there is no command `halp`; did you mean `help`?"),
        (["xyz"], "there is no command `xyz`; see `gpudoctor --help`"),
        (["prob"], "there is no command `prob`; did you mean `probe`?"),
        (
            ["probe", "--strategy", "dpp"],
            "--strategy: 'dpp' is none of single, data_parallel, ddp, fsdp2; did you mean `ddp`?",
        ),
        (["probe", "--workload", "cifar"], "did you mean `cifar10`?"),
        (
            ["probe", "--require", "ddp-eficiency>=0.8"],
            "there is no figure `ddp-eficiency`; did you mean `ddp-efficiency`?",
        ),
        (["probe", "--require", "ddp-efficiency"], "write it as `NAME>=X`"),
        (["probe", "--data", "mnist:/data"], "write it as `cifar10:PATH`"),
        (["probe", "--ranks", "0"], "'0' is not a whole number from 1 on"),
        (["probe", "--quick", "--thorough"], "--quick and --thorough exclude each other"),
        (["train.py"], "there is no command `train.py`; did you mean `gpudoctor lint train.py`?"),
        (["explain", "GPU998"], "there is no rule `GPU998`; `gpudoctor rules` lists them"),
        (["explain", "out of memory"], "there is no rule `out of memory`; `gpudoctor rules` lists them"),
        (["completion"], "the following arguments are required: bash|zsh|fish; see `gpudoctor completion --help`\n"),
        (["lint", "--slect", "GPU3"], "unknown option `--slect`; did you mean `--select`?"),
        (["lint", "--outputformat=json"], "unknown option `--outputformat`; did you mean `--output-format`?"),
        (["lint", "--sel", "GPU3"], "unknown option `--sel`; did you mean `--select`?"),
        (
            ["lint", "--output-format", "sarf"],
            f"{', '.join(FORMATS)}; did you mean `sarif`?",
        ),
        (["lint", "--fail-on", "errors"], "did you mean `error`?"),
        (["lint", "--launch", "torchrnu"], "did you mean `torchrun`?"),
        (["lint", "--jobs", "0"], "'0' is not a whole number from 1 on"),
        (["lint", "--config", "x", "--no-config"], "not allowed with"),
        (["lint", "--select"], "--select"),
        (["lint", "--select="], "there is nothing between the commas"),
        (["explain"], "RULE"),
        (["explain", "scalin"], "there is no rule `scalin`; did you mean `scaling`?"),
        (["explain", "unreadable-fiel"], "there is no rule `unreadable-fiel`; did you mean `unreadable-file`?"),
        (["--versoin"], "unknown option `--versoin`"),
    ],
)
def test_wrong_use(arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert complaint in shown.err
    assert shown.err.startswith("gpudoctor: ")


class TestEdge:
    def ending(self, error: BaseException | None) -> int:
        def work() -> int:
            if error:
                raise error
            return 1

        return at_the_edge(work, ["lint", "train.py"])

    def test_a_command_ends_as_it_says(self) -> None:
        assert self.ending(None) == 1

    def test_errors_for_users(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert self.ending(UsageError("no such thing")) == 2
        assert self.ending(ConfigError("unknown key")) == 2
        assert capsys.readouterr().err == "gpudoctor: no such thing\ngpudoctor: unknown key\n"

    def test_a_working_directory_that_is_gone(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        gone = tmp_path / "gone"
        gone.mkdir()
        monkeypatch.chdir(gone)
        gone.rmdir()
        assert cli.main(["lint", "train.py"]) == 2
        assert "working directory does not exist" in capsys.readouterr().err

    def test_interrupted(self) -> None:
        assert self.ending(KeyboardInterrupt()) == 130

    @pytest.mark.slow
    @pytest.mark.parametrize("error", [ZeroDivisionError("by zero"), InternalError("rule GPU301: by zero")])
    def test_a_bug_of_ours(self, error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
        assert self.ending(error) == 3
        text = capsys.readouterr().err
        assert "Traceback" not in text
        for fact in (__version__, "Python 3.", "command: gpudoctor lint train.py", "by zero"):
            assert fact in text

    @pytest.mark.slow
    def test_the_last_frames_are_named(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.ending(ZeroDivisionError("by zero"))
        assert re.search(
            r"at tests/cli/test_command_line\.py:\d+ in work < gpudoctor/cli/error_boundary\.py",
            capsys.readouterr().err,
        )

    @pytest.mark.slow
    def test_the_traceback_for_debugging(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("GPUDOCTOR_DEBUG", "1")
        self.ending(ZeroDivisionError("by zero"))
        assert "Traceback (most recent call last)" in capsys.readouterr().err

    def test_a_closed_pipe_is_no_error(self) -> None:
        reading, writing = os.pipe()
        os.close(reading)
        environment = {**os.environ, "PYTHONPATH": f"{REPOSITORY}{os.pathsep}{REPOSITORY / 'rules'}"}
        command = [sys.executable, "-m", "gpudoctor", "rules"]
        ended = subprocess.run(
            command, stdout=writing, stderr=subprocess.PIPE, env=environment, timeout=600, cwd=REPOSITORY
        )
        os.close(writing)
        assert (ended.returncode, ended.stderr) == (141, b"")


TRAINING = "import torch\nfor _ in range(2):\n    torch.optim.SGD([], 1).step()\n"
"""Files that only compute are not executed."""


class TestStartUp:
    @pytest.mark.parametrize("module", ["gpudoctor.cli", "gpudoctor.cli.lint"])
    def test_what_is_loaded(self, module: str) -> None:
        code = f"import {module}, sys; print(*sys.modules)"
        ended = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=600, cwd=REPOSITORY
        )
        assert not set(ended.stdout.split()) & {*SLOW, "tomllib", "textwrap", "shutil"}

    @pytest.mark.slow
    def test_a_lint_loads_no_more(self, write: Callable[..., Path], seed_rule: object) -> None:
        write(train=TRAINING)
        assert not self.loaded_by("lint", "--no-cache") & {*SLOW, "tomllib", "locale"}

    @pytest.mark.slow
    def test_what_is_known_already_loads_no_interpreter(self, write: Callable[..., Path], seed_rule: object) -> None:
        write(train=TRAINING)
        assert "gpudoctor.lint.interp" in self.loaded_by("lint")
        loaded = self.loaded_by("lint")
        assert not loaded & {*SLOW, "tomllib"} - {"json"}
        assert not {"gpudoctor.lint.interp", "gpudoctor.lint.library", "gpudoctor.lint.domain"} & loaded

    def loaded_by(self, *arguments: str) -> set[str]:
        """The modules that a command loads."""
        code = f"import sys\nfrom gpudoctor.cli import main\nmain({[*arguments]!r})\nprint(*sys.modules)"
        path = os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "rules"), os.environ.get("PYTHONPATH", "")])
        ended = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            timeout=600,
            env={**os.environ, "PYTHONPATH": path},
        )
        return set(ended.stdout.split())


def test_errors_name_the_parser_of_their_command() -> None:
    with pytest.raises(UsageError, match="see `toy --help`"):
        CommandParser(prog="toy").error("wrong")
