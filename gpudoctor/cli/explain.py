"""`gpudoctor explain`: the page of a rule."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from gpudoctor.cli.command import Command, one_of
from gpudoctor.cli.output import write_lines
from gpudoctor.cli.terminal import COLOURS, style_for
from gpudoctor.registry import find_rules, page_of
from gpudoctor.report.markdown import fenced, plain, with_difference

if TYPE_CHECKING:
    import argparse

    from gpudoctor.rule import RuleCard


class Explain(Command):
    """Show the page of a rule."""

    def declare(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("rule", metavar="RULE", help="its code or its name")
        parser.add_argument(
            "--color", metavar="|".join(COLOURS), type=one_of(*COLOURS), default="auto", help="default: auto"
        )

    def run(self, options: argparse.Namespace) -> int:
        card = find_rules().find(options.rule)
        style, page = style_for(sys.stdout, options.color), with_difference(page_of(card))
        if style.colour and sys.stdout.isatty():
            _show_rich(_title(card), page, style.width)
        else:
            write_lines(plain(_title(card), page, style).splitlines())
        return 0


def _title(card: RuleCard) -> str:
    fix = f", {card.fix_safety.value} fix" if card.fix_safety else ""
    return f"{card.code} {card.name} ({card.severity.value}, since {card.since}{fix})"


def _show_rich(title: str, page: str, width: int) -> None:
    # Imported late: rich costs more than most commands, and a pipe has no use for it.
    from rich.console import Console
    from rich.markdown import Markdown

    Console(width=width).print(Markdown(f"# {title}\n\n{fenced(page)}", code_theme="ansi_dark"))
