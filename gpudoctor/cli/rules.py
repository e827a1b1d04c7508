"""`gpudoctor rules`: which rules there are."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from gpudoctor.cli.command import Command, add_choice
from gpudoctor.cli.output import write_lines, write_out
from gpudoctor.cli.terminal import COLOURS, style_for
from gpudoctor.registry import find_rules
from gpudoctor.report.text import Style, wrap
from gpudoctor.rule import RuleCard


class Rules(Command):
    """List the rules."""

    def declare(self, parser: argparse.ArgumentParser) -> None:
        add_choice(parser, "--output-format", "text", "json")
        add_choice(parser, "--color", *COLOURS)

    def run(self, options: argparse.Namespace) -> int:
        cards = find_rules().cards
        if options.output_format == "json":
            write_out(_document(cards))
        else:
            write_lines(table(cards, style_for(sys.stdout, options.color)))
        return 0


def table(cards: Iterable[RuleCard], style: Style) -> Iterator[str]:
    """The rules by their families, each with what it finds."""
    family = ""
    for card in cards:
        if card.family != family:
            if family:
                yield ""
            family = card.family
            yield style.paint(family, "bold")
        severity = style.paint(f"{card.severity.value:<8}", card.severity.value)
        fix = style.paint(f"  {card.fix_safety.value} fix", "dim") if card.fix_safety else ""
        yield f"  {card.code}  {severity} {card.name}{fix}"
        yield from (style.paint(line, "dim") for line in wrap(card.summary, style.width, " " * 19))


def _document(cards: Iterable[RuleCard]) -> str:
    import json

    return json.dumps({"version": 1, "rules": [_entry(card) for card in cards]}, indent=2) + "\n"


def _entry(card: RuleCard) -> dict[str, Any]:
    return {
        "code": card.code,
        "name": card.name,
        "severity": card.severity.value,
        "family": card.family,
        "summary": card.summary,
        "since": card.since,
        "fix": card.fix_safety.value if card.fix_safety else None,
        "shows_in_run": card.shows_in_run,
    }
