"""gpudoctor from Python: the answers of the command line, and nothing of the process changed."""

import ast
import gc
import os
import shutil
import signal
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import pytest

from gpudoctor import api
from gpudoctor.api import LintOptions, NotWritten, Outcome, Session, UsageError, lint_paths, lint_text, pack, write
from tests.support.sources import sources

ROOT = Path(__file__).parents[1]
PROGRAMS = sorted((ROOT / "fixtures" / "rules").rglob("bad_*.py"))[:40:5]
BAD = ROOT / "fixtures" / "rules" / "data" / "missing_set_epoch" / "bad_page.py"


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
    text = BAD.read_text()
    there = tmp_path / "train.py"
    there.write_text("import torch\n")
    before = state_of_process()
    assert lint_text(text, there, config=None).findings
    assert lint_text(text, tmp_path / "new.py", config=None).findings
    assert not lint_text("import torch\n", there, config=None).findings
    assert there.read_text() == "import torch\n"
    assert state_of_process() == before
    assert capfd.readouterr() == ("", "")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a program that makes a mistake."""
    shutil.copy(BAD, tmp_path / "train.py")
    return tmp_path


def with_baseline(folder: Path) -> LintOptions:
    return LintOptions(jobs=1, cache=False, baseline=str(folder / "known.json"))


def test_a_baseline_is_written_and_read(project: Path, capfd) -> None:
    options = with_baseline(project)
    found = lint_paths([project], config=None).findings
    assert found
    with Session(options, config=None) as session:
        with pytest.raises(UsageError, match=r"baseline .*known\.json: cannot be read"):
            session.lint_paths([project])
        recorded = session.update_baseline([project])
        assert (recorded.findings, recorded.known) == ((), found)
        again = session.lint_paths([project])
        assert (again.findings, again.known, again.gone) == ((), found, 0)
        # A text in an editor is compared with what its file was known for.
        text = (project / "train.py").read_text()
        assert session.lint_text("\n\n" + text, project / "train.py").known
        shutil.copy(project / "train.py", project / "other.py")
        assert {Path(each.location.path).name for each in session.lint_paths([project]).findings} == {"other.py"}
        (project / "train.py").write_text("import torch\n")
        assert session.lint_paths([project / "train.py"]).gone == len(found)
    assert capfd.readouterr() == ("", "")


def test_a_baseline_is_not_written_of_what_was_not_read(project: Path) -> None:
    answer = Session(with_baseline(project), config=None).update_baseline([project, project / "missing"])
    assert answer.findings
    assert answer.problems
    assert not (project / "known.json").exists()
    with pytest.raises(UsageError, match="give options with `baseline`"):
        Session(config=None).update_baseline([project])


def test_only_changed_lines_count(project: Path) -> None:
    for command in (["init", "-q"], ["add", "."], ["-c", "user.name=x", "-c", "user.email=x@y", "commit", "-qm", "x"]):
        subprocess.run(["git", *command], cwd=project, check=True, timeout=600)
    train = project / "train.py"
    with Session(LintOptions(jobs=1, cache=False, since="HEAD"), config=None) as session:
        assert not session.lint_paths([project]).findings
        # The text in the editor is compared, whatever the file holds; all of a new file is new.
        changed = train.read_text().replace(" in loader", "  in loader")
        assert changed != train.read_text()
        assert session.lint_text(changed, train).findings
        assert not session.lint_text("\n" + train.read_text(), train).findings
        assert session.lint_text(train.read_text(), project / "new.py").findings
    with pytest.raises(UsageError, match="since nowhere: git knows no such revision"):
        lint_paths([project], LintOptions(jobs=1, cache=False, since="nowhere"), config=None)


def test_what_fixes_and_comments_would_make_of_a_file(project: Path, capfd) -> None:
    train = project / "train.py"
    before = train.read_bytes()
    with Session(config=None) as session:
        (commented,) = session.silence([train])
        fixed = session.fix([train])
        assert {each.code for each in fixed.done} == {"GPU302"}
        assert train.read_bytes() == commented.before == before
        assert b"# gpudoctor: ignore[GPU302]" in commented.after
        (change,) = fixed.changes
        write(change)
        assert "sampler.set_epoch(epoch)" in train.read_text()
        assert "GPU302" not in {each.code for each in session.lint_paths([train]).findings}
        # What was read is there no more.
        with pytest.raises(NotWritten, match="changed meanwhile"):
            write(commented)
    with pytest.raises(UsageError, match="fixes are made of all"):
        Session(with_baseline(project), config=None).fix([train])
    assert capfd.readouterr() == ("", "")


def test_sessions_in_two_threads_share_a_baseline(tmp_path: Path) -> None:
    """Each records its own file, again and again; none loses what the other has written, and each hides its own."""
    folder, answers = tmp_path, {}
    for name in ("one", "two"):
        shutil.copy(BAD, folder / f"{name}.py")

    def work(name: str) -> None:
        own = Session(with_baseline(folder), config=None)
        recorded = [own.update_baseline([folder / f"{name}.py"]) for _ in range(6)]
        with Session(config=None) as plain:
            answers[name] = [*recorded, own.lint_paths([folder / f"{name}.py"])], plain.lint_paths([folder])

    threads = [threading.Thread(target=work, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for known, shown in answers.values():
        assert all(each.known and not each.findings for each in known)
        assert {Path(each.location.path).stem for each in shown.findings} == {"one", "two"}
    assert not Session(with_baseline(folder), config=None).lint_paths([folder]).findings


def test_the_example_of_the_documentation_runs(project: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    text = (ROOT / "docs" / "lint.md").read_text(encoding="utf-8")
    (example,) = (each.partition("```")[0] for each in text.split("```python\n")[1:] if "gpudoctor.api" in each[:200])
    monkeypatch.chdir(project)
    (project / "src").mkdir()
    shutil.copy(BAD, project / "src")
    exec(example.replace(', since="origin/main"', ""))
    assert "bad_page.py 16 GPU302" in capsys.readouterr().out


def test_a_pack_can_import_what_the_built_in_rules_do() -> None:
    """That, and no more: what a rule asks, values and events answer, and so they do for packs."""
    imported = {
        alias.name: source.shown
        for source in sources().values()
        if source.name.startswith("gpudoctor_rules")
        for node in source.nodes
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gpudoctor.")
        # What a run has recorded is asked for through `recording`.
        if not (node.module or "").startswith("gpudoctor.run.recording")
        for alias in node.names
    }
    offered = {name for name in vars(pack) if not name.startswith("__")}
    assert not {name: file for name, file in imported.items() if name not in {*api.__all__, *offered}}
    assert offered - imported.keys() == {"recording"}


def test_texts_count_instead_of_files_wherever_they_are_read(tmp_path: Path) -> None:
    text = BAD.read_text()
    train, helper = tmp_path / "train.py", tmp_path / "helper.py"
    helper.write_text("def begin(sampler, epoch):\n    pass\n")
    calling = text.replace("    for x, y", "    begin(sampler, epoch)\n    for x, y", 1)
    assert calling != text
    calling = "from helper import begin\n" + calling
    fixed = {helper: "def begin(sampler, epoch):\n    sampler.set_epoch(epoch)\n"}
    with Session(config=None, remember=True) as session:
        for _ in range(2):
            # The program is not there yet, and what it imports is not written yet.
            assert [each.code for each in session.lint_paths([train], texts={train: calling}).findings] == ["GPU302"]
            assert not session.lint_paths([train], texts={train: calling, **fixed}).findings


def test_a_text_is_fixed_among_others(tmp_path: Path) -> None:
    train = tmp_path / "train.py"
    text = "\n" + BAD.read_text()
    train.write_text("import torch\n")
    with Session(config=None, remember=True) as session:
        (change,) = session.fix([train], texts={train: text, tmp_path / "other.py": "import torch\n"}).changes
        assert change.before == text.encode()
        assert b"set_epoch(" in change.after
        assert not session.lint_paths([train], texts={train: change.after}).findings
    assert train.read_text() == "import torch\n"


def test_a_session_remembers_programs_of_which_nothing_has_changed(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("one.py", "two.py")]
    texts = {path: BAD.read_text() for path in paths}
    with Session(config=None, remember=True) as session:
        first = session.lint_paths(paths, texts=texts)
        assert len(first.findings) == 2
        results = session._memory.results
        before = {id(each) for each in results.values()}
        changed = session.lint_paths(paths, texts={**texts, paths[0]: "import torch\n"})
        assert [Path(each.location.path).name for each in changed.findings] == ["two.py"]
        assert len({id(each) for each in results.values()} & before) >= 1
        assert seen(session.lint_paths(paths, texts=texts)) == seen(first)
        # A text goes before what is written, also where that was linted before.
        paths[0].write_text(BAD.read_text())
        assert len(session.lint_paths(paths[:1]).findings) == 1
        assert not session.lint_paths(paths[:1], texts={paths[0]: "import torch\n"}).findings
