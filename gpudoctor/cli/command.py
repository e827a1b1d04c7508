"""What a command is, which ones there are, and how their options are parsed."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any, NoReturn

from gpudoctor.cli.terminal import width_of
from gpudoctor.errors import UsageError, nearest

# argparse asks gettext for a translation of each of its words, which loads what is known of all languages to look for
# files of which there are none.
vars(argparse)["_"] = lambda text: text

COMMANDS = {
    "lint": "Read training programs and report what is wrong with them.",
    "explain": "Show the page of a rule, or a guide.",
    "rules": "List the rules.",
    "plan": "Show what was understood of a training program.",
    "probe": "Test whether this machine trains correctly and fast on all its GPUs.",
    "run": "Watch your own training and report what its ranks really do.",
    "read": "Read the logs of a failed job: which rank failed first, where, and what the error means.",
    "env": "Show what a bug report should say about this machine.",
    "server": "Language server: show findings in your editor as you type.",
    "completion": "Print the completion script of a shell, for commands, options and rules.",
}
"""Each lives in the module of its name, as the class of its name."""


class Command:
    """One subcommand. The first line of its docstring is its help."""

    def declare(self, parser: argparse.ArgumentParser) -> None:
        """Add the options."""

    def run(self, options: argparse.Namespace) -> int:
        """Do it, and return the exit code."""
        raise NotImplementedError


def help_formatter(prog: str) -> argparse.HelpFormatter:
    """Help in the width of the terminal. Left to itself, argparse imports compression libraries to learn the width."""
    return _HelpFormatter(prog, width=width_of(sys.stdout) - 2)


class _HelpFormatter(argparse.HelpFormatter):
    """What takes all that remains has a name, too: argparse shows dots alone."""

    def _format_args(self, action: argparse.Action, default_metavar: str) -> str:
        told = super()._format_args(action, default_metavar)
        return f"{action.metavar} {told}" if action.nargs == argparse.REMAINDER and action.metavar else told


class CommandParser(argparse.ArgumentParser):
    """A parser whose errors name the nearest right word."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"formatter_class": help_formatter, **options})

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """The options, where all of them are known."""
        options, unknown = self.parse_known_args(arguments)
        options.arguments = list(arguments)
        if unknown:
            wrong = unknown[0].partition("=")[0]
            known = re.findall(r"--[a-z][a-z-]+", self._usage_of(options.command))
            raise UsageError(f"unknown option `{wrong}`{nearest(wrong, known)}")
        return options

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see `{self.prog} --help`")

    def refuse_unknown_command(self, chosen: str | None) -> None:
        if chosen is not None and chosen not in COMMANDS:
            # Other tools take the program as their first word.
            program = chosen.endswith(".py") or os.path.isdir(chosen)
            hint = f"; did you mean `gpudoctor lint {chosen}`?" if program else nearest(chosen, (*COMMANDS, "help"))
            raise UsageError(f"there is no command `{chosen}`{hint or f'; see `{self.prog} --help`'}")

    def _usage_of(self, command: str | None) -> str:
        if command is None:
            return self.format_usage()
        alone = argparse.ArgumentParser(add_help=False)
        command_named(command).declare(alone)
        return alone.format_usage() + "--help"


def command_named(name: str) -> Command:
    """The command of this name."""
    command: Command = getattr(import_module(f"gpudoctor.cli.{name}"), name.title())()
    return command


def add_choice(parser: argparse._ActionsContainer, option: str, *choices: str) -> None:
    """Declare an option that is one of these; the first is its default."""
    usual = choices[0]
    parser.add_argument(
        option, metavar="|".join(choices), type=one_of(*choices), default=usual, help=f"default: {usual}"
    )


def one_of(*choices: str) -> Callable[[str], str]:
    """A type of options: one of these words."""

    def check(text: str) -> str:
        if text not in choices:
            hint = nearest(text, choices)
            raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(choices)}{hint}")
        return text

    return check


def at_least(least: int) -> Callable[[str], int]:
    """A type of options: a whole number from `least` on."""

    def check(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least} on")
        return int(text)

    return check


def words(text: str) -> list[str]:
    """A type of options: words with commas between them."""
    found = [word for word in re.split(r"[,\s]+", text) if word]
    if not found:
        # An empty variable in a script would otherwise select nothing, and lint would find nothing for ever.
        raise argparse.ArgumentTypeError("there is nothing between the commas")
    return found


def flattened(lists: Iterable[Iterable[str]] | None) -> tuple[str, ...]:
    """What a repeated option of `words` gave, in one tuple."""
    return tuple(word for words in lists or () for word in words)
