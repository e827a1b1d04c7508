"""What may stand at the end of a command line that is being typed: commands, options, their values, rules."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from gpudoctor.cli.command import COMMANDS, command_named
from gpudoctor.registry import find_rules

FILES = {"FILE", "PATHS", "SCRIPT", "GLOB", "LOG", "DIR"}
"""What the help calls a value that is a path: shells complete those better than we could."""


class Suggestion(NamedTuple):
    """A word that fits, and what it means."""

    word: str
    meaning: str = ""


_TOP = (Suggestion("--help", "list the commands"), Suggestion("--version", "show which gpudoctor this is"))


def suggestions(words: Sequence[str]) -> list[Suggestion] | None:
    """What fits in place of the last of these words, the program's name left out; None stands for files.

    bash cuts `--select=GPU3` into three words and wants the last of them alone; other shells want all of it.
    """
    whole = [word for word in words[:-1] if word != "="] + [words[-1].removeprefix("=") if words else ""]
    *before, current = whole
    found = _fitting(before, current)
    return None if found is None else [each for each in found if each.word.startswith(current)]


def _fitting(before: Sequence[str], current: str) -> Iterable[Suggestion] | None:
    command = next((word for word in before if not word.startswith("-")), None)
    if command is None:
        return _TOP if current.startswith("-") else (Suggestion(name, summary) for name, summary in COMMANDS.items())
    if command not in COMMANDS:
        return ()
    parser = argparse.ArgumentParser()
    command_named(command).declare(parser)
    return _of_command(parser, before[before.index(command) + 1 :], current)


def _of_command(parser: argparse.ArgumentParser, before: Sequence[str], current: str) -> Iterable[Suggestion] | None:
    options = {name: action for action in parser._actions for name in action.option_strings}
    asked = options.get(before[-1]) if before else None
    if asked is not None and _takes_value(asked):
        return _values(asked, current)
    if current.startswith("-") and "--" not in before:
        name, sign, value = current.partition("=")
        if not sign or name not in options:
            return (Suggestion(name, action.help or "") for action in parser._actions for name in action.option_strings)
        found = _values(options[name], value)
        return found and [Suggestion(f"{name}={each.word}", each.meaning) for each in found]
    return _of_position(parser, _positions(before, options), current)


def _takes_value(action: argparse.Action) -> bool:
    return action.nargs != 0


def _positions(before: Sequence[str], options: Mapping[str, argparse.Action]) -> int:
    """How many words so far are neither options nor their values."""
    count, value_next = 0, False
    for word in before:
        action = options.get(word)
        count += not value_next and action is None and not word.startswith("--")
        value_next = action is not None and _takes_value(action)
    return count


def _of_position(parser: argparse.ArgumentParser, given: int, current: str) -> Iterable[Suggestion] | None:
    places = [action for action in parser._actions if not action.option_strings]
    if not places:
        return ()
    place = places[min(given, len(places) - 1)]
    # A place that takes one word is full once it has it.
    return () if given and place.nargs is None else _values(place, current)


def _values(action: argparse.Action, current: str) -> Iterable[Suggestion] | None:
    """What the help says of a value is what completes it: `error|never`, `RULE,...`, `FILE`."""
    kind = str(action.metavar or "")
    if "|" in kind:
        return [Suggestion(choice) for choice in kind.split("|")]
    several = kind.endswith(",...")
    kind = kind.removesuffix(",...")
    if kind in FILES:
        return None
    if kind != "RULE":
        return ()
    return _of_list(current) if several else _rules()


def _of_list(current: str) -> Iterator[Suggestion]:
    """Rules for the end of a list with commas, without those that it has already."""
    head, comma, _ = current.rpartition(",")
    for each in (Suggestion("ALL", "all rules"), *_rules()):
        if each.word not in head.split(","):
            yield Suggestion(f"{head}{comma}{each.word}", each.meaning)


def _rules() -> Iterator[Suggestion]:
    cards = find_rules().cards
    yield from (Suggestion(card.code, card.summary) for card in cards)
    yield from (Suggestion(card.name, card.summary) for card in cards)
