"""What lint is asked, and what it answers."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from gpudoctor.coverage import Coverage
from gpudoctor.diagnostic import Finding, Location, Problem
from gpudoctor.errors import InternalError
from gpudoctor.lint.events.program_facts import AsStarted
from gpudoctor.record import dataclass, field
from gpudoctor.rule import BUILT_IN, RuleCard

if TYPE_CHECKING:
    # Nobody reads what a field is.
    from gpudoctor.lint.runtime.result_memory import ResultMemory  # noqa: TC004

STDIN = "-"
"""Stands for a file among the paths of a request, as for other programs."""
OnProgress = Callable[[int, int, str], None]
"""Is told how many entries are done, of how many, and which one is next; empty where none is."""


@dataclass(frozen=True)
class Request:
    """What to lint and how.

    `rules` are those that run, `known` all that there are. Patterns of `per_file_ignores` come with the codes that
    they silence and count from `folder`; those of `exclude` count from the working directory. `respect_gitignore`
    leaves out of folders what git ignores. `stdin` holds what stands for the path `-`, under the name `stdin_name`.
    `jobs` 0 leaves the number of processes to lint. `cache` is the folder where results are kept from run to run; empty
    where none are. `fixes` asks for fixes of what is found. `edited` holds the bytes of files, by their paths without
    links, that count instead of what is written there.
    """

    paths: tuple[str, ...]
    rules: tuple[RuleCard, ...]
    known: tuple[RuleCard, ...]
    launch: str = "auto"
    exclude: tuple[str, ...] = ()
    respect_gitignore: bool = True
    per_file_ignores: tuple[tuple[str, frozenset[str]], ...] = ()
    folder: str = ""
    stdin: bytes = b""
    stdin_name: str = "<stdin>"
    jobs: int = 0
    cache: str = ""
    fixes: bool = False
    edited: Mapping[str, bytes] = field(default_factory=dict)
    memory: ResultMemory | None = field(default=None, compare=False)
    """Keeps results in this process, for who lints nearly the same again and again; in the place of `cache`."""
    started: Mapping[str, tuple[AsStarted, ...]] = field(default_factory=dict)
    """The ways in which launch files of the request start programs, by their paths without links."""

    @property
    def given(self) -> Mapping[str, bytes]:
        """The bytes of files that count instead of what is written there, with those from standard input."""
        if STDIN not in self.paths:
            return self.edited
        return {**self.edited, self.stdin_path: self.stdin}

    @property
    def stdin_path(self) -> str:
        """What stands for the path of standard input, without links."""
        return os.path.realpath(self.stdin_name)

    # Asked of each entry.
    @cached_property
    def only_built_in(self) -> bool:
        """None of the rules is of another pack: it is known what they are about."""
        return all(card.module.startswith(f"{BUILT_IN}.") for card in self.rules)

    @cached_property
    def cards(self) -> Mapping[str, RuleCard]:
        """The rules that run, by their codes."""
        return {card.code: card for card in self.rules}


@dataclass(frozen=True)
class Outcome:
    """What was found.

    `files` counts the files that were asked for and are there, `problems` what could not be done, `failures` our own
    bugs: what else was found is true in spite of them. `read` are the shown paths of all files that were looked into,
    also those that were only imported; `unread` says which could not be read, where no rule says so, and `partly`
    which programs a limit has cut short. `lines` gives the lines around a place: those of its file, or of its cell.
    `known` are the findings that a baseline holds, which `findings` then leaves out; `gone` counts those that it holds
    and that are not found any more.
    """

    findings: tuple[Finding, ...]
    files: int
    problems: tuple[Problem, ...]
    failures: tuple[InternalError, ...]
    read: tuple[str, ...]
    unread: tuple[Problem, ...]
    partly: tuple[Problem, ...]
    lines: Callable[[Location], Sequence[str]]
    programs: tuple[Coverage, ...] = ()
    """What was followed of each program, and which rules could not judge it."""
    too_new: int = 0
    """Files that a newer Python than this one reads."""
    known: tuple[Finding, ...] = ()
    gone: int = 0
    without_pytorch: bool = False
    """No file that was asked for, or that one of them imports, names PyTorch or a library known to train with it."""
