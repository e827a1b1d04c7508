"""Comments that silence findings: `# gpudoctor: ignore[...]`, `# gpudoctor: ignore-file[...]` and `# noqa: ...`.

A comment on a line silences what starts on that line. At the end of a statement that goes over several lines (a long
call, a string in triple quotes) it silences what starts on any line of it; the header of an `if`, `for`, `def` or
`class` counts as such a statement, its body does not. A comment on a line of its own belongs to no statement and
silences nothing, except `ignore-file`. In launch files, where a command over several lines has no other place for it,
such a comment silences the command below.

What stands in brackets are codes (`GPU301`), beginnings of codes (`GPU3`) and names (`missing-set-epoch`); without
brackets all rules of ours are meant. `# noqa` without codes silences the line, as for every other linter, and codes
of other linters are none of our business.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Edit, Finding, Fix, Location, Safety
from gpudoctor.record import dataclass, replace

if TYPE_CHECKING:
    import tokenize

    from gpudoctor.lint.source.file import SourceFile
    from gpudoctor.rule import RuleCard

ALL = ""
"""Stands for every rule, where a comment names none."""


@dataclass(frozen=True, eq=False)
class Ignore:
    """One thing that a comment silences: a code, the beginning of codes, a name, or `ALL`, and where it stands.

    `first` and `last` are the lines that it holds for, both 0 for the whole file. `comment` is the place of the whole
    directive, from its `#`; it stands `alone` where nothing else is on its line. `offset` is how many lines of the
    text stand before its cell, where it is one of a notebook.
    """

    text: str
    location: Location
    comment: Location
    first: int
    last: int
    is_noqa: bool = False
    alone: bool = False
    offset: int = 0

    @property
    def is_ours(self) -> bool:
        """It speaks to gpudoctor and to no other linter, so that we may judge it."""
        return not self.is_noqa or self.text.upper().startswith(_OWN)

    def covers(self, line: int, code: str, name: str) -> bool:
        """Findings of this rule that start on this line are silenced."""
        return (not self.last or self.first <= line <= self.last) and self.means(code, name)

    def means(self, code: str, name: str) -> bool:
        """The rule is one of those named."""
        wanted = self.text
        if wanted == ALL or wanted.lower() == name:
            return True
        return bool(re.fullmatch(_CODE, wanted)) and code.startswith(wanted.upper())

    def means_any(self, rules: Iterable[tuple[str, str]]) -> bool:
        """One of these rules, given by code and name, is among those named."""
        return any(self.means(code, name) for code, name in rules)


@dataclass(frozen=True, eq=False)
class SuppressionRemark:
    """What there is to say of a suppression: that it silenced nothing, or names no known rule.

    `fix` takes away what silences nothing.
    """

    text: str
    location: Location
    message: str
    remedy: str
    fix: Fix | None = None

    def finding(self, card: RuleCard) -> Finding:
        """What the rule says with it."""
        message, remedy = _sentence(self.message), _sentence(self.remedy)
        return Finding(card.code, card.name, card.severity, message, self.location, remedy, fix=self.fix)


class Suppressions:
    """The suppressions of one file, and which of them were of use.

    `misspelt` are words after `gpudoctor:` that are no directive, and where they stand.
    """

    def __init__(
        self,
        ignores: tuple[Ignore, ...] = (),
        misspelt: tuple[tuple[str, Location], ...] = (),
        lines: Sequence[str] = (),
    ) -> None:
        self.ignores = ignores
        self.misspelt = misspelt
        self._lines = lines
        self._used: set[Ignore] = set()

    @classmethod
    def of(cls, source: SourceFile) -> Suppressions:
        """Those in a file. Without the words in its text, it is not looked at further."""
        text = source.text.lower()
        if "gpudoctor" not in text and "noqa" not in text:
            return cls()
        ignores: list[Ignore] = []
        misspelt: list[tuple[str, Location]] = []
        for comment in _of_launch_file(source) if source.launches else _comments(source):
            ignores += _noqa(comment)
            for found in re.finditer(_DIRECTIVE, comment.text):
                if found["word"].lower() in _DIRECTIVES:
                    ignores += _ignores(comment, found)
                # Prose may begin with the name of the tool; only what looks like a directive is misspelt.
                elif found["list"] or _meant(found["word"]):
                    misspelt.append((found["word"], comment.place(found.start("word"), found.end("word"))))
        return cls(tuple(ignores), tuple(misspelt), source.lines)

    def silences(self, line: int, code: str, name: str) -> bool:
        """A finding of this rule that starts on this line is unwanted. Remembers which comments said so."""
        covering = [ignore for ignore in self.ignores if ignore.covers(line, code, name)]
        self._used.update(covering)
        return bool(covering)

    def unused(
        self, ran: Iterable[tuple[str, str]] | None = None, not_run: Iterable[tuple[str, str]] = ()
    ) -> list[SuppressionRemark]:
        """Suppressions that silenced nothing so far; to be asked after all findings.

        `ran` and `not_run` are rules by code and name. A comment that means none that ran, or one that did not run,
        may be of use another time. `# noqa` is left alone unless it names a code of ours.
        """
        done, left = None if ran is None else list(ran), list(not_run)
        found = [
            ignore
            for ignore in self.ignores
            if ignore not in self._used
            and ignore.is_ours
            and (done is None or ignore.means_any(done))
            and not ignore.means_any(left)
        ]
        return [_unused(ignore, _without(ignore, found, self.ignores, self._lines)) for ignore in found]

    def unknown(self, rules: Iterable[tuple[str, str]]) -> list[SuppressionRemark]:
        """Suppressions that mean none of the known rules, given by code and name."""
        known = list(rules)
        remarks = [_misspelt(text, place) for text, place in self.misspelt]
        return remarks + [
            _unknown(ignore, _nearest(ignore.text, known))
            for ignore in self.ignores
            if ignore.is_ours and not ignore.means_any(known)
        ]


_DIRECTIVES = ("ignore", "ignore-file")
# What other tools call it.
_WORDS = dict.fromkeys(("allow", "disable", "ignore-next-line", "noqa", "off", "silence", "skip", "suppress"), "ignore")
_WORDS |= dict.fromkeys(("disable-file", "skip-file"), "ignore-file")
# Compiled when first searched for, and kept by `re`: most files have no such comment.
_DIRECTIVE = r"(?i)#\s*gpudoctor\s*:\s*(?P<word>[A-Z][\w-]*)\s*(?P<list>\[(?P<items>[^\]#]*)\]?)?"
_NOQA = r"(?i)#\s*noqa(?![\w-])(?:\s*:\s*(?P<items>[A-Z]+[0-9]\w*(?:[\s,]+[A-Z]+[0-9]\w*)*))?"
_ITEM = r"[^\s,\"']+"
# Packs of rules by others have codes of their own.
_CODE = r"(?i)[A-Z]{2,10}[0-9]*"
_OWN = "GPU"


@dataclass(frozen=True)
class _Comment:
    """A comment, where it starts (column from 1) and the lines of the statement that it ends."""

    shown: str
    text: str
    line: int
    column: int
    first: int
    alone: bool
    offset: int
    last: int = 0
    """The last line of what it speaks of, where that is not its own: a comment above a command."""

    def place(self, start: int, end: int) -> Location:
        return Location(self.shown, self.line, self.column + start, self.line, self.column + end)

    def items(self, found: re.Match[str]) -> Iterator[tuple[str, tuple[int, int]]]:
        """What a directive lists, with where it stands in the comment."""
        start = found.start("items")
        for item in re.finditer(_ITEM, found["items"]):
            yield item[0], (start + item.start(), start + item.end())

    def ignore(
        self, found: re.Match[str], text: str, span: tuple[int, int], *, is_noqa: bool = False, whole_file: bool = False
    ) -> Ignore:
        first, last = (0, 0) if whole_file else (self.first, max(self.line, self.last))
        return Ignore(text, self.place(*span), self.place(*found.span()), first, last, is_noqa, self.alone, self.offset)


def _comments(source: SourceFile) -> Iterator[_Comment]:
    """The comments, each with the lines of the statement that it ends."""
    # Deferred: most files have no such comment.
    import tokenize

    lines = iter([f"{line}\n" for line in source.lines])
    spacing = {tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    first = 0
    comment: tokenize.TokenInfo | None = None
    try:
        for token in tokenize.generate_tokens(lambda: next(lines, "")):
            if comment is not None:
                yield _placed(source, comment, first if token.type == tokenize.NEWLINE else 0)
                comment = None
            if token.type == tokenize.COMMENT:
                comment = token
            elif token.type == tokenize.NEWLINE:
                first = 0
            elif token.type not in spacing:
                first = first or token.start[0]
    except (tokenize.TokenError, SyntaxError):
        # The parser took the file; where the tokenizer is stricter, the comments so far have to do.
        return


def _of_launch_file(source: SourceFile) -> Iterator[_Comment]:
    # Imported late: mostly programs are linted.
    from gpudoctor.lint.launchfiles.reading import read_launch_file

    for each in read_launch_file(source.path, source.shown, source.text).comments:
        yield _Comment(source.shown, each.text, each.at.line, each.at.column, each.first, each.alone, 0, each.last)


def _placed(source: SourceFile, comment: tokenize.TokenInfo, first: int) -> _Comment:
    """The comment with its lines: from `first`, where it ends a statement that began there, else only its own."""
    line, column = comment.start
    alone = not source.lines[line - 1][:column].strip()
    offset = source.cells.offset(line) if source.cells is not None else 0
    return _Comment(source.shown, comment.string, line, column + 1, first or line, alone, offset)


def _noqa(comment: _Comment) -> Iterator[Ignore]:
    for found in re.finditer(_NOQA, comment.text):
        if found["items"] is None:
            yield comment.ignore(found, ALL, found.span(), is_noqa=True)
            continue
        for item in comment.items(found):
            yield comment.ignore(found, *item, is_noqa=True)


def _ignores(comment: _Comment, found: re.Match[str]) -> Iterator[Ignore]:
    whole_file = found["word"].lower() == "ignore-file"
    if found["list"] is None:
        yield comment.ignore(found, ALL, found.span(), whole_file=whole_file)
        return
    for item in comment.items(found):
        yield comment.ignore(found, *item, whole_file=whole_file)


def _meant(word: str) -> str:
    """The directive that was meant by a word after `gpudoctor:`, or nothing where the comment is just prose."""
    # Deferred, here and below: only misspelt words need it.
    from difflib import get_close_matches

    return _WORDS.get(word.lower()) or next(iter(get_close_matches(word.lower(), _DIRECTIVES, n=1, cutoff=0.75)), "")


def _nearest(text: str, rules: Iterable[tuple[str, str]]) -> str:
    if text.upper().startswith(_OWN):
        # Letters that were typed for digits count for nothing. Other digits are another rule: it would be silenced.
        wanted = text.upper().translate(str.maketrans("OIL", "011", "-_ "))
        begun = [code for code, _ in rules if code.startswith(wanted) or wanted.startswith(code)]
        return begun[0] if len(begun) == 1 else ""
    from difflib import get_close_matches

    return next(iter(get_close_matches(text.lower().replace("_", "-"), [name for _, name in rules], n=1)), "")


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def _unused(ignore: Ignore, fix: Fix | None) -> SuppressionRemark:
    if not ignore.last:
        where = "in this file"
    elif ignore.first < ignore.last:
        where = f"on lines {ignore.first - ignore.offset} to {ignore.last - ignore.offset}"
    else:
        where = "on this line"
    what = f"`{ignore.text}` finds nothing" if ignore.text else "no rule finds anything"
    remedy = "remove it, so that it does not hide a mistake that is made here later"
    if ignore.alone and ignore.last:
        remedy = "put it at the end of the line that it is meant for, or remove it"
    return SuppressionRemark(ignore.text, ignore.location, f"nothing to silence: {what} {where}", remedy, fix=fix)


def _unknown(ignore: Ignore, nearest: str) -> SuppressionRemark:
    message = f"`{ignore.text}` is not a rule of gpudoctor: nothing is silenced"
    remedy = f"write `{nearest}`" if nearest else "`gpudoctor rules` lists the codes and names"
    return SuppressionRemark(ignore.text, ignore.location, message, remedy)


def _misspelt(word: str, place: Location) -> SuppressionRemark:
    nearest = _meant(word)
    message = f"`{word}` is not a directive of gpudoctor: nothing is silenced"
    remedy = f"write `{nearest}`" if nearest else "write `ignore[...]` or `ignore-file[...]`"
    return SuppressionRemark(word, place, message, remedy)


# --- taken away -------------------------------------------------------------------------------------------------------


def _without(ignore: Ignore, unused: Sequence[Ignore], every: Sequence[Ignore], lines: Sequence[str]) -> Fix | None:
    """Take one entry out of its comment, or the comment away where nothing in it is of use. None where prose follows
    it, which may speak of it."""
    together = [each for each in every if each.comment == ignore.comment]
    line = lines[ignore.comment.line - 1]
    before, after = line[: ignore.comment.column - 1], line[ignore.comment.end_column - 1 :]
    if all(each in unused for each in together):
        if after.strip() and not after.lstrip().startswith("#"):
            return None
        place = _whole(ignore.comment, before, after, len(lines))
    else:
        place = _entry(ignore.location, line)
    return Fix(Safety.SAFE, "Take away what silences nothing", (Edit(place, ""),))


def _whole(comment: Location, before: str, after: str, count: int) -> Location:
    """The comment with the space before it, and with its line where nothing else stands there."""
    if not before.strip() and not after.strip() and comment.line < count:
        return Location(comment.path, comment.line, 1, comment.line + 1, 1)
    if after.strip():
        return replace(comment, end_column=comment.end_column + len(after) - len(after.lstrip()))
    return replace(comment, column=len(before.rstrip()) + 1, end_column=comment.end_column + len(after))


def _entry(item: Location, line: str) -> Location:
    """The entry with the comma behind it, or before it where it is the last one."""
    before, after = line[: item.column - 1], line[item.end_column - 1 :]
    if after.lstrip().startswith(","):
        gap = len(after) - len(after.lstrip().removeprefix(",").lstrip())
        return replace(item, end_column=item.end_column + gap)
    return replace(item, column=len(before.rstrip().removesuffix(",").rstrip()) + 1)
