"""What is marked as fixable is what can be fixed, and finding it out costs no second execution of a large program."""

import json
import re
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from gpudoctor import cli
from gpudoctor.diagnostic import Finding, Fix, Location, Safety, Severity
from gpudoctor.lint.entries import judge_entry, started_entry
from gpudoctor.record import replace
from gpudoctor.report.fixable import fixable
from tests.support.fixture_marks import FOLDERS, label_of

RULES = Path(__file__).resolve().parent.parent.parent / "fixtures" / "rules"
HEAD = re.compile(r"^(\S+:\d+:\d+): \w+: (GPU\d+) (?:(\[.\]) )?", re.MULTILINE)
MARKS = {"safe": "[*]", "unsafe": "[!]", None: ""}
PROGRAMS = [
    path
    for code in ("GPU205", "GPU210", "GPU214", "GPU302", "GPU303", "GPU501", "GPU601", "GPU709")
    for path in sorted((RULES / FOLDERS[code]).glob("bad_*.py"))[:2]
    if not path.name.endswith(".fixed.py")
]

NEVER_CLEARED = RULES / FOLDERS["GPU709"] / "bad_page.py"

Lint = Callable[..., tuple[str, str]]


@pytest.fixture
def lint(capsys: pytest.CaptureFixture[str]) -> Lint:
    def call(*arguments: str) -> tuple[str, str]:
        cli.main(["lint", *arguments])
        shown = capsys.readouterr()
        return shown.out, shown.err

    return call


def marks(text: str) -> dict[tuple[str, str], str]:
    return {(place, code): mark for place, code, mark in HEAD.findall(text)}


@pytest.mark.parametrize("program", PROGRAMS, ids=label_of)
def test_marks_are_true(lint: Lint, program: Path) -> None:
    found = json.loads(lint("--no-cache", "--output-format=json", str(program))[0])["findings"]
    fixes = {
        (f"{each['path']}:{each['line']}:{each['column']}", each["code"]): MARKS[each["fix"] and each["fix"]["safety"]]
        for each in found
    }
    for form in ("concise", "full"):
        out, err = lint("--no-cache", f"--output-format={form}", str(program))
        assert marks(out) == fixes
        for mark in ("[*]", "[!]"):
            number = list(fixes.values()).count(mark)
            assert (f"{mark} {number} " in err) == bool(number)


