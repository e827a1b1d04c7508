"""A file that one process appends to, of which nothing is lost when the process is killed."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import resource
import threading

_PIECE = 1 << 18
"""Bytes by which the file grows. The disk must give them before they are used, or a full one would be a signal."""
_FAILED = ctypes.c_void_p(-1).value


def appended(path: str) -> InMemory | ByCalls:
    """The file at `path`, which is made."""
    try:
        return InMemory(path)
    except (OSError, AttributeError):
        # Not on this system, or not in this file system.
        return ByCalls(path)


def _refuse_beyond_limit(size: int) -> None:
    """The user may have limited the size of files: going beyond would be a signal, which ends the program."""
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    if limit != resource.RLIM_INFINITY and size > limit:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))


class InMemory:
    """By memory that is shared with the file, so that a line takes no call of the system; zeros follow the last one.

    No file stays open: a program may close what it has not opened, and a number of ours would be another file then.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        # Not Python's `mmap`, which keeps a file open.
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.mmap.restype = ctypes.c_void_p
        self._libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
        self._libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        self._address = 0
        self._pieces = 0
        self._used = _PIECE
        # Also for a signal handler of the user's that interrupts us.
        self._lock = threading.RLock()
        self._grow()

    def append(self, data: bytes) -> None:
        """Behind what is there."""
        with self._lock:
            while data:
                if self._used == _PIECE:
                    self._grow()
                begin = self._used
                part = data[: _PIECE - begin]
                self._used = begin + len(part)
                self._piece[begin : self._used] = part
                data = data[len(part) :]

    def _grow(self) -> None:
        _refuse_beyond_limit((self._pieces + 1) * _PIECE)
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(file, self._pieces * _PIECE, _PIECE)
            address = self._libc.mmap(
                None, _PIECE, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, file, self._pieces * _PIECE
            )
        finally:
            os.close(file)
        if address in (None, _FAILED):
            raise OSError(ctypes.get_errno(), "no memory can be shared with a file")
        if self._address:
            self._libc.munmap(self._address, _PIECE)
        self._address = address
        self._piece = memoryview((ctypes.c_char * _PIECE).from_address(address)).cast("B")
        self._pieces += 1
        self._used = 0


class ByCalls:
    """By one call of the system for each line."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = self._opened()

    def append(self, data: bytes) -> None:
        """Behind what is there."""
        # One call, so that a line is there or not; the rest of a short write would come too late.
        file = self._still_ours()
        _refuse_beyond_limit(os.fstat(file).st_size + len(data))
        os.write(file, data)

    def _opened(self) -> int:
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        status = os.fstat(file)
        self._node = status.st_dev, status.st_ino
        return file

    def _still_ours(self) -> int:
        """A program that closes what it has not opened may have been given our number for a file of its own."""
        try:
            status = os.fstat(self._file)
        except OSError:
            status = None
        if status is None or (status.st_dev, status.st_ino) != self._node:
            self._file = self._opened()
        return self._file
