"""gpudoctor from Python: the answers of the command line, and nothing of the process changed."""

from __future__ import annotations

import ast
import gc
import os
import signal
import sys
import threading
import warnings
from pathlib import Path

from gpudoctor import api
from gpudoctor.api import Outcome, Session, lint_text, pack
from tests.support.sources import sources

ROOT = Path(__file__).parents[1]
PROGRAMS = sorted((ROOT / "fixtures" / "rules").rglob("bad_*.py"))[:40:5]


def seen(outcome: Outcome) -> object:
    assert not outcome.failures
    return [repr(each) for each in outcome.findings], outcome.partly, outcome.unread, outcome.programs


def test_two_threads_answer_as_one_does() -> None:
    session = Session(config=None)
    alone = [seen(session.lint_paths([path])) for path in PROGRAMS]
    assert any(findings for findings, *_ in alone)  # type: ignore[misc]
    together: dict[int, list[object]] = {0: [], 1: []}

    def work(number: int) -> None:
        order = PROGRAMS if number else PROGRAMS[::-1]
        mine = Session(config=None)
        together[number] += [seen(mine.lint_paths([path])) for path in order * 2]

    before = state_of_process()
    threads = [threading.Thread(target=work, args=(number,)) for number in together]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == {0: alone[::-1] * 2, 1: alone * 2}
    assert state_of_process() == before


def state_of_process() -> object:
    collector = gc.isenabled(), gc.get_threshold(), gc.get_freeze_count()
    return sys.getrecursionlimit(), collector, signal.getsignal(signal.SIGVTALRM), os.getcwd(), list(warnings.filters)


def test_a_text_counts_instead_of_the_file(tmp_path: Path, capfd) -> None:
    bad = next(path for path in PROGRAMS if seen(Session(config=None).lint_paths([path]))[0])  # type: ignore[index]
    there = tmp_path / "train.py"
    there.write_text("import torch\n")
    before = state_of_process()
    assert lint_text(bad.read_text(), there, config=None).findings
    assert lint_text(bad.read_text(), tmp_path / "new.py", config=None).findings
    assert not lint_text("import torch\n", there, config=None).findings
    assert there.read_text() == "import torch\n"
    assert state_of_process() == before
    assert capfd.readouterr() == ("", "")


def test_a_pack_can_import_what_the_built_in_rules_do() -> None:
    offered = {*api.__all__, *pack.__all__}
    lacking = [
        f"{source.shown}: {alias.name}"
        for source in sources().values()
        if source.name.startswith("gpudoctor_rules")
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gpudoctor.")
        # What a run has recorded is asked for through `recording`.
        if not (node.module or "").startswith("gpudoctor.run.recording")
        for alias in node.names
        if alias.name not in offered
    ]
    assert not lacking
