"""`gpudoctor explain`: the page of a rule, or a guide."""

from __future__ import annotations

import argparse
import sys
from importlib import resources

from gpudoctor.cli.command import Command, add_choice
from gpudoctor.cli.output import write_lines
from gpudoctor.cli.rules import table
from gpudoctor.cli.terminal import COLOURS, style_for
from gpudoctor.registry import find_rules, page_of
from gpudoctor.report.markdown import fenced, plain, with_difference
from gpudoctor.rule import RuleCard

_FOLDER = resources.files("gpudoctor").joinpath("guides")


class Explain(Command):
    """Show the page of a rule, or a guide."""

    def declare(self, parser: argparse.ArgumentParser) -> None:
        guides = ", ".join(sorted(_guides()))
        told = f"its code or its name; `GPU5` lists all that begin so; or a guide: {guides}"
        parser.add_argument("rule", metavar="RULE", help=told)
        add_choice(parser, "--color", *COLOURS)

    def run(self, options: argparse.Namespace) -> int:
        guides = _guides()
        name = options.rule.lower()
        style = style_for(sys.stdout, options.color)
        rules = find_rules()
        if len(family := rules.family(name)) > 1:
            write_lines(table(family, style))
            return 0
        title, page = guide(name) if name in guides else _page(rules.find(options.rule, besides=guides))
        if style.colour and sys.stdout.isatty():
            _show_rich(title, page, style.width)
        else:
            write_lines(plain(title, page, style).splitlines())
        return 0


def _guides() -> list[str]:
    """The names of the guides."""
    return [each.name.removesuffix(".md") for each in _FOLDER.iterdir() if each.name.endswith(".md")]


def guide(name: str) -> tuple[str, str]:
    """Title and text of a guide."""
    title, _, page = _FOLDER.joinpath(f"{name}.md").read_text("utf-8").partition("\n")
    return title.removeprefix("# "), page.strip("\n")


def _page(card: RuleCard) -> tuple[str, str]:
    return _title(card), with_difference(page_of(card))


def _title(card: RuleCard) -> str:
    fix = f", {card.fix_safety.value} fix" if card.fix_safety else ""
    return f"{card.code} {card.name} ({card.severity.value}, since {card.since}{fix})"


def _show_rich(title: str, page: str, width: int) -> None:
    # Imported late: rich costs more than most commands, and a pipe has no use for it.
    from rich.console import Console
    from rich.markdown import Markdown

    Console(width=width).print(Markdown(f"# {title}\n\n{fenced(page)}", code_theme="ansi_dark"))
