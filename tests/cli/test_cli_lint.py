"""`gpudoctor lint` as users call it, with a stand-in for the interpreter."""

import io
import json
import math
import os
import signal
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gpudoctor.cli import progress
from gpudoctor.rule import RuleCard

pytestmark = pytest.mark.usefixtures("on_paper")

MAIN = 'import torch\nif __name__ == "__main__":\n    seed()\n'
Write = Callable[..., Path]
Lint = Callable[..., tuple[int, str, str]]


def test_findings(write: Write, lint: Lint) -> None:
    write(train=MAIN)
    code, out, err = lint()
    assert code == 1
    assert out.startswith("train.py:3:5: error: GPU950 seed-is-set\n")
    assert err == "Found 1 error in 1 file. Read more: gpudoctor explain GPU950\n"


def test_no_findings(write: Write, lint: Lint) -> None:
    write(train="import torch\n")
    assert lint() == (0, "", "No mistake found in 1 file.\n")


def test_no_files(write: Write, lint: Lint) -> None:
    write()
    assert lint() == (0, "", "There is no Python file to read.\n")


@pytest.mark.parametrize(("fail_on", "expected"), [("error", 1), ("warning", 1), ("info", 1), ("never", 0)])
def test_fail_on(write: Write, lint: Lint, fail_on: str, expected: int) -> None:
    write(train=MAIN)
    assert lint("--fail-on", fail_on)[0] == expected


def test_milder_findings_do_not_fail(write: Write, lint: Lint) -> None:
    write(train="import torch\nx = 1  # gpudoctor: ignore[GPU950]\n")
    code, out, _ = lint("--extend-select=GPU002", "--output-format=concise")
    assert (code, out.split()[2]) == (0, "GPU002")
    assert lint("--extend-select=GPU002", "--fail-on=info")[0] == 1


def test_a_missing_path(write: Write, lint: Lint) -> None:
    write(train=MAIN)
    code, out, err = lint("trian.py", "train.py", "--output-format=concise")
    assert code == 2
    assert "train.py:3:5" in out
    missing = "gpudoctor: trian.py: there is no such file or folder; did you mean `train.py`?\n"
    assert missing in err
    assert lint("trian.py") == (2, "", missing)


def test_json(write: Write, lint: Lint) -> None:
    write(train=MAIN)
    code, out, _ = lint("train.py", "gone.py", "--output-format=json")
    document = json.loads(out)
    assert code == 2
    assert list(document) == ["version", "findings", "files", "programs", "errors"]
    assert (document["version"], document["files"]) == (1, 1)
    assert document["errors"] == [{"path": "gone.py", "message": "there is no such file or folder"}]
    assert document["findings"] == [
        {
            "code": "GPU950",
            "name": "seed-is-set",
            "severity": "error",
            "message": "`seed` is called.",
            "remedy": "write nothing",
            "path": "train.py",
            "cell": None,
            "line": 3,
            "column": 5,
            "end_line": 3,
            "end_column": 9,
            "fix": None,
            "related": [],
            "confidence": "definite",
            "doubt": "",
            "seen_in": "code",
            "world": "torchrun",
            "started_by": "",
            "read_more": "gpudoctor explain GPU950",
        }
    ]


def test_a_bug_of_ours(write: Write, lint: Lint) -> None:
    write(bad='import torch\nif __name__ == "__main__":\n    seed(crash)\n', train=MAIN)
    code, out, err = lint()
    assert code == 3
    assert "train.py:3:5" in out
    assert "rule GPU950" in err
    assert "Traceback" not in err


def test_quiet_and_verbose(write: Write, lint: Lint) -> None:
    write(train=MAIN, gpudoctor_toml="")
    assert lint("--quiet")[2] == ""
    _, _, err = lint("--verbose", "--select=GPU950")
    assert "Rules: GPU950\n" in err
    assert "Configuration: none\n" in err
    assert "Read: train.py\n" in err


