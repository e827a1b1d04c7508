"""Being one of several ranks that a launcher has started: who of a node reports, and where all of them write."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from gpudoctor.errors import UsageError
from gpudoctor.ranks.scratch import no_folder, owned, remove_orphans, temporary_folder
from gpudoctor.record import dataclass

RECORDING = "gpudoctor-run-"
"""How the names of folders begin that hold a recording while it is made."""
_LAUNCHERS = (
    ("torchrun", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "WORLD_SIZE", "GROUP_RANK"),
    ("srun", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE", "SLURM_NTASKS", "SLURM_NODEID"),
)
"""A launcher, and the variables that tell the rank on this node, the ranks of this node, all ranks, and the node."""
_NODE_OPTIONS = ("--node-rank", "--machine-rank")
"""Of torchrun and of accelerate, which both take underscores, too."""
_NODE_VARIABLES = ("PET_NODE_RANK", "NODE_RANK", "SLURM_NODEID")
_PATIENCE = 15.0
"""Seconds that the first rank of a node waits for the others to end."""
_LOOK_EVERY = 0.05


@dataclass(frozen=True)
class Given:
    """A rank on this node that somebody has started, of `on_node` ranks here."""

    by: str
    local_rank: int
    on_node: int
    node: int = 0
    """Which of several nodes this is."""

    @property
    def reports(self) -> bool:
        """One rank of each node speaks for all of them."""
        return self.local_rank == 0


def given_rank(environment: Mapping[str, str]) -> Given | None:
    """The rank that the environment makes of this process, or None where it was started by itself."""
    for by, local, on_node, everywhere, node in _LAUNCHERS:
        if local in environment and _number(environment.get(everywhere)) > 1:
            ranks = _number(environment.get(on_node)) or _number(environment[everywhere])
            return Given(by, _number(environment[local]), ranks, _number(environment.get(node)))
    return None


def node_told(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Which of several nodes a command is to be, as its options or the environment tell its launcher, which may have
    had no ranks that could tell it."""
    for option, value in zip(command, [*command[1:], ""], strict=True):
        name, equals, given = option.partition("=")
        if name.replace("_", "-") in _NODE_OPTIONS:
            return _number(given if equals else value)
    return next((_number(environment[name]) for name in _NODE_VARIABLES if name in environment), 0)


def file_of_node(path: str, node: int) -> str:
    """Where a node other than the first writes what the first writes to `path`: nodes may share a disk."""
    root, extension = os.path.splitext(path)
    special = os.path.exists(path) and not os.path.isfile(path)
    return path if special or not node else f"{root}.node{node}{extension}"


@contextlib.contextmanager
def shared_folder(given: Given) -> Iterator[Path]:
    """The folder of all ranks of this node. The one that reports leaves once the others have, and takes it away."""
    # The ranks of a node have one parent, and its number and start tell this job from any other.
    folder = temporary_folder() / f"{RECORDING}{os.getuid()}-{os.getppid()}-{_started(os.getppid())}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        # Its name can be guessed, and anybody may write where temporary files are.
        if folder.is_symlink() or folder.stat().st_uid != os.getuid():
            raise UsageError(f"{folder} belongs to somebody else: remove it, or set TMPDIR")
    except OSError as error:
        raise no_folder(error.strerror) from error
    try:
        with owned(folder):
            if given.reports:
                remove_orphans(folder.parent, RECORDING)
            yield folder
    finally:
        if given.reports:
            shutil.rmtree(folder, ignore_errors=True)


def wait_for_the_others(given: Given, folder: Path) -> None:
    """Say that this rank has ended; the one that reports waits until all have, or for as long as is reasonable."""
    (folder / f"ended-{given.local_rank}").touch()
    deadline = time.monotonic() + _PATIENCE
    while given.reports and time.monotonic() < deadline and len(list(folder.glob("ended-*"))) < given.on_node:
        time.sleep(_LOOK_EVERY)


def _number(text: str | None) -> int:
    return int(text) if text and text.isdecimal() else 0


def _started(pid: int) -> str:
    """When a process was started, as the kernel counts."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return "0"
