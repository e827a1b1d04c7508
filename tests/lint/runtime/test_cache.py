"""Results of an earlier run are used where nothing that decides them has changed, and nowhere else."""

import os
import signal
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpudoctor.diagnostic import Edit, Finding, Fix, Location, Related, Safety, SeenIn, Severity
from gpudoctor.lint import pipeline
from gpudoctor.lint.entries import started_entry
from gpudoctor.lint.events.program_facts import EngineUser, ProgramFacts
from gpudoctor.lint.request import Outcome, Request
from gpudoctor.lint.runtime import cache as kept
from gpudoctor.lint.runtime.entry_result import EntryResult
from gpudoctor.lint.source.file import Unreadable
from gpudoctor.manifest import compiled
from gpudoctor.record import replace
from gpudoctor.registry import find_rules

TRAIN = """
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from model import make

def main():
    dist.init_process_group("nccl")
    model = make()
    DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.ones(1, 1).cuda()).sum().backward()
    optimizer.step()

if __name__ == "__main__":
    main()
"""
MODEL = "import torch\n\ndef make():\n    return torch.nn.Linear(1, 1).cuda()\n"
RULES = find_rules().cards


class Project:
    """A small project, and how often its entries were executed."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.executed: list[str] = []
        run = started_entry.programs_of

        def counted(entry, *rest):
            self.executed.append(entry.source.shown)
            return run(entry, *rest)

        monkeypatch.setattr(started_entry, "programs_of", counted)
        monkeypatch.chdir(folder)
        self.write("train.py", TRAIN)
        self.write("model.py", MODEL)
        self.write("pyproject.toml", "")

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def lint(self, *paths: str, **settings) -> Outcome:
        """Lint, with the findings of all rules."""
        settings = {"rules": RULES, "known": RULES, "cache": kept.cache_folder(), **settings}
        self.executed.clear()
        return pipeline.lint(Request(paths=paths or ("train.py",), **settings))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    folder = tmp_path / "project"
    folder.mkdir()
    return Project(folder, monkeypatch)


def test_a_second_run_executes_nothing_and_says_the_same(project: Project):
    first = project.lint()
    assert first.findings
    assert project.executed == ["train.py"]
    second = project.lint()
    assert project.executed == []
    assert (second.findings, second.files, second.read) == (first.findings, first.files, first.read)


CHANGES: dict[str, Callable[[Project], object]] = {
    "the entry": lambda it: it.write("train.py", TRAIN + "\n"),
    "a helper": lambda it: it.write("model.py", MODEL.replace(".cuda()", "")),
    "a helper is gone": lambda it: (it.folder / "model.py").unlink(),
    "a module comes before a helper": lambda it: it.write("model/__init__.py", MODEL),
    "a helper cannot be read any more": lambda it: it.write("model.py", "def ("),
    "a helper is a link to elsewhere": lambda it: (
        it.write("other.py", "make = None\n")
        or (it.folder / "model.py").unlink()
        or (it.folder / "model.py").symlink_to("other.py")
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_after_a_change_the_entry_is_executed_again(project: Project, change: Callable[[Project], object]):
    project.lint()
    change(project)
    again = project.lint().findings
    assert project.executed == ["train.py"]
    assert again == project.lint(cache="").findings


def test_a_file_that_was_looked_for_in_vain_is_noticed(project: Project):
    project.write("train.py", TRAIN.replace("from model import make", "from unheard_of import make"))
    project.lint()
    project.write("unheard_of.py", MODEL)
    project.lint()
    assert project.executed == ["train.py"]
    assert any(finding.code == "GPU103" for finding in project.lint().findings)


def test_what_has_no_part_in_the_entry_does_not_matter(project: Project):
    project.lint()
    project.write("other.py", "x = 1\n")
    project.write("runs/log.txt", "")
    project.lint()
    assert project.executed == []


def test_other_settings_have_results_of_their_own(project: Project, monkeypatch: pytest.MonkeyPatch):
    project.lint()
    for settings in ({"launch": "single"}, {"rules": RULES[:5]}):
        project.lint(**settings)
        assert project.executed == ["train.py"]
    monkeypatch.chdir(project.folder.parent)
    found = project.lint("project/train.py").findings
    assert all(finding.location.path.startswith("project/") for finding in found)
    assert project.executed == ["project/train.py"]


def test_another_version_of_gpudoctor_starts_anew(project: Project, monkeypatch: pytest.MonkeyPatch):
    project.lint()
    monkeypatch.setattr(kept, "__version__", "other")
    project.lint()
    assert project.executed == ["train.py"]


def test_an_edit_of_a_stub_starts_anew(project: Project, monkeypatch: pytest.MonkeyPatch):
    project.lint()
    monkeypatch.setitem(compiled.table(), "stamp", 1)
    project.lint()
    assert project.executed == ["train.py"]


def test_an_edit_of_gpudoctor_itself_starts_anew(tmp_path: Path):
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / "rule.py").write_text("a = 1\n")
    before = list(kept._stamps(str(tmp_path)))
    os.utime(tmp_path / "part" / "rule.py", (1, 1))
    assert before != list(kept._stamps(str(tmp_path)))


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[: len(text) // 2],
        lambda text: text.replace("wrapper-discarded", "wrapper-discorded"),
        lambda text: "0" * len(text),
        lambda text: _signed("[]"),
        lambda text: _signed('[[], {"EntryResult": ["train.py"]}]'),
        lambda text: _signed('[[], {"Program": []}]'),
        lambda text: _signed("[" * 100_000),
        lambda text: text.encode().replace(b"wrapper", b"\xff\xfe\xfd").decode("utf-8", "surrogateescape"),
    ],
)
def test_a_damaged_result_counts_as_none(project: Project, damage: Callable[[str], str]):
    expected = project.lint().findings
    for file in Path(kept.cache_folder()).iterdir():
        file.write_text(damage(file.read_text()), encoding="utf-8", errors="surrogateescape")
    assert project.lint().findings == expected
    assert project.executed == ["train.py"]
    project.lint()
    assert project.executed == []


def _signed(text: str) -> str:
    return f"{kept.digest_of(text.encode())}\n{text}"


def test_where_nothing_can_be_written_nothing_is_kept(project: Project, monkeypatch: pytest.MonkeyPatch):
    # A file in place of the folder stops also a superuser, whom permissions do not.
    blocked = project.folder / "blocked"
    blocked.write_text("")
    for folder in (blocked, blocked / "below"):
        monkeypatch.setenv("GPUDOCTOR_CACHE_DIR", str(folder))
        assert project.lint().findings
        assert project.lint().findings
        assert project.executed == ["train.py"]


def test_a_folder_that_is_read_only_does_no_harm(project: Project):
    folder = Path(kept.cache_folder())
    folder.mkdir(parents=True)
    folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        assert project.lint().findings == project.lint().findings
    finally:
        folder.chmod(stat.S_IRWXU)


def test_without_a_folder_nothing_is_kept(project: Project):
    project.lint(cache="")
    project.lint(cache="")
    assert project.executed == ["train.py"]
    assert not os.path.exists(kept.cache_folder())


def test_old_results_make_room(project: Project, monkeypatch: pytest.MonkeyPatch):
    project.lint()
    folder = Path(kept.cache_folder())
    (only,) = folder.iterdir()
    old = folder / ("0" * 32)
    old.write_text("x" * 1000)
    os.utime(old, (1, 1))
    monkeypatch.setattr(kept, "MAX_BYTES", only.stat().st_size + 500)
    monkeypatch.setattr(kept, "_KEPT_OF_FULL", 1)
    project.write("train.py", TRAIN + "\n\n")
    project.lint()
    assert [file.name for file in folder.iterdir()] == [only.name]


def test_making_room_takes_nothing_that_is_not_ours(project: Project, monkeypatch: pytest.MonkeyPatch):
    shared = project.folder.parent / "shared"
    monkeypatch.setenv("GPUDOCTOR_CACHE_DIR", str(shared))
    monkeypatch.setattr(kept, "MAX_BYTES", 1)
    inside = Path(kept.cache_folder())
    elsewhere = project.folder.parent / "elsewhere.dat"
    for file in (shared / "thesis.dat", shared / ("1" * 32), inside / "notes.txt", inside / ("a" * 40), elsewhere):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x" * 1000)
        os.utime(file, (1, 1))
    (inside / ("b" * 32)).symlink_to(elsewhere)
    (inside / ("c" * 32)).mkdir()
    before = _tree(project.folder.parent)
    project.lint()
    assert before <= _tree(project.folder.parent)


def _plant(what: str, entry: Path) -> None:
    """A well-formed result in place of the one that was kept, such as somebody else could put there."""
    asked, result = kept._result_of(entry.read_text())
    entry.unlink()
    forged = kept._text_of(replace(result, asked=asked, findings=()))
    if what == "a pipe":
        os.mkfifo(entry)
        return
    if what == "a link":
        (entry.parent / "theirs").write_text(forged)
        entry.symlink_to("theirs")
        return
    entry.write_text(forged)
    if what == "another owner":
        os.chown(entry, 65534, 65534)
    elif what == "another owner's folder":
        os.chown(entry.parent, 65534, 65534)
    else:
        (entry if what == "a file for all" else entry.parent).chmod(0o777)


@contextmanager
def _at_most(seconds: int) -> Iterator[None]:
    """Who waits for a pipe waits for ever."""

    def late(*_: object) -> None:
        pytest.fail("it waits")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


_AS_ROOT = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="gives files away")


@pytest.mark.skipif(os.name == "nt", reason="there are no owners and no modes")
@pytest.mark.parametrize(
    "what",
    [
        "a pipe",
        "a link",
        "a file for all",
        "a folder for all",
        pytest.param("another owner", marks=_AS_ROOT),
        pytest.param("another owner's folder", marks=_AS_ROOT),
    ],
)
def test_a_result_counts_only_where_nobody_else_could_write_it(project: Project, what: str):
    expected = project.lint().findings
    (entry,) = Path(kept.cache_folder()).iterdir()
    _plant(what, entry)
    with _at_most(30):
        assert project.lint().findings == expected
    assert project.executed == ["train.py"]


@pytest.mark.skipif(os.name == "nt", reason="there are no modes")
def test_what_is_kept_is_the_users_alone_whatever_the_mask(project: Project):
    before = os.umask(0)
    try:
        project.lint()
    finally:
        os.umask(before)
    folder = Path(kept.cache_folder())
    assert [stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.iterdir())] == [0o700, 0o600]


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="they have another place")
def test_a_relative_cache_home_is_ignored(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("GPUDOCTOR_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "caches")
    assert kept.cache_folder() == os.path.expanduser("~/.cache/gpudoctor/results")


def test_what_a_killed_run_left_unfinished_goes(project: Project):
    folder = Path(kept.cache_folder())
    folder.mkdir(parents=True)
    old, fresh = folder / f"{'0' * 32}.123", folder / f"{'1' * 32}.123"
    for file in (old, fresh):
        file.write_text("x")
        file.chmod(0o600)
    os.utime(old, (1, 1))
    project.lint()
    assert (old.exists(), fresh.exists()) == (False, True)


def _tree(folder: Path) -> set[str]:
    return {str(path) for path in folder.rglob("*")}


def test_a_bug_of_ours_is_not_kept(project: Project, monkeypatch: pytest.MonkeyPatch):
    def crash(*args):
        raise KeyError("a bug")

    with monkeypatch.context() as broken:
        broken.setattr(started_entry, "programs_of", crash)
        assert project.lint().failures
    assert project.lint().findings
    assert project.executed == ["train.py"]


def test_several_entries_are_told_apart(project: Project):
    project.write("other.py", TRAIN)
    project.lint("train.py", "other.py")
    project.write("other.py", TRAIN + "\n")
    project.lint("train.py", "other.py")
    assert project.executed == ["other.py"]


def test_a_result_comes_back_as_it_was():
    at = Location("a.py", 1, 2, 3, 4)
    edit = Edit(at, "text")
    finding = Finding("GPU101", "name", Severity.PERF, "message", at, "remedy", (Related("there", at),), doubt="Why.")
    fixed = Finding(
        "GPU101", "n", Severity.ERROR, "m", at, fix=Fix(Safety.UNSAFE, "title", (edit,)), seen_in=SeenIn.RUN, world="w"
    )
    broken = Unreadable("/b.py", "b.py", 1, 2, "why", "3.13", True, False)
    asked = {("is_file", "/a.py"): True, ("plain_folders", "/"): ["/a"]}
    examined = EntryResult("a.py", (finding, fixed), frozenset({"a.py"}), (broken,), (), True, ("too long",), asked)
    back = kept._result_of(kept._text_of(examined))
    assert back == (asked, examined)


def test_what_a_program_says_of_itself_comes_back_as_it_was():
    at = Location("/a.py", 1, 2, 3, 4)
    user = EngineUser("accelerate", "Accelerator", "ds.json", (("gradient_accumulation_steps", 2), ("mode", None)), at)
    facts = ProgramFacts(group=at, options=("--epochs",), accumulation=2, accumulation_at=at, engine_users=(user,))
    examined = replace(EntryResult("a.py", (), frozenset({"a.py"}), (), (), True, (), {}), facts=facts)
    _, back = kept._result_of(kept._text_of(examined))
    assert back.facts == facts
