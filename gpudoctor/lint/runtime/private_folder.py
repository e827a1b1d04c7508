"""A folder for files of this program alone: plain files of this user, in a folder that nobody else may write to.

What somebody else put there is neither read nor removed, and a pipe in place of a file is not waited for. Where the
system can, the folder is opened first and everything is reached through it: it cannot be exchanged in between.
"""

from __future__ import annotations

import os
import re
import stat
import time
from _thread import get_ident
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_REACHED_THROUGH = os.open in os.supports_dir_fd and hasattr(os, "O_DIRECTORY")
# A link is not followed, and opening a pipe does not wait for who is at its other end.
_CAREFULLY = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_OURS = r"[0-9a-f]{32}(\.[0-9]+)*"
"""A digest; with numbers behind it where it was never finished."""
_LONG = 3600.0
"""Seconds; nobody takes so long to finish a file."""


class OwnFolder:
    """Files by their names, which are digests. What cannot be had raises OSError."""

    def __init__(self, path: str) -> None:
        self._path = path

    def read(self, name: str, most: int) -> str:
        """The text of a file of ours with at most so many bytes."""
        with self._opened() as folder:
            descriptor = os.open(self._at(name, folder), os.O_RDONLY | _CAREFULLY, dir_fd=folder)
            with open(descriptor, "rb") as file:
                status = os.fstat(descriptor)
                if not (stat.S_ISREG(status.st_mode) and _is_mine(status) and status.st_size <= most):
                    raise OSError(f"{name} was not written here")
                return file.read(most).decode("utf-8")

    def write(self, name: str, text: str) -> None:
        """Put it there in one step: who reads meanwhile sees the old one or the new one."""
        os.makedirs(self._path, mode=0o700, exist_ok=True)
        data = text.encode("utf-8")
        with self._opened() as folder:
            unfinished = self._at(f"{name}.{os.getpid()}.{get_ident()}", folder)
            done = False
            try:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _CAREFULLY
                with open(os.open(unfinished, flags, 0o600, dir_fd=folder), "wb") as file:
                    file.write(data)
                os.replace(unfinished, self._at(name, folder), src_dir_fd=folder, dst_dir_fd=folder)
                done = True
            finally:
                if not done:
                    with suppress(OSError):
                        os.unlink(unfinished, dir_fd=folder)

    def make_room(self, most: int, kept: int) -> None:
        """Where all together have more than `most` bytes, remove the oldest until `kept` are left.

        What a killed run has left unfinished goes in any case.
        """
        with self._opened() as folder:
            found = sorted(self._files(folder))
            for written, _, name in found:
                if "." in name and time.time() - written > _LONG:
                    with suppress(OSError):
                        os.unlink(self._at(name, folder), dir_fd=folder)
            size = sum(bytes_ for _, bytes_, _ in found)
            if size <= most:
                return
            for _, bytes_, name in found:
                if size <= kept:
                    return
                with suppress(OSError):
                    os.unlink(self._at(name, folder), dir_fd=folder)
                size -= bytes_

    def _files(self, folder: int | None) -> Iterator[tuple[float, int, str]]:
        with os.scandir(self._path if folder is None else folder) as entries:
            for entry in entries:
                if not re.fullmatch(_OURS, entry.name):
                    continue
                # Another process may have removed it since.
                with suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(status.st_mode) and _is_mine(status):
                        yield status.st_mtime, status.st_size, entry.name

    @contextmanager
    def _opened(self) -> Iterator[int | None]:
        """The folder to reach files through; None where this system has no such thing."""
        if not _REACHED_THROUGH:
            yield None
            return
        folder = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            if not _is_mine(os.fstat(folder)):
                raise OSError(f"{self._path} is somebody else's, or others may write to it")
            yield folder
        finally:
            os.close(folder)

    def _at(self, name: str, folder: int | None) -> str:
        return name if folder is not None else os.path.join(self._path, name)


def _is_mine(status: os.stat_result) -> bool:
    """Written by this user, and by nobody else since. Windows has neither owner nor mode there."""
    if not hasattr(os, "geteuid"):
        return True
    return status.st_uid == os.geteuid() and not status.st_mode & _WRITABLE_BY_OTHERS
