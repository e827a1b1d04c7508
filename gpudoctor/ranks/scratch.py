"""Folders for temporary files of our own: gone afterwards, or at the next start where nobody was left to do it."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from gpudoctor.errors import UsageError

_OWNER = "owner-"


@contextlib.contextmanager
def scratch(prefix: str) -> Iterator[Path]:
    """A folder of our own that is gone afterwards, with those of this name whose owners were killed before that."""
    remove_orphans(temporary_folder(), prefix)
    try:
        folder = tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True)
    except OSError as error:
        raise no_folder(error.strerror) from error
    with folder as name, owned(Path(name)):
        yield Path(name)


def temporary_folder() -> Path:
    """Where temporary files are made; a UsageError where that is nowhere."""
    try:
        return Path(tempfile.gettempdir())
    except OSError as error:
        raise no_folder(error.strerror) from error


def no_folder(why: str | None) -> UsageError:
    """What to say where no temporary file can be made."""
    return UsageError(f"no folder for temporary files can be written: set TMPDIR ({why})")


@contextlib.contextmanager
def owned(folder: Path) -> Iterator[None]:
    """Hold a lock that the kernel gives back when this process ends, however it does. Several may hold one each."""
    mine = folder / f"{_OWNER}{os.getpid()}"
    # Under another name until it is locked: who looks in between must not find a lock that nobody holds.
    unlocked = folder / f".{mine.name}"
    with contextlib.ExitStack() as opened:
        try:
            file = opened.enter_context(unlocked.open("wb"))
            _locked(file.fileno())
            unlocked.rename(mine)
        except OSError as error:
            raise no_folder(error.strerror) from error
        yield


def remove_orphans(parent: Path, prefix: str) -> None:
    """Remove the folders of this user of which no owner lives any more, also those that other containers left."""
    for folder in parent.glob(f"{prefix}*"):
        with contextlib.suppress(OSError):
            status = folder.lstat()
            # One that is being made has no lock yet, and one of somebody else is not ours to remove.
            if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and _is_orphan(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _is_orphan(folder: Path) -> bool:
    owners = list(folder.glob(f"{_OWNER}*"))
    return bool(owners) and all(map(_is_free, owners))


def _is_free(owner: Path) -> bool:
    with owner.open("rb") as file:
        return _locked(file.fileno())


def _locked(descriptor: int) -> bool:
    try:
        import fcntl
    except ImportError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
