"""From what was found in each program to what is reported: once, in order, and not where it is unwanted."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from gpudoctor.config import LAUNCHES, is_excluded, is_ignored
from gpudoctor.diagnostic import Finding, Location, Related, Safety, Severity, in_order
from gpudoctor.record import replace

if TYPE_CHECKING:
    from gpudoctor.diagnostic import Fix
    from gpudoctor.lint.request import Request
    from gpudoctor.lint.results.positions import SourceOf
    from gpudoctor.lint.source.file import Unreadable
    from gpudoctor.lint.suppression.directives import Suppressions
    from gpudoctor.rule import RuleCard

UNREADABLE, UNUSED, UNKNOWN = "GPU001", "GPU002", "GPU003"
"""The rules about files and comments: lint itself knows where they are broken."""


def merged(found: Iterable[Finding]) -> list[Finding]:
    """Each mistake once, with all the worlds in which it happens."""
    first: dict[tuple[str, str, int, int], Finding] = {}
    for finding in found:
        at = finding.location
        # By place, not by words: torchrun and spawn name ranks differently.
        key = finding.code, at.path, at.line, at.column
        first[key] = _joined(first[key], finding) if key in first else finding
    return [each for each in first.values() if not any(_is_told_in(each, other) for other in first.values())]


def _is_told_in(one: Finding, other: Finding) -> bool:
    """Another program met the same mistake earlier, and there this place is only one of several."""
    if one.code != other.code or len(one.related) >= len(other.related):
        return False
    told = {related.location for related in other.related}
    return one.location in told and all(related.location in told for related in one.related)


MOST_PLACES = 6
"""Of one cause, that are shown one by one: a longer list is not read."""


def together(findings: Iterable[Finding], silenced: Collection[Finding] = ()) -> list[Finding]:
    """One finding for each cause: at the first place where it shows, with the others as related places.

    A comment at the first place silences them all, one at another place silences that place. What is mended in one way
    is one finding: those with a fix, and those that take another remedy.
    """
    groups: dict[tuple[str, Location, bool], list[Finding]] = {}
    told: list[Finding] = []
    for finding in findings:
        if finding.cause is None:
            told += () if finding in silenced else (finding,)
        else:
            mended = finding.fix is not None or finding.unwritten is not None
            groups.setdefault((finding.code, finding.cause, mended), []).append(finding)
    shown = (group for group in groups.values() if group[0] not in silenced)
    return [*told, *(each for group in shown for each in _as_one([each for each in group if each not in silenced]))]


def _as_one(group: list[Finding]) -> list[Finding]:
    first, *others = group
    fix = _all_of(group) if first.fix is not None and others else first.fix
    # Fixes that are in each other's way are made one after the other.
    if fix is None and first.fix is not None:
        return [replace(each, cause=None) for each in group]
    known = {first.location, *(related.location for related in first.related)}
    more = list(dict.fromkeys(each.location for each in others if each.location not in known))
    left = len(more) - MOST_PLACES
    texts = ["it shows here, too"] * min(len(more), MOST_PLACES)
    if left > 0:
        texts[-1] += f", and at {left} more place{'s' if left > 1 else ''}"
    places = tuple(map(Related, texts, more))
    worst = max(group, key=lambda each: each.severity.weight).severity
    return [replace(first, severity=worst, related=(*first.related, *places), cause=None, fix=fix)]


def _all_of(group: Sequence[Finding]) -> Fix | None:
    """One fix for all places; None where their edits clash, or not all are written."""
    # Imported late: few causes show at several places that can be fixed.
    from gpudoctor.lint.fix.edits import clash

    fixes = [each.fix for each in group if each.fix is not None]
    edits = tuple(dict.fromkeys(edit for fix in fixes for edit in fix.edits))
    by_path = [[edit for edit in edits if edit.location.path == path] for path in {e.location.path for e in edits}]
    if len(fixes) < len(group) or any(map(clash, by_path)):
        return None
    safety = Safety.UNSAFE if any(fix.safety is Safety.UNSAFE for fix in fixes) else Safety.SAFE
    return replace(fixes[0], safety=safety, edits=edits)


def unreadable_finding(file: Unreadable, card: RuleCard) -> Finding:
    """A file that is not Python, as far as this Python can tell."""
    what = "cell" if file.in_cell else "file"
    message, remedy = f"This {what} cannot be read: {file.message}.", f"{file.remedy[:1].upper()}{file.remedy[1:]}."
    # What is too large for us may be in order.
    severity = Severity.WARNING if file.by_limit else card.severity
    return Finding(card.code, card.name, severity, message, file.location, remedy)


def wanted(
    findings: Sequence[Finding], request: Request, source_of: SourceOf, judged: Sequence[str], whole: frozenset[str]
) -> list[Finding]:
    """The findings that no comment and no pattern silences, and findings about the comments in the `judged` files.

    That a comment is of no use is known only in files that were seen as a `whole`.
    """
    of_unknown, of_unused = request.cards.get(UNKNOWN), request.cards.get(UNUSED)
    comments: dict[str, Suppressions] = {}
    silenced = [finding for finding in findings if _silenced(finding, comments, source_of)]
    kept = together(findings, silenced)
    for path in judged:
        suppressions = _comments_in(path, comments, source_of)
        if of_unknown is not None:
            unknown = suppressions.unknown((known.code, known.name) for known in request.known)
            kept += [each.finding(of_unknown) for each in unknown]
        # A comment may be of use in a world or a file that was not followed.
        if of_unused is not None and path in whole:
            unused = suppressions.unused((rule.code, rule.name) for rule in request.rules)
            kept += [each.finding(of_unused) for each in unused]
    stopping = {card.code for card in request.known if card.stops}
    shown = (
        each
        for each in kept
        if not is_excluded(each.location.path, request.exclude)
        and not is_ignored(each.code, each.location.path, request.per_file_ignores, request.folder)
    )
    return in_order(shown, stopping)


def _joined(one: Finding, other: Finding) -> Finding:
    # What one program shows beyond doubt is so, although another one was not followed to its end.
    if one.doubt and not other.doubt:
        one = replace(one, doubt="")
    # The first message stands: rules tell the same story in each world.
    worlds = {*one.world.split(", "), *other.world.split(", ")}
    # No world named: it happens however the program is launched.
    if "" in worlds:
        return replace(one, world="")
    return replace(one, world=", ".join(world for world in LAUNCHES if world in worlds))


def _silenced(finding: Finding, comments: dict[str, Suppressions], source_of: SourceOf) -> bool:
    suppressions = _comments_in(finding.location.path, comments, source_of)
    return suppressions.silences(finding.location.line, finding.code, finding.name)


def _comments_in(path: str, comments: dict[str, Suppressions], source_of: SourceOf) -> Suppressions:
    if path not in comments:
        # Imported late: most files have neither findings nor comments for us.
        from gpudoctor.lint.suppression.directives import Suppressions

        source = source_of(path)
        comments[path] = Suppressions.of(source) if source else Suppressions()
    return comments[path]
