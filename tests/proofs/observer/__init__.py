"""What a proof sees of a running program: counts, fingerprints and names, written down as they happen.

Everything here runs inside the program under test and must leave its meaning alone: no collective, no random number,
no change of a tensor. Each process writes lines of JSON to a file of its own, so that a rank which is killed or aborts
still leaves what it did before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import files, groups, loaders, loggers, runtime, training, wrappers
from .journal import Journal

if TYPE_CHECKING:
    from pathlib import Path


def install(folder: Path, program: Path, identity: dict[str, object]) -> Journal:
    """Start to write what this process does into `folder`; `program` holds the code that is the user's own."""
    journal = Journal(folder, program)
    journal.begin(identity)
    groups.watch(journal)
    training.watch(journal)
    wrappers.watch(journal)
    loaders.watch(journal)
    runtime.watch(journal)
    files.watch(journal)
    loggers.provide(journal)
    return journal
