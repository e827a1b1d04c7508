"""A file is replaced as a whole or not at all, and nothing is left beside it: neither now nor by who was killed."""

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpudoctor import cli
from gpudoctor.cli.output import write_file
from gpudoctor.drafts import remove_drafts, replace_file
from gpudoctor.lint.source.atomic_write import write_bytes
from gpudoctor.lint.source.file_queries import digest_of

posix = pytest.mark.skipif(os.name == "nt", reason="there are no such locks")
as_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="gives files away")
WRONG = (
    "import torch\nfrom torch.utils.data import DataLoader, RandomSampler\ndata = torch.randn(8, 2)\n"
    "loader = DataLoader(data, sampler=RandomSampler(data), shuffle=True)\n"
)
KILLED = (
    "import os, signal, sys\nos.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
    "from gpudoctor import cli\nsys.exit(cli.main(sys.argv[1:]))"
)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("writes", ["a report", "a program"])
def test_an_interrupt_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: str) -> None:
    file = tmp_path / "train.py"
    file.write_bytes(b"old")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    write = {
        "a report": lambda: write_file(str(file), "new"),
        "a program": lambda: write_bytes(str(file), b"new", digest_of(b"old")),
    }
    with pytest.raises(KeyboardInterrupt):
        write[writes]()
    assert names(tmp_path) == ["train.py"]
    assert file.read_bytes() == b"old"


@posix
def test_who_asks_to_end_waits_for_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "report.json"
    replace = os.replace
    seen: list[str] = []
    before = signal.signal(signal.SIGTERM, lambda *_: seen.extend(names(tmp_path)))

    def ended(old: str, new: str) -> None:
        # To this thread: what is sent to the process may go to a thread of the test runner, which blocks nothing.
        signal.raise_signal(signal.SIGTERM)
        replace(old, new)

    monkeypatch.setattr(os, "replace", ended)
    try:
        write_file(str(file), "new")
    finally:
        signal.signal(signal.SIGTERM, before)
    assert seen == ["report.json"]


@posix
@pytest.mark.parametrize(
    "arguments",
    [
        ("lint", "--no-cache", "--fix", "train.py"),
        ("lint", "--no-cache", "--add-ignores", "train.py"),
        ("lint", "--no-cache", "--output-file", "report.txt", "train.py"),
    ],
    ids=lambda each: each[2],
)
def test_the_next_run_clears_what_a_killed_one_has_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(WRONG)
    Path("report.txt").touch()
    killed = subprocess.run([sys.executable, "-c", KILLED, *arguments], capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert len(names(tmp_path)) == 3
    assert Path("train.py").read_text() == WRONG
    cli.main(list(arguments))
    assert names(tmp_path) == ["report.txt", "train.py"]


def _ended() -> int:
    """The number of a process that is gone."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@posix
def test_what_is_no_draft_of_ours_stays(tmp_path: Path) -> None:
    gone = _ended()
    others = [f"train.py.{gone}.tmp", f"train.py.gpudoctor-{gone}.tmp.py", f"train.py.gpudoctor-{os.getpid()}.tmp"]
    for name in (*others, "notes.txt", f"left.gpudoctor-{gone}.tmp"):
        (tmp_path / name).write_text("x")
    (tmp_path / f"link.gpudoctor-{gone}.tmp").symlink_to("notes.txt")
    (tmp_path / f"folder.gpudoctor-{gone}.tmp").mkdir()
    os.mkfifo(tmp_path / f"pipe.gpudoctor-{gone}.tmp")
    if os.geteuid() == 0:
        (tmp_path / f"theirs.gpudoctor-{gone}.tmp").write_text("x")
        os.chown(tmp_path / f"theirs.gpudoctor-{gone}.tmp", 65534, 65534)
    before = names(tmp_path)
    remove_drafts([str(tmp_path)])
    before.remove(f"left.gpudoctor-{gone}.tmp")
    assert names(tmp_path) == before


@posix
def test_a_draft_that_is_being_written_stays_in_whichever_container(tmp_path: Path) -> None:
    import fcntl

    draft = tmp_path / f"train.py.gpudoctor-{_ended()}.tmp"
    with draft.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        remove_drafts([str(tmp_path)])
        assert draft.exists()
    remove_drafts([str(tmp_path)])
    assert not draft.exists()


@posix
def test_a_number_that_another_process_has_now_keeps_no_draft(tmp_path: Path) -> None:
    draft = tmp_path / f"train.py.gpudoctor-{os.getpid()}.tmp"
    draft.write_text("x")
    os.utime(draft, (time.time() - 7200,) * 2)
    remove_drafts([str(tmp_path)])
    assert not draft.exists()


@posix
@as_root
@pytest.mark.parametrize("how", ["program", "report"])
def test_owner_and_mode_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / ("train.py" if how == "program" else "report.txt")
    (tmp_path / "train.py").write_text(WRONG)
    file.touch()
    os.chown(file, 65534, 65533)
    file.chmod(0o640)
    option = ["--fix"] if how == "program" else ["--output-file", "report.txt"]
    cli.main(["lint", "--no-cache", *option, "train.py"])
    status = file.stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (65534, 65533, 0o640)
    assert file.read_text() not in (WRONG, "")


@posix
def test_a_new_file_has_the_mode_of_new_files(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        replace_file(str(tmp_path / "new"), b"new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
