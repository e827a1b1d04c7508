"""What the fixes of a program cost does not grow with its length for each of them."""

from pathlib import Path

import pytest

from gpudoctor.diagnostic import Finding
from gpudoctor.lint import pipeline
from gpudoctor.lint.fix import fixes
from gpudoctor.lint.fix.rewrite import FileRewrite
from gpudoctor.lint.request import Request
from gpudoctor.registry import find_rules


def fixable(lines: int) -> str:
    return (
        "import torch\nimport torch.multiprocessing as mp\ndef main(rank): pass\n"
        + "mp.spawn(main, nprocs=2)\n" * lines
    )


def test_a_fix_in_a_long_program_writes_what_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []
    size = FileRewrite.size
    monkeypatch.setattr(FileRewrite, "size", lambda *given: written.append(size(*given)) or written[-1])
    found = linted(tmp_path, fixable(200))
    assert len(found) == 200
    assert all(each.fix for each in found)
    assert sum(written) < 2 * len(fixable(200))


def test_fixes_in_one_long_function_end_somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fixes, "MAX_REWRITTEN", 50_000)
    text = fixable(0) + "if True:\n" + "    mp.spawn(main, nprocs=2)\n" * 100
    found = linted(tmp_path, text)
    written = [each for each in found if each.fix]
    assert 10 < len(written) < 30
    # Of the others it is said that they could be fixed.
    assert all(each.unwritten for each in found if not each.fix)


def test_a_file_that_is_too_large_for_its_tree_has_no_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fixes, "MAX_CHARACTERS", len(fixable(2)))
    for fix in (True, False):
        assert [bool(each.fix) for each in linted(tmp_path, fixable(2), fix)] == [True, True]
        found = linted(tmp_path, fixable(3), fix)
        assert [(each.fix, each.unwritten) for each in found] == [(None, None)] * 3


def linted(folder: Path, text: str, fix: bool = True) -> list[Finding]:
    path = folder / "train.py"
    path.write_text(text)
    rules = find_rules().cards
    outcome = pipeline.lint(Request((str(path),), rules=rules, known=rules, fixes=fix))
    assert not outcome.failures
    return [each for each in outcome.findings if each.code == "GPU405"]
