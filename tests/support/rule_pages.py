"""The built-in rules with their pages taken apart."""

import re
import textwrap
from functools import cached_property
from importlib import import_module
from pathlib import Path

from gpudoctor.registry import ERROR_TEXTS, find_rules, load, page_of
from gpudoctor.rule import RuleCard

SECTIONS = ("What goes wrong", "Bad", "Good", "Fix", "Silent when", "Sources")

FAMILIES = {
    "tool": "0",
    "wrap": "1",
    "device": "2",
    "data": "3",
    "launch": "4",
    "collective": "5",
    "checkpoint": "6",
    "gradient": "7",
    "throughput": "8",
    "frameworks": "9",
}
"""Each family of rules with the beginning of its codes."""


class Page:
    """A rule, its file and its page: the docstring of that file, with the examples among its fixtures."""

    def __init__(self, card: RuleCard) -> None:
        self.rule = load(card)
        self.path = Path(str(import_module(card.module).__file__))
        self.text = page_of(card).strip("\n")

    @cached_property
    def sections(self) -> dict[str, str]:
        """The bodies of the sections that are written, by title, in the order of the page."""
        _, *parts = re.split(r"^## (.+)$", self.text, flags=re.MULTILINE)
        return {title: body for title, body in zip(parts[::2], parts[1::2], strict=True) if title != ERROR_TEXTS}

    def code(self, section: str) -> str:
        """The indented block of a section, as a program."""
        lines = self.sections[section].splitlines()
        return textwrap.dedent("\n".join(line for line in lines if line.startswith("    ") or not line.strip())).strip()


def programs_in(text: str) -> dict[str, str]:
    """The indented blocks of a page by the first word of their sections."""
    _, *parts = re.split(r"^## (\S+).*$", text, flags=re.MULTILINE)
    blocks = (re.findall(r"(?:^    .*\n|^\n)+", body, re.MULTILINE) for body in parts[1::2])
    return {
        name: textwrap.dedent("".join(found)).strip() + "\n" for name, found in zip(parts[::2], blocks, strict=True)
    }


def pages() -> list[Page]:
    """The pages of all built-in rules, by code."""
    return [Page(card) for card in find_rules().cards if card.module.startswith("gpudoctor_rules.")]
