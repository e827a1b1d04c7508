"""Files of variables that launch files name: `.env`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gpudoctor.diagnostic import Location
from gpudoctor.lint.launchfiles.documents import Document
from gpudoctor.lint.launchfiles.placed_text import PlacedText
from gpudoctor.lint.launchfiles.shell import Scripts
from gpudoctor.lint.launchfiles.shell_words import ShellVariable, Word, bound_to

_SETS = re.compile(r"\s*(?:export\s+)?(\w+)=[\"']?(.*?)[\"']?\s*")


def variables_of(text: PlacedText) -> Iterator[tuple[str, ShellVariable]]:
    """What a file of variables says, a line for each."""
    start = 0
    for line in text.text.splitlines(keepends=True):
        found = _SETS.fullmatch(line)
        if found is not None:
            yield found[1], bound_to(found[2], text.location(start + found.start(1), start + found.end(2)))
        start += len(line)


def variables_named(names: Iterable[Document], others: Scripts | None) -> dict[str, ShellVariable]:
    """What the files with these names say; the last one counts."""
    texts = (text_named(each.text, others, each.at) for each in names)
    return {name: bound for text in texts if text is not None for name, bound in variables_of(text)}


def text_named(name: str | None, others: Scripts | None, at: Location) -> PlacedText | None:
    return others(Word((name,), at), "") if others is not None and name is not None else None
