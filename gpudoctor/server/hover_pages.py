"""The page of a rule, where the mouse is on what it is about: a finding, a comment that silences it, its code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from lsprotocol import types

from gpudoctor.page_address import rule_address
from gpudoctor.registry import Registry, page_of
from gpudoctor.report.markdown import fenced, with_difference
from gpudoctor.rule import RuleCard

_WORD = re.compile(r"[A-Za-z][\w-]*")
_COMMENT = re.compile(r"#\s*(?:gpudoctor:|noqa)")


def named_at(line: str, column: int, rules: Registry, *, anywhere: bool) -> tuple[RuleCard, types.Range] | None:
    """The rule whose code, or whose name in a comment of ours, stands at a column of a line, both from 0; `anywhere`
    where names count outside of comments as well, as in settings. The range has its columns."""
    comment = _COMMENT.search(line)
    for word in _WORD.finditer(line):
        if not word.start() <= column <= word.end():
            continue
        ours = anywhere or (comment is not None and comment.start() <= word.start())
        card = rules.by_code.get(word[0].upper()) or (rules.by_name.get(word[0].lower()) if ours else None)
        if card is not None:
            return card, types.Range(types.Position(0, word.start()), types.Position(0, word.end()))
    return None


def found_at(position: types.Position, diagnostics: Iterable[types.Diagnostic]) -> list[types.Diagnostic]:
    """What was found at a place."""
    return [each for each in diagnostics if each.range.start <= position <= each.range.end]


def page(cards: Iterable[RuleCard]) -> types.MarkupContent:
    """The pages of rules, below each other."""
    text = "\n\n---\n\n".join("\n".join(_page(card)) for card in cards)
    return types.MarkupContent(types.MarkupKind.Markdown, text)


def _page(card: RuleCard) -> Iterator[str]:
    fix = f", {card.fix_safety.value} fix" if card.fix_safety else ""
    yield f"# {card.code} {card.name}\n\n*{card.severity.value}{fix}*\n"
    yield fenced(with_difference(page_of(card)))
    address = rule_address(card.code, card.name)
    yield f"\n[{address}]({address})" if address else f"\n`gpudoctor explain {card.code}`"
