"""Apply fixes until there is nothing left to fix, and keep only what lint itself finds to be an improvement.

A round takes the fixes of all findings in the order of files and lines, leaves out those that touch what an earlier
one changes, and lints the program as it would be then. A fix is kept if its finding is gone and nothing new is found,
but for what is itself fixed in a later round.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence

from gpudoctor.diagnostic import Edit, Finding, Fix, Safety, Severity, by_place
from gpudoctor.lint.fix.edits import clash
from gpudoctor.lint.pipeline import lint
from gpudoctor.lint.request import STDIN, OnProgress, Outcome, Request
from gpudoctor.lint.source.atomic_write import edited
from gpudoctor.lint.source.file import SourceFile, parse_text, read_source, shown_path
from gpudoctor.record import dataclass, field, replace
from gpudoctor.registry import load
from gpudoctor.rule import RuleCard

MAX_ROUNDS = 10
"""A fix may bring to light what another one cures. More rounds than rules that depend on each other are not needed."""


@dataclass(frozen=True)
class FileChange:
    """A file as it was read and as it would be. `digest` stands for the bytes that were read."""

    path: str
    shown: str
    before: bytes
    after: bytes
    digest: str


@dataclass(frozen=True)
class Fixed:
    """What fixing comes to: what is found afterwards, the findings that are gone, and the files that differ."""

    outcome: Outcome
    done: tuple[Finding, ...]
    changes: tuple[FileChange, ...]


@dataclass
class _Fixing:
    """Where fixing is: the files as changed so far, what lint finds in them, and the fixes that led there."""

    outcome: Outcome
    texts: dict[str, bytes] = field(default_factory=dict)
    done: tuple[Finding, ...] = ()


class _Files:
    """The files that are fixed: their bytes before anything was changed."""

    def __init__(self, request: Request) -> None:
        self._edited = request.edited
        self.read: dict[str, SourceFile | None] = {}
        self.data: dict[str, bytes] = {}
        self.stdin = ""
        """The path that stands for standard input, where that is read."""
        if STDIN in request.paths:
            self.stdin = request.stdin_path
            source = parse_text(request.stdin, self.stdin, shown_path(self.stdin))
            self.read[source.shown] = source if isinstance(source, SourceFile) else None
            self.data[self.stdin] = request.stdin

    def of(self, shown: str) -> SourceFile | None:
        """The file, read once; None where it cannot be read."""
        if shown not in self.read:
            given = self._edited.get(path := os.path.realpath(shown))
            source = read_source(shown) if given is None else parse_text(given, path, shown)
            self.read[shown] = source if isinstance(source, SourceFile) else None
            if given is not None:
                self.data[path] = given
            elif isinstance(source, SourceFile):
                with open(source.path, "rb") as file:
                    self.data[source.path] = file.read()
        return self.read[shown]


def fix(request: Request, unsafe: bool, watch: OnProgress) -> Fixed:
    """Lint, and fix what can be fixed. Nothing is written."""
    selected = frozenset(card.code for card in request.rules)
    wanted = _Wanted(selected, {Safety.SAFE, Safety.UNSAFE} if unsafe else {Safety.SAFE}, request.known)
    files = _Files(request)
    wanted.alone = shown_path(files.stdin) if files.stdin and len(request.paths) == 1 else ""
    # A fix of one rule may be the mistake of another, whether that one was asked for or not.
    others = (card for card in request.known if card.severity is not Severity.INFO and card.code not in selected)
    request = replace(request, rules=(*request.rules, *others), fixes=True)
    first = state = good = _Fixing(lint(request, watch))
    for _ in range(MAX_ROUNDS):
        # By place, not by harm: where two fixes clash, the first one in the file is made.
        todo = by_place(each for each in state.outcome.findings if wanted.has(each))
        chosen = _apart(todo)
        if not chosen:
            break
        tried = _tried(state, chosen, request, files)
        if tried is not None and _is_better(state, tried, chosen, wanted):
            state = tried
        else:
            state = _one_by_one(state, chosen, request, files, wanted)
        if not _new(first.outcome, state.outcome, state.done, wanted):
            good = state
    # What was tried in vain is none that could be fixed.
    found = tuple(
        replace(each, fix=None, unwritten=None) if wanted.tries(each) else each
        for each in good.outcome.findings
        if each.code in selected
    )
    return Fixed(replace(good.outcome, findings=found), good.done, tuple(_changes(good, files)))


@dataclass
class _Wanted:
    """Which fixes are made: of these rules, as safe as this, and not those that were tried in vain."""

    codes: frozenset[str]
    safety: set[Safety]
    known: Sequence[RuleCard]
    alone: str = ""
    """The only file that may change, where there is one: whoever pipes a text wants that text back, and no other."""
    rejected: set[tuple[str, Fix]] = field(default_factory=set)

    def tries(self, finding: Finding) -> bool:
        """Its fix is made, if there is one: so safe are those that are."""
        return (finding.fix.safety if finding.fix else finding.unwritten) in self.safety

    def has(self, finding: Finding) -> bool:
        fix = finding.fix
        if fix is None or finding.code not in self.codes or fix.safety not in self.safety:
            return False
        if self.alone and any(edit.location.path != self.alone for edit in fix.edits):
            return False
        return (finding.code, fix) not in self.rejected

    def revealed_by(self, fixed: Iterable[Finding]) -> frozenset[str]:
        """What may be found only now that these are fixed."""
        codes = {each.code for each in fixed}
        return frozenset(code for card in self.known if card.code in codes for code in load(card).reveals)


def _apart(findings: Sequence[Finding]) -> list[Finding]:
    """Those whose fixes do not touch what an earlier one changes, in the order of findings."""
    chosen: list[Finding] = []
    taken: dict[str, list[Edit]] = {}
    for finding in findings:
        edits = finding.fix.edits if finding.fix else ()
        together = {path: taken.get(path, []) + own for path, own in _by_path(edits).items()}
        # The same edit may be a part of several fixes: two of them need one import.
        if not any(clash(each) for each in together.values()):
            taken.update(together)
            chosen.append(finding)
    return chosen


def _by_path(edits: Iterable[Edit]) -> dict[str, list[Edit]]:
    found: dict[str, list[Edit]] = {}
    for edit in edits:
        found.setdefault(edit.location.path, []).append(edit)
    return found


def _tried(state: _Fixing, chosen: Sequence[Finding], request: Request, files: _Files) -> _Fixing | None:
    """The state after these fixes; None where a file would not parse any more."""
    texts = dict(state.texts)
    edits = (edit for finding in chosen if finding.fix for edit in finding.fix.edits)
    for shown, own in _by_path(edits).items():
        source = files.of(shown)
        if source is None:
            return None
        path = source.path
        try:
            texts[path] = edited(texts.get(path, files.data[path]), own)
        # What the file's encoding has no bytes for.
        except UnicodeError:
            return None
        if not isinstance(parse_text(texts[path], source.path, shown), SourceFile):
            return None
    on_disk = {**request.edited, **{path: text for path, text in texts.items() if path != files.stdin}}
    outcome = lint(replace(request, edited=on_disk, stdin=texts.get(files.stdin, request.stdin)))
    return _Fixing(outcome, texts, (*state.done, *chosen))


def _one_by_one(state: _Fixing, chosen: Sequence[Finding], request: Request, files: _Files, wanted: _Wanted) -> _Fixing:
    """The first of these fixes that is an improvement; those before it are not tried again."""
    for finding in chosen:
        tried = _tried(state, [finding], request, files)
        if tried is not None and _is_better(state, tried, [finding], wanted):
            return tried
        if finding.fix is not None:
            wanted.rejected.add((finding.code, finding.fix))
    return state


def _is_better(before: _Fixing, after: _Fixing, chosen: Sequence[Finding], wanted: _Wanted) -> bool:
    """Each of the findings is gone, and what is new will be fixed as well."""
    if after.outcome.failures:
        return False
    was, now = _counted(before.outcome.findings), _counted(after.outcome.findings)
    gone = Counter((each.code, each.location.path) for each in chosen)
    if any(now[key] > was[key] - count for key, count in gone.items()):
        return False
    fixable = _counted(each for each in after.outcome.findings if wanted.has(each))
    return all(count <= fixable[key] for key, count in _new(before.outcome, after.outcome, chosen, wanted).items())


def _new(
    before: Outcome, after: Outcome, fixed: Sequence[Finding], wanted: _Wanted
) -> Counter[tuple[str, str]]:  # fmt: skip
    """By code and file, how much more is found than before. What is milder than all that was fixed does not count: a
    program that no longer hangs may be told that it could be faster. Nor does what could not be seen before."""
    least = min((each.severity.weight for each in fixed), default=0)
    revealed = wanted.revealed_by(fixed)
    counts = (each for each in after.findings if each.severity.weight >= least and each.code not in revealed)
    return _counted(counts) - _counted(before.findings)


def _counted(findings: Iterable[Finding]) -> Counter[tuple[str, str]]:
    return Counter((each.code, each.location.path) for each in findings)


def _changes(state: _Fixing, files: _Files) -> Iterable[FileChange]:
    for shown, source in sorted(files.read.items()):
        path = source.path if source else ""
        after = state.texts.get(path)
        if source is not None and after is not None and after != files.data[path]:
            yield FileChange(path, shown, files.data[path], after, source.digest)
