"""gpudoctor from Python: lint files, or the text of an editor, without the command line.

    from gpudoctor.api import LintOptions, Session, lint_paths

    for finding in lint_paths(["train.py"]).findings:
        print(finding.location.path, finding.location.line, finding.code, finding.message)

    with Session(LintOptions(select=("GPU3",))) as session:
        answer = session.lint_text(buffer, "train.py")

    with Session(LintOptions(baseline="known.json")) as session:
        session.update_baseline(["src"])  # from then on, `lint_paths` leaves out what there is now

    with Session() as session:
        for change in session.fix(["train.py"]).changes:
            write(change)

Nothing is printed, nothing of the process is changed when a call returns, and what is linted is never imported or run.
What cannot be answered raises `GpudoctorError`; a mistake in what is linted is a finding, and what could not be read
stands in the answer's `problems` and `unread`. Two sessions may work in two threads: neither sees what the other does.

Packs of rules import from here too: `Rule`, `Finding` and what goes with them from `gpudoctor.api`, what a program is
from `gpudoctor.api.pack`. What these two offer stays where it is; all other modules may move.
"""

from __future__ import annotations

import os
from _contextvars import Context
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager

from gpudoctor.config import LAUNCHES, Config, find_config, read_config
from gpudoctor.coverage import Coverage
from gpudoctor.diagnostic import Confidence, Edit, Finding, Fix, Location, Problem, Related, Safety, Severity
from gpudoctor.errors import ConfigError, GpudoctorError, InternalError, UsageError
from gpudoctor.lint.fix_loop import FileChange, Fixed, fix
from gpudoctor.lint.lint_options import LintOptions, request_of
from gpudoctor.lint.pipeline import lint
from gpudoctor.lint.program import Program
from gpudoctor.lint.request import Outcome, Request
from gpudoctor.lint.runtime.result_memory import ResultMemory
from gpudoctor.lint.source.atomic_write import NotWritten, write_bytes
from gpudoctor.lint.source.encoding import UndecodableError, encoding_of
from gpudoctor.lint.source.file_queries import most_bytes
from gpudoctor.lint.source.process_state import fresh_stack
from gpudoctor.record import replace
from gpudoctor.registry import find_rules
from gpudoctor.rule import SOME_PATHS, CrashText, DriftText, Findings, Rule
from gpudoctor.triage import Triage

__all__ = [
    "SOME_PATHS",
    "Confidence",
    "ConfigError",
    "Coverage",
    "CrashText",
    "DriftText",
    "Edit",
    "FileChange",
    "Finding",
    "Findings",
    "Fix",
    "Fixed",
    "GpudoctorError",
    "InternalError",
    "LintOptions",
    "Location",
    "NotWritten",
    "Outcome",
    "Problem",
    "Program",
    "Related",
    "Rule",
    "Safety",
    "Session",
    "Severity",
    "UsageError",
    "lint_paths",
    "lint_text",
    "write",
]

Texts = Mapping[str, "str | bytes"] | Mapping["os.PathLike[str]", "str | bytes"]
"""What counts instead of files, by their paths."""
_NO_TEXTS: Texts = {}
_STDIN = "-"
_CAREFUL = LintOptions(jobs=1, cache=False)
"""Neither processes nor files of ours, unless somebody asks for them."""


def lint_paths(
    paths: Iterable[str | os.PathLike[str]], options: LintOptions = _CAREFUL, *, config: str | None = ""
) -> Outcome:
    """Lint files and folders.

    `config` is the configuration file to read: the nearest one where it is empty, none where it is None.
    """
    with Session(options, config=config) as session:
        return session.lint_paths(paths)


def lint_text(
    text: str | bytes, path: str | os.PathLike[str], options: LintOptions = _CAREFUL, *, config: str | None = ""
) -> Outcome:
    """Lint a text as if it stood in the file at `path`, whatever that holds; it need not be there yet.

    What the text imports is read from the folders around it.
    """
    with Session(options, config=config) as session:
        return session.lint_text(text, path)


