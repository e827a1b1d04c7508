"""What came out of one entry."""

from __future__ import annotations

from gpudoctor.coverage import Coverage
from gpudoctor.diagnostic import Finding
from gpudoctor.errors import InternalError
from gpudoctor.lint.events.program_facts import ProgramFacts
from gpudoctor.lint.source.file import Unreadable
from gpudoctor.lint.source.file_queries import KeptAnswers
from gpudoctor.record import dataclass, field


@dataclass(frozen=True)
class EntryResult:
    """What came out of one entry, `shown` as users know it. `files` are the shown paths that were read for it,
    `partly` where a limit or a bug kept something from being seen; `limits` says which limits, `asked` what the file
    system had to say."""

    shown: str
    findings: tuple[Finding, ...] = ()
    files: frozenset[str] = frozenset()
    unreadable: tuple[Unreadable, ...] = ()
    failures: tuple[InternalError, ...] = ()
    partly: bool = False
    limits: tuple[str, ...] = ()
    asked: KeptAnswers = field(default_factory=dict, compare=False)
    coverage: tuple[Coverage, ...] = ()
    """What was followed, for each world."""
    commented: bool = False
    """Of a launch file: comments in it speak to us."""
    facts: ProgramFacts | None = None
    """What it says of how it wants to be started; None where it starts nothing."""
