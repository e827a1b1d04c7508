"""How programs read their command lines."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from gpudoctor.lint.launchfiles.shell_words import Word
from gpudoctor.lint.launchfiles.start import StartOption
from gpudoctor.record import dataclass


@dataclass(frozen=True)
class Syntax:
    """How a program reads its command line: which options stand alone, and what short ones are short for. All others
    take a value."""

    flags: frozenset[str] = frozenset()
    short: Mapping[str, str] | None = None
    optional: frozenset[str] = frozenset()
    """Take a value only behind `=`."""
    two: frozenset[str] = frozenset()
    """Take two values."""
    single_dash: bool = False
    """Long options may have one dash."""
    starting: frozenset[str] = frozenset()
    """Commands that it starts behind one word of its own: `docker run IMAGE torchrun`."""


def words_of(text: str) -> frozenset[str]:
    return frozenset(text.split())


def options_of(words: Sequence[Word], syntax: Syntax) -> tuple[dict[str, StartOption], tuple[Word, ...], bool]:
    """The options at the beginning of words, the words behind them, and whether all options are known."""
    found: dict[str, StartOption] = {}
    closed, at = True, 0
    while at < len(words):
        word = words[at]
        first = word.parts[0] if word.parts else ""
        usual = word.usual
        plain = usual and " " not in usual and not usual.startswith("-")
        if word.open and not isinstance(first, str) and not plain:
            closed = False
            at += 1
            continue
        if not isinstance(first, str) or not first.startswith("-") or first == "-":
            break
        if first == "--":
            at += 1
            break
        taken = _option(words, at, first, syntax)
        found[taken.name] = taken
        at += len(taken.words)
    if not closed and at < len(words) and words[at].text in syntax.starting and words[at - 1].open:
        # What comes from outside in front of a command is the word that belongs there.
        at -= 1
        found, _, closed = options_of(words[:at], syntax)
    return found, tuple(words[at:]), closed


def _option(words: Sequence[Word], at: int, first: str, syntax: Syntax) -> StartOption:
    word = words[at]
    long = first.startswith("--") or syntax.single_dash
    bare, equals, _ = first.lstrip("-").partition("=") if long else (first[1:], "", "")
    name, short = bare.replace("_", "-"), syntax.short or {}
    if equals:
        value = word.after(first[: first.index("=") + 1])
        return StartOption(short.get(name, name), value, word.at, (word,))
    if name in short:
        name = short[name]
    elif not long and bare[:1] in short and name not in syntax.flags and len(bare) > 1:
        # `-N2`
        value = word.after(f"-{bare[0]}")
        return StartOption(short[bare[0]], value, word.at, (word,))
    elif not long and name not in syntax.flags and bare[:1] in syntax.flags and len(bare) > 1:
        return StartOption(name, None, word.at, (word,))
    if name in syntax.flags or name in syntax.optional:
        return StartOption(name, None, word.at, (word,))
    count = 2 if name in syntax.two else 1
    values = tuple(words[at + 1 : at + 1 + count])
    return StartOption(name, values[0] if values else None, word.at, (word, *values))


def values_of(words: Sequence[Word], flags: tuple[str, ...]) -> Iterator[Word]:
    """What each of these options is given, which may come more than once."""
    for flag, value in itertools.pairwise(words):
        if flag.text in flags:
            yield value
        else:
            for each in flags:
                after = flag.after(f"{each}=")
                if after is not None:
                    yield after
