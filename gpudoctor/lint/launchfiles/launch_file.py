"""What is read of one launch file."""

from __future__ import annotations

from collections.abc import Mapping

from gpudoctor.diagnostic import Location
from gpudoctor.lint.launchfiles.documents import Document
from gpudoctor.lint.launchfiles.shell import ScriptComment
from gpudoctor.lint.launchfiles.shell_words import ShellCommand
from gpudoctor.lint.launchfiles.start import BuiltService, ProgramStart
from gpudoctor.record import dataclass, field


@dataclass(frozen=True)
class WrittenSetting:
    """A value in a settings file, as text, and where it stands."""

    text: str
    at: Location

    @property
    def number(self) -> int | None:
        return int(self.text) if self.text.isdecimal() else None


@dataclass(frozen=True)
class SettingsFile:
    """A settings file of a launcher or a framework, its keys joined by dots."""

    of: str
    values: Mapping[str, WrittenSetting]

    def number(self, key: str) -> int | None:
        found = self.values.get(key)
        return found.number if found is not None else None

    def text(self, key: str) -> str:
        found = self.values.get(key)
        return found.text if found is not None else ""


@dataclass(frozen=True)
class LaunchFile:
    """A launch file: the programs that it starts, or the settings that it is made of.

    `path` has no links; `shown` is what users read. `is_batch` where it is handed to SLURM.
    """

    path: str
    shown: str
    text: str
    launches: tuple[ProgramStart, ...] = ()
    settings: tuple[SettingsFile, ...] = ()
    comments: tuple[ScriptComment, ...] = ()
    is_batch: bool = False
    built: tuple[BuiltService, ...] = ()
    """Services that run what a Dockerfile says, which is a launch file of its own."""
    entry: ShellCommand | None = None
    """The words of a Dockerfile to which those of a service are added."""
    whole: ShellCommand | None = None
    """What its image runs where nobody says otherwise."""
    copied: tuple[tuple[str, str], ...] = ()
    """Of a Dockerfile where something lies in its image, and what that is outside."""
    services: Document | None = field(default=None, compare=False)
    """A file of Docker Compose."""
    composes: tuple[tuple[str, ...], ...] = ()
    """The files that its commands of Docker Compose name, the lowest first; none where those lie in the folder."""
    commands: frozenset[str] = frozenset()
    """The names of all commands in it."""
    writes: frozenset[str] = frozenset()
    """The programs that a notebook writes to files."""
    lines: tuple[str, ...] = field(default=(), compare=False)