class TestSelection:
    def test_options(self, write: Write, lint: Lint) -> None:
        write(train=f"# gpudoctor: ignore[nothing-like-it]\n{MAIN}")
        concise = "--output-format=concise"

        def found(*options: str) -> str:
            return " ".join(line.split()[2] for line in lint(concise, *options)[1].splitlines())

        assert found() == "GPU950 GPU003"
        assert found("--ignore", "GPU003") == "GPU950"
        assert found("--ignore", "GPU003,seed-is-set") == ""
        assert found("--select=GPU003", "--select=seed-is-set") == "GPU950 GPU003"
        assert found("--select=GPU003", "--extend-select=GPU9") == "GPU950 GPU003"

    def test_the_command_line_wins_over_the_file(self, write: Write, lint: Lint) -> None:
        folder = write(train=MAIN)
        text = 'ignore = ["GPU950"]\nfail-on = "never"\noutput-format = "concise"\n'
        (folder / "gpudoctor.toml").write_text(text, encoding="utf-8")
        assert lint()[:2] == (0, "")
        code, out, _ = lint("--select=GPU950", "--fail-on=error")
        assert (code, out) == (1, "train.py:3:5: error: GPU950 seed-is-set: `seed` is called.\n")
        assert lint("--no-config")[0] == 1
        (folder / "other.toml").write_text('fail-on = "never"\n', encoding="utf-8")
        assert lint("--config=other.toml")[0] == 0
        assert lint("--config=othr.toml")[0] == 2

    def test_a_wrong_selector_in_the_file(self, write: Write, lint: Lint) -> None:
        folder = write(train=MAIN)
        (folder / "pyproject.toml").write_text('[tool.gpudoctor]\nselect = ["seed-is-sett"]\n', encoding="utf-8")
        code, _, err = lint()
        assert code == 2
        assert "pyproject.toml: select: " in err
        assert "did you mean `seed-is-set`?" in err

    def test_rules_of_later_versions_of_pytorch(
        self, write: Write, lint: Lint, seed_rule: RuleCard, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys.modules[seed_rule.module].SeedIsSet, "since_torch", "2.10")
        folder = write(train=MAIN)
        for version, expected in (("2.9", 0), ("2.10", 1), ("2.11.1", 1)):
            (folder / "gpudoctor.toml").write_text(f'target-torch = "{version}"\n', encoding="utf-8")
            assert lint()[0] == expected, version

    def test_patterns_of_the_file(self, write: Write, lint: Lint, monkeypatch: pytest.MonkeyPatch) -> None:
        folder = write(sub__train=MAIN, sub__vendor__train=MAIN, sub__tests__train=MAIN)
        text = 'exclude = ["sub/vendor"]\n[per-file-ignores]\n"sub/tests/*" = ["GPU9"]\n'
        (folder / "gpudoctor.toml").write_text(text, encoding="utf-8")
        assert lint("--output-format=concise")[1].count("\n") == 1
        monkeypatch.chdir(folder / "sub")
        assert lint("--output-format=concise")[1].split(":")[0] == "train.py"
        assert lint("--output-format=concise", "--exclude", "train.py,tests")[1] == ""


class TestInput:
    def test_standard_input(self, write: Write, lint: Lint, monkeypatch: pytest.MonkeyPatch) -> None:
        write(helper="import torch\nseed()\n")
        text = b"import torch\nimport helper\nseed()\n"
        for arguments in (["-", "--stdin-filename=train.py"], ["--stdin-filename=train.py"]):
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
            code, out, _ = lint(*arguments, "--output-format=concise")
            assert code == 1
            assert [line.split(":")[0] for line in out.splitlines()] == ["helper.py", "train.py"]

    def test_standard_input_has_one_name(self, write: Write, lint: Lint) -> None:
        write(train=MAIN)
        code, _, err = lint("train.py", "--stdin-filename=x.py")
        assert code == 2
        assert "--stdin-filename" in err


