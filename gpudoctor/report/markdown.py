"""A rule's page as plain text: Markdown that reads well in a pipe and at any width."""

from __future__ import annotations

import re
from collections.abc import Iterator
from textwrap import dedent

from gpudoctor.report.highlight import highlighted, looks_of
from gpudoctor.report.text import Style, wrap

_ITEM = re.compile(r"([*-]|\d+\.) +")


def plain(title: str, page: str, style: Style) -> str:
    """The page under its title, wrapped, with headings that stand out."""
    lines = [style.paint(title, "bold"), ""]
    for block in _blocks(page):
        lines += [*_laid_out(block, style), ""]
    return "\n".join(lines).rstrip() + "\n"


def fenced(page: str) -> str:
    """The page with its code between fences that name the language, so that it is shown in colours."""
    blocks = (
        f"```python\n{dedent(block).rstrip()}\n```" if block.startswith("    ") else block for block in _blocks(page)
    )
    return "\n\n".join(blocks)


def _blocks(page: str) -> Iterator[str]:
    """Pieces between empty lines; code stays in one piece, with the empty lines inside it."""
    code: list[str] = []
    for block in re.split(r"\n\s*\n", page.strip("\n")):
        if block.startswith("    "):
            code.append(block)
            continue
        if code:
            yield "\n\n".join(code)
            code = []
        yield from _split_heading(block)
    if code:
        yield "\n\n".join(code)


def _split_heading(block: str) -> Iterator[str]:
    first, _, rest = block.partition("\n")
    if not first.startswith("#") or not rest:
        yield block
        return
    yield first
    yield from _blocks(rest)


def _laid_out(block: str, style: Style) -> Iterator[str]:
    if block.startswith("    "):
        lines = block.rstrip().split("\n")
        looks = looks_of(lines) if style.colour else [""] * len(lines)
        yield from (highlighted(line, look, style) for line, look in zip(lines, looks, strict=True))
    elif block.startswith("#"):
        yield style.paint(block.lstrip("# "), "bold")
        if not style.colour:
            yield "-" * len(block.lstrip("# "))
    elif _ITEM.match(block):
        yield from _items(block, style)
    else:
        yield from wrap(" ".join(block.split("\n")), style.width)


def _items(block: str, style: Style) -> Iterator[str]:
    for item in re.split(r"\n(?=[*-] |\d+\. )", block):
        mark = _ITEM.match(item)
        lead = mark[0] if mark else ""
        yield from wrap(" ".join(item[len(lead) :].split()), style.width, " " * len(lead), lead)
