"""The folder where the ranks of a node meet: gone afterwards, or at the next start where nobody was left to do it."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from gpudoctor.errors import UsageError

_PREFIX = "gpudoctor-probe-"
_OWNER = "owner"


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A folder of our own that is gone afterwards, with those of probes that were killed before they could do that."""
    remove_orphans(Path(tempfile.gettempdir()))
    try:
        folder = tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True)
    except OSError as error:
        raise UsageError(f"no folder for temporary files can be written: set TMPDIR ({error.strerror})") from error
    with folder as name, _owned(Path(name)):
        yield Path(name)


@contextlib.contextmanager
def _owned(folder: Path) -> Iterator[None]:
    """Hold a lock that the kernel gives back when this process ends, however it does."""
    with (folder / _OWNER).open("wb") as file:
        _locked(file.fileno())
        yield


def remove_orphans(parent: Path) -> None:
    """Remove the folders of this user's probes that run no more, also of those in other containers."""
    for folder in parent.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            # One that is being made has no lock yet, and one of somebody else is not ours to remove.
            if folder.stat().st_uid == os.getuid() and _is_orphan(folder / _OWNER):
                shutil.rmtree(folder, ignore_errors=True)


def _is_orphan(owner: Path) -> bool:
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