class TestOutputFile:
    def test_it_takes_the_place_of_standard_output(self, write: Write, lint: Lint) -> None:
        folder = write(train=MAIN)
        (folder / "report.json").write_text("old")
        (folder / "report.json").chmod(0o600)
        code, out, _ = lint("--output-format=json", "--output-file=report.json")
        assert (code, out) == (1, "")
        assert json.loads((folder / "report.json").read_text())["files"] == 1
        assert stat.S_IMODE((folder / "report.json").stat().st_mode) == 0o600
        assert sorted(os.listdir(folder)) == ["report.json", "train.py"]

    def test_a_place_that_cannot_be(self, write: Write, lint: Lint) -> None:
        write(train=MAIN)
        code, _, err = lint("--output-file=gone/report.json")
        assert (code, "there is no folder `gone`" in err) == (2, True)
        assert "this is a folder" in lint("--output-file=.")[2]


class TestColour:
    @pytest.mark.parametrize(
        ("options", "environment", "coloured"),
        [
            ([], {}, False),
            (["--color=always"], {"NO_COLOR": "1"}, True),
            ([], {"FORCE_COLOR": "1"}, True),
            ([], {"FORCE_COLOR": "0"}, False),
            ([], {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
            (["--color=never"], {"FORCE_COLOR": "1"}, False),
        ],
    )
    def test_when(
        self,
        options: list[str],
        environment: dict[str, str],
        coloured: bool,
        write: Write,
        lint: Lint,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        write(train=MAIN)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        assert ("\x1b[" in lint(*options)[1]) is coloured


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class TestProgress:
    def test_only_on_a_terminal_and_only_for_long_work(self, monkeypatch: pytest.MonkeyPatch) -> None:
        clock = iter([0.0, 0.5, 2.0, 2.0, 2.01, 3.0, 3.0])
        monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
        screen = Terminal()
        bar = progress.Progress(screen, wanted=True)
        bar(1, 10)
        assert screen.getvalue() == ""
        bar(5, 10)
        assert "5 of 10 programs" in screen.getvalue()
        bar(6, 10)
        assert "6 of 10" not in screen.getvalue()
        bar(7, 10)
        assert "7 of 10" in screen.getvalue()
        bar.close()
        assert screen.getvalue().endswith("\r\x1b[K")

    def test_not_in_a_pipe_and_not_when_quiet(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(progress, "_PATIENCE", 0)
        for screen, wanted in ((io.StringIO(), True), (Terminal(), False)):
            with progress.Progress(screen, wanted=wanted) as bar:
                bar(1, 10, "train.py")
            assert screen.getvalue() == ""

    def test_the_program_that_is_read(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(progress, "_PATIENCE", 0)
        monkeypatch.setattr(progress, "_EVERY", 0)
        for columns, expected in (("80", ": src/train.py"), ("65", ": ...train.py"), ("55", "programs")):
            monkeypatch.setenv("COLUMNS", columns)
            screen = Terminal()
            progress.Progress(screen, wanted=True)(12, 100, "src/train.py")
            assert screen.getvalue().endswith(expected)
            assert len(screen.getvalue().removeprefix("\r\x1b[K")) < int(columns)

    def test_a_name_steers_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(progress, "_PATIENCE", 0)
        monkeypatch.setenv("COLUMNS", "100")
        screen = Terminal()
        progress.Progress(screen, wanted=True)(1, 2, "a\x1b[31m\n.py")
        assert screen.getvalue().endswith(": a\\x1b[31m\\n.py")

    def test_a_single_program_that_takes_long(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(progress, "_PATIENCE", 0.01)
        screen = Terminal()
        before = signal.getsignal(signal.SIGALRM)
        with progress.Progress(screen, wanted=True) as bar:
            bar._next = math.inf  # nobody calls once it takes long
            bar(0, 1, "train.py")
            while "0 of 1 programs: train.py" not in screen.getvalue():
                signal.pause()
        assert screen.getvalue().endswith("\r\x1b[K")
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
        signal.signal(signal.SIGALRM, before)
