"""A rule's page as plain text: Markdown that reads well in a pipe and at any width."""

from __future__ import annotations

import re
from collections.abc import Iterator
from textwrap import dedent

from gpudoctor.report.highlight import highlighted, looks_of
from gpudoctor.report.text import Style, wrap

_EXAMPLES = re.compile(r"^## Bad\n((?:    .*\n|\n)+)## Good\n((?:    .*\n|\n)+)(?=## )", re.MULTILINE)
_BOTH = "## Bad (-) and good (+)"
_LOOKS = {"-": "removed", "+": "added"}
_ITEM = re.compile(r"([*-]|\d+\.) +")


def plain(title: str, page: str, style: Style) -> str:
    """The page under its title, wrapped, with headings that stand out."""
    lines = [style.paint(title, "bold"), ""]
    for block in _blocks(page):
        lines += [*_laid_out(block, style), ""]
    return "\n".join(lines).rstrip() + "\n"


def fenced(page: str) -> str:
    """The page with its code between fences that name the language, so that it is shown in colours."""
    return "\n\n".join(_fenced(block) if block.startswith("    ") else block for block in _blocks(page))


def _fenced(block: str) -> str:
    code = dedent(block).rstrip()
    return f"```{'diff' if _is_difference(code) else 'python'}\n{code}\n```"


def with_difference(page: str) -> str:
    """The page with one program in place of its bad and its good example, where these are mostly alike: with the lines
    that make the mistake, and those that stand there without it."""
    found = _EXAMPLES.search(page)
    if found is None:
        return page
    lines = _difference(*(dedent(text.strip("\n")).rstrip().split("\n") for text in found.groups()))
    changed = sum(line[0] in "-+" for line in lines)
    if changed > len(lines) - changed:
        return page
    block = "\n".join(f"    {line}".rstrip() for line in lines)
    return f"{page[: found.start()]}{_BOTH}\n\n{block}\n\n{page[found.end() :]}"


def _difference(bad: list[str], good: list[str]) -> list[str]:
    """All lines of both, those in common once."""
    # Imported late: a lint shows no page.
    from difflib import SequenceMatcher

    lines: list[str] = []
    for kind, start, end, other_start, other_end in SequenceMatcher(None, bad, good, autojunk=False).get_opcodes():
        if kind == "equal":
            lines += [f"  {line}" for line in bad[start:end]]
        else:
            lines += [f"- {line}" for line in bad[start:end]] + [f"+ {line}" for line in good[other_start:other_end]]
    return lines


def _is_difference(code: str) -> bool:
    lines = [line for line in code.split("\n") if line]
    return all(line[:2] in ("  ", "- ", "+ ", "-", "+") for line in lines) and any(line[0] in "-+" for line in lines)


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
        yield from _code(block.rstrip().split("\n"), _is_difference(dedent(block)), style)
    elif block.startswith("#"):
        yield style.paint(block.lstrip("# "), "bold")
        if not style.colour:
            yield "-" * len(block.lstrip("# "))
    elif _ITEM.match(block):
        yield from _items(block, style)
    else:
        yield from wrap(" ".join(block.split("\n")), style.width)


def _code(lines: list[str], difference: bool, style: Style) -> Iterator[str]:
    if difference:
        yield from (style.paint(line, _LOOKS[line[4:5]]) if line[4:5] in _LOOKS else line for line in lines)
        return
    looks = looks_of(lines) if style.colour else [""] * len(lines)
    yield from (highlighted(line, look, style) for line, look in zip(lines, looks, strict=True))


def _items(block: str, style: Style) -> Iterator[str]:
    for item in re.split(r"\n(?=[*-] |\d+\. )", block):
        mark = _ITEM.match(item)
        lead = mark[0] if mark else ""
        yield from wrap(" ".join(item[len(lead) :].split()), style.width, " " * len(lead), lead)
