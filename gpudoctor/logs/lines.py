"""The lines of files, one at a time: a log may be larger than memory."""

from __future__ import annotations

import codecs
import gzip
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from gpudoctor.errors import UsageError, nearest_file
from gpudoctor.record import dataclass

LONGEST = 16 * 1024
"""Bytes of a line that are looked at: a progress bar can make one line of a whole night."""
_BLOCK = 256 * 1024
_GZIP = b"\x1f\x8b"
_CONTROL = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))|\ufffd\[[\d;]*m|\[\d+m(?=\()")
"""What colours a terminal, also where something has swallowed the escape."""
_NOT_LOGS = frozenset(
    ".py .pyc .ipynb .pt .pth .ckpt .bin .safetensors .npy .npz .png .jpg .svg .zip .tar .so .h5 .parquet".split()
)


@dataclass(frozen=True)
class LogLine:
    """One line: its file as it was named, its number from 1, and its text without colours."""

    path: str
    number: int
    text: str


def files_in(named: Iterable[str]) -> list[str]:
    """The files that are meant: those of a folder, too. `-` is what comes through a pipe.

    Raises:
        UsageError: There is no such file, or nothing in a folder.
    """
    found: list[str] = []
    for name in named:
        path = Path(name)
        if name == "-" or path.is_file() or (path.exists() and not path.is_dir()):
            found.append(name)
        elif path.is_dir():
            inside = sorted(each for each in path.rglob("*") if each.is_file() and each.suffix not in _NOT_LOGS)
            if not inside:
                raise UsageError(f"{name}: there is no log in this folder")
            found += map(str, inside)
        else:
            raise UsageError(f"{name}: there is no such file{nearest_file(name)}")
    return found


def lines_of(path: str, telling: Sequence[bytes] = ()) -> Iterator[LogLine]:
    """The lines of one file. Where a progress bar has gone back to the begin of its line, that is a line, too.

    Stretches of a file in which none of the words of `telling` occurs are passed over, but for the one after a stretch
    in which one does: what begins there may end here.

    Raises:
        UsageError: It cannot be read.
    """
    name = "stdin" if path == "-" else path
    number, told = 1, True
    try:
        with _opened(path) as file:
            while block := file.read(_BLOCK):
                block += file.readline(_BLOCK)
                tells = not telling or any(word in block for word in telling)
                if tells or told:
                    yield from _lines_in(block, name, number)
                number += block.count(b"\n")
                told = tells
    except (OSError, EOFError, gzip.BadGzipFile) as error:
        if number == 1:
            raise UsageError(f"{name}: it cannot be read: {error}") from error
        # A file that is cut off in the middle of its compression still has what came before.


def _lines_in(block: bytes, name: str, number: int) -> Iterator[LogLine]:
    for raw in block.split(b"\n"):
        for part in raw.rstrip(b"\r").split(b"\r"):
            yield LogLine(name, number, _plain(part[:LONGEST]))
        number += 1


def head_of(path: str, size: int) -> bytes:
    """Its first bytes, uncompressed; empty for a pipe, which can be read only once."""
    if path == "-":
        return b""
    try:
        with _opened(path) as file:
            return file.read(size)
    except (OSError, EOFError) as error:
        raise UsageError(f"{path}: it cannot be read: {error}") from error


def _opened(path: str) -> BinaryIO:
    if path == "-":
        return sys.stdin.buffer
    with open(path, "rb") as file:
        begin = file.read(2)
    if begin in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        # As PowerShell writes what a command prints.
        return codecs.EncodedFile(open(path, "rb"), "utf-8", "utf-16", "replace")
    return gzip.open(path, "rb") if begin == _GZIP else open(path, "rb")  # type: ignore[return-value]


def _plain(raw: bytes) -> str:
    text = raw.decode("utf-8", "replace")
    return _CONTROL.sub("", text) if "\x1b" in text or "m(" in text or "\ufffd[" in text else text
