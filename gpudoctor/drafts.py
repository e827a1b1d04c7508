"""Files that are replaced in one step: somebody who reads one sees the old text or the new one.

The new text is written to a draft beside the file, which is gone afterwards, however that ends. Where nobody was left
to remove it, the next run does: a draft has a name that nothing else has, belongs to its user, and is locked while it
is written, by a lock that the kernel gives back when the process ends.
"""

from __future__ import annotations

import os
import re
import signal
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_DRAFT = re.compile(r".+\.gpudoctor-([0-9]+)\.tmp", re.DOTALL)
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
_LONG = 3600.0
"""Seconds after which a draft that nobody has locked is left over, although its number is that of another process."""


def replace_file(target: str, data: bytes, *, sure: bool = False) -> None:
    """Put `data` in place of what the file holds, with its owner and mode; OSError where that cannot be.

    `sure` waits until the disk has it.
    """
    folder, name = os.path.split(target)
    remove_drafts([folder], name)
    before = os.stat(target) if os.path.exists(target) else None
    draft = f"{target}.gpudoctor-{os.getpid()}.tmp"
    with _undisturbed():
        descriptor = os.open(draft, _NEW, 0o666 if before is None else 0o600)
        done = False
        try:
            with open(descriptor, "wb") as file:
                _locked(descriptor)
                file.write(data)
                file.flush()
                if sure:
                    os.fsync(descriptor)
                # Last: a draft of another owner is not known as ours any more.
                if before is not None:
                    _make_alike(descriptor, draft, before)
            os.replace(draft, target)
            done = True
        finally:
            if not done:
                _unlink(draft)


def remove_drafts(folders: Iterable[str], name: str = "") -> None:
    """Remove what this user's killed runs have left in the folders, of this file or of all."""
    for folder in folders:
        # A folder that cannot be listed may be written to all the same.
        with suppress(OSError), os.scandir(folder or ".") as entries:
            for entry in entries:
                found = _DRAFT.fullmatch(entry.name)
                if found and entry.name.startswith(f"{name}.gpudoctor-" if name else "") and _is_left(entry, found[1]):
                    _unlink(entry.path)


def _is_left(entry: os.DirEntry[str], pid: str) -> bool:
    if fcntl is None:
        return False
    with suppress(OSError, OverflowError):
        descriptor = os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            status = os.fstat(descriptor)
            mine = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
            # Between its making and its locking, the number tells that it is somebody's.
            over = time.time() - status.st_mtime > _LONG or not _lives(int(pid))
            return mine and over and _locked(descriptor)
        finally:
            os.close(descriptor)
    return False


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _locked(descriptor: int) -> bool:
    if fcntl is None:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _make_alike(descriptor: int, draft: str, before: os.stat_result) -> None:
    mode = stat.S_IMODE(before.st_mode)
    if not hasattr(os, "fchown"):
        os.chmod(draft, mode)
        return
    now = os.fstat(descriptor)
    if (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid):
        try:
            os.fchown(descriptor, before.st_uid, before.st_gid)
        except OSError:
            # Only the superuser gives files away; what acts for its owner must not act for another one.
            mode &= ~(stat.S_ISUID | stat.S_ISGID)
    os.fchmod(descriptor, mode)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Who asks this process to end waits for the moment that it takes; Ctrl-C is an exception anyhow."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGHUP))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _unlink(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)