def test_the_cache_knows_it(lint: Lint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUDOCTOR_CACHE_DIR", str(tmp_path))
    program = str(next(iter((RULES / FOLDERS["GPU302"]).glob("bad_*.py"))))
    for limit in (0, 1000):
        monkeypatch.setattr(judge_entry, "_QUICKLY_DONE_AGAIN", limit)
        fresh, again = lint("--output-format=concise", program), lint("--output-format=concise", program)
        assert fresh == again
        monkeypatch.setenv("GPUDOCTOR_CACHE_DIR", str(tmp_path / "other"))


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What was executed on paper."""
    seen: list[object] = []

    def count(execute: Callable[..., object]) -> Callable[..., object]:
        def counted(*arguments: object) -> object:
            seen.append(arguments)
            return execute(*arguments)

        return counted

    for name in ("programs_of", "with_names"):
        monkeypatch.setattr(started_entry, name, count(getattr(started_entry, name)))
    return seen


def test_a_program_is_executed_again_only_where_a_mark_hangs_on_names(lint: Lint, executed: list[object]) -> None:
    # A guard that has other words where no name holds the rank.
    lint("--no-cache", "--select=GPU601", str(RULES / FOLDERS["GPU601"] / "bad_end_of_epoch.py"))
    assert len(executed) == 1
    # The sampler has a name, or there is no fix.
    lint("--no-cache", "--select=GPU302", str(RULES / FOLDERS["GPU302"] / "bad_while_epochs.py"))
    assert len(executed) == 3


def test_the_name_at_the_place_itself_needs_no_second_execution(lint: Lint, executed: list[object]) -> None:
    out, _ = lint("--no-cache", "--output-format=concise", "--select=GPU709", str(NEVER_CLEARED))
    assert "GPU709 [!] " in out
    assert len(executed) == 1


def test_a_large_program_is_not_executed_again(
    lint: Lint, executed: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge_entry, "_QUICKLY_DONE_AGAIN", 0)
    named = RULES / FOLDERS["GPU302"] / "bad_while_epochs.py"
    out, err = lint("--no-cache", "--output-format=concise", "--select=GPU302", str(named))
    assert "GPU302 [?] " in out
    assert "[?] up to 1 fixable: `--diff" in err
    assert len(executed) == 1
    # What needs no names is known without.
    plain = next(
        path for path in sorted((RULES / FOLDERS["GPU303"]).glob("bad_*.py")) if not path.name.endswith(".fixed.py")
    )
    out, _ = lint("--no-cache", "--output-format=concise", "--select=GPU303", str(plain))
    assert "GPU303 [*] " in out
    assert len(executed) == 2


def test_a_bug_in_a_fix_hides_nothing(lint: Lint, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: object) -> None:
        raise KeyError("a bug of ours")

    monkeypatch.setattr("gpudoctor.lint.fix.fixes.Fixes", crash)
    out, err = lint("--no-cache", "--output-format=concise", str(RULES / FOLDERS["GPU302"] / "bad_while_epochs.py"))
    assert "GPU302 missing-set-epoch: " in out
    assert "bug" not in err


def test_what_was_tried_in_vain_is_not_promised(lint: Lint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "train.py"
    program.write_text(
        (RULES / FOLDERS["GPU302"] / "bad_while_epochs.py").read_text(encoding="utf-8"), encoding="utf-8"
    )
    monkeypatch.setattr("gpudoctor.lint.fix_loop._is_better", lambda *_: False)
    out, err = lint("--no-cache", "--select=GPU302", "--fix", "--unsafe-fixes", str(program))
    assert "GPU302 missing-set-epoch" in out
    assert "fixable" not in err


def test_what_waits_for_another_fix_is_counted(lint: Lint, tmp_path: Path) -> None:
    """As many as are fixed then: the process group first, and what needs it after that."""
    guide = (RULES.parent.parent / "gpudoctor" / "guides" / "scaling.md").read_text(encoding="utf-8")
    program = tmp_path / "train.py"
    program.write_text(textwrap.dedent(guide.partition("for one GPU\n\n")[2].partition("## What changes")[0]))
    options = ("--no-cache", "--launch=torchrun", str(program))
    err = lint(*options)[1]
    assert "[!] 1 fixable with `--fix --unsafe-fixes`, [?] up to 4 more: `--diff --unsafe-fixes` shows which." in err
    err = lint("--fix", "--unsafe-fixes", *options)[1]
    assert (err.count(" fixed: "), "fixable" in err) == (5, False)


def test_the_line() -> None:
    bare = Finding("GPU301", "a-rule", Severity.ERROR, "It happens.", Location("train.py", 1))
    safe, unsafe = (replace(bare, fix=Fix(safety, "Mend it", ())) for safety in (Safety.SAFE, Safety.UNSAFE))
    perhaps = replace(bare, unwritten=Safety.UNSAFE)
    assert fixable([bare]) == ""
    assert fixable([bare, safe, safe]) == "[*] 2 fixable with `--fix`."
    assert fixable([unsafe]) == "[!] 1 fixable with `--fix --unsafe-fixes`."
    assert fixable([safe, unsafe, perhaps]) == (
        "[*] 1 fixable with `--fix`, [!] 1 more fixable with `--fix --unsafe-fixes`, "
        "[?] up to 1 more: `--diff --unsafe-fixes` shows which."
    )
    assert fixable([safe, unsafe], unsafe=True) == "[*] [!] 2 fixable with `--fix`."
    assert fixable([unsafe], unsafe=True) == "[!] 1 fixable with `--fix`."


def test_fixes_that_take_for_ever_hide_nothing(lint: Lint, monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(*_: object, **__: object) -> None:
        while True:
            pass

    monkeypatch.setattr(started_entry, "MAX_ALL_SECONDS", 0.3)
    monkeypatch.setattr(started_entry, "MIN_PART_SECONDS", 0.1)
    monkeypatch.setattr("gpudoctor.lint.fix.fixes.with_fixes", hang)
    program = str(RULES / FOLDERS["GPU302"] / "bad_while_epochs.py")
    out, err = lint("--no-cache", "--output-format=concise", program)
    assert "GPU302 missing-set-epoch: " in out
    assert "bug" not in err