class Session:
    """Lints again and again by the same rules and options, for an editor or a service.

    The rules are found once, when it is made. Each call begins anew: nothing is kept of what was linted before, so that
    a session may be used from several threads. Options without a number of processes work in this one.

    With `remember`, a program of which no file has changed since it was linted last is not followed again, so that an
    editor may have all of its texts linted at each change. Such a session is for one thread.
    """

    def __init__(self, options: LintOptions = _CAREFUL, *, config: str | None = "", remember: bool = False) -> None:
        if options.launch and options.launch not in LAUNCHES:
            raise UsageError(f"launch: `{options.launch}` is none of {', '.join(LAUNCHES)}")
        self._options = options
        self._config = config
        self._registry = find_rules()
        self._memory = ResultMemory() if remember else None
        self._closed = False
        # A rule that is not there is told before the first text is.
        self._request((), Config())

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the session: it answers nothing any more. What is being linted in other threads is finished."""
        self._closed = True

    def lint_paths(self, paths: Iterable[str | os.PathLike[str]], *, texts: Texts = _NO_TEXTS) -> Outcome:
        """Lint files and folders. `texts` count instead of what the files at their paths hold, wherever a program
        comes by one; a file that is named and has a text need not be there yet."""
        return self._lint(self._paths_request(paths, texts))

    def lint_text(self, text: str | bytes, path: str | os.PathLike[str]) -> Outcome:
        """Lint a text as if it stood in the file at `path`, whatever that holds; it need not be there yet."""
        name, data = os.fspath(path), _bytes_of(text)
        if len(data) > most_bytes(name):
            raise UsageError(f"{name}: the text is larger than {most_bytes(name) // 1024**2} MiB: it is not a program")
        config = self._config_for(name)
        if os.path.isfile(name):
            return self._lint(replace(self._request((name,), config), edited={os.path.realpath(name): data}))
        return self._lint(replace(self._request((_STDIN,), config), stdin=data, stdin_name=name))

    def update_baseline(self, paths: Iterable[str | os.PathLike[str]]) -> Outcome:
        """Lint files and folders, and write all that is found to the baseline of the options; it need not be there yet.

        What it holds of other files and rules stays. In the answer all is `known`. Where something could not be looked
        at, the answer says what in `problems` or `failures`, and nothing is written.
        """
        if not self._options.baseline or self._options.since:
            raise UsageError("update_baseline records all that is found: give options with `baseline` and no `since`")
        # Imported late: most sessions show all that they find.
        from gpudoctor.triage.baseline import record_findings

        request = self._paths_request(paths)
        return record_findings(self._all(request), self._options.baseline, request)[0]

    def fix(self, paths: Iterable[str | os.PathLike[str]], *, unsafe: bool = False, texts: Texts = _NO_TEXTS) -> Fixed:
        """Lint files and folders, and fix what can be fixed: the files as they would be. `write` writes one.

        With `unsafe` also by fixes that change what the program does. For `texts` see `lint_paths`.
        """
        if self._options.baseline or self._options.since:
            raise UsageError("fixes are made of all that is found: give options without `baseline` and `since`")
        request = self._paths_request(paths, texts)
        with self._at_work():
            return Context().run(fix, request, unsafe, lambda done, total, name: None)

    def silence(self, paths: Iterable[str | os.PathLike[str]]) -> tuple[FileChange, ...]:
        """Lint files and folders: the files as they would be with comments that silence all that is found in them."""
        # Imported late: most sessions only look.
        from gpudoctor.triage.ignore_comments import by_file, silenced

        found = by_file(self.lint_paths(paths).findings)
        return tuple(silenced(shown, findings) for shown, findings in found.items())

    def _paths_request(self, paths: Iterable[str | os.PathLike[str]], texts: Texts = _NO_TEXTS) -> Request:
        named = tuple(os.fspath(path) for path in paths)
        if _STDIN in named:
            raise UsageError("-: standard input is for the command line; `lint_text` takes a text")
        request = self._request(named, self._config_for(named[0] if named else "."))
        edited = {os.path.realpath(path): _bytes_of(text) for path, text in texts.items()}
        return replace(request, edited=edited) if edited else request

    def _config_for(self, path: str) -> Config:
        if self._config is None:
            return Config()
        return read_config(self._config) if self._config else find_config(path)

    def _request(self, paths: tuple[str, ...], config: Config) -> Request:
        request = request_of(paths, self._options, config, self._registry, caller=f"{__name__}.LintOptions")
        return replace(request, memory=self._memory) if self._memory is not None else request

    def _lint(self, request: Request) -> Outcome:
        triage = Triage(request, self._options.baseline, self._options.since)
        return triage.chosen(self._all(request))

    def _all(self, request: Request) -> Outcome:
        with self._at_work():
            return Context().run(lint, request)

    def _at_work(self) -> AbstractContextManager[None]:
        """For what runs in a context of its own, so that the caller's stays as it is. And a stack of its own: the calls
        that the caller has open take nothing of what programs are followed with."""
        if self._closed:
            raise UsageError("this session is closed")
        return fresh_stack()


def write(change: FileChange) -> None:
    """Write a file as it would be, in one step; NotWritten where it was changed since it was read."""
    write_bytes(change.path, change.after, change.digest)


def _bytes_of(text: str | bytes) -> bytes:
    """As a file that declares its encoding holds them."""
    if isinstance(text, bytes):
        return text
    plain = text.encode("utf-8", "replace")
    try:
        declared = encoding_of(plain)
        return plain if declared.startswith("utf-8") else text.encode(declared)
    # Reading it says what is wrong with it.
    except (UndecodableError, LookupError, UnicodeError):
        return plain
