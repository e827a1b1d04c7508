"""The command line: one module a command, found by name, so that a command pays only for what it needs."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Sequence
from contextlib import suppress

import gpudoctor.own_modules  # noqa: F401, before all others, which it finds
from gpudoctor.cli.command import COMMANDS, CommandParser, command_named
from gpudoctor.cli.error_boundary import at_the_edge
from gpudoctor.lint.runtime.garbage import SeldomCollecting

__all__ = ["main", "program"]

# Python looks for garbage once more when it ends, and the system frees all at once a moment later.
atexit.register(gc.freeze)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name, and return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    return at_the_edge(lambda: _run(given), given)


def program() -> int:
    """`main` as a process of its own, which ends here unless something else may be at work in it: the system frees at
    once what Python would take apart piece by piece."""
    code = main()
    if "threading" in sys.modules:
        return code
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    atexit._run_exitfuncs()
    os._exit(code)


def _run(arguments: Sequence[str]) -> int:
    arguments = _in_words_of_ours(arguments)
    # What a command is made of is loaded here, and none of it is garbage.
    with SeldomCollecting():
        parser, chosen = _parser(arguments)
        options = parser.parse(arguments)
    if chosen is None or options.command is None:
        parser.print_help(sys.stderr)
        return 2
    return command_named(chosen).run(options)


def _in_words_of_ours(arguments: Sequence[str]) -> Sequence[str]:
    """`help`, `help lint` and `version` are what one tries first."""
    match list(arguments):
        case ["help"]:
            return ["--help"]
        case ["help", command]:
            return [command, "--help"]
        case ["version"] | [_, "--version" | "-V"]:
            return ["--version"]
    return arguments


def _parser(arguments: Sequence[str]) -> tuple[CommandParser, str | None]:
    """The parser, with the options of the one command that is asked for, and that command's name."""
    # No abbreviations: a script that relies on one breaks when an option is added that begins like it.
    parser = CommandParser(
        prog="gpudoctor",
        description="Find the mistakes that keep PyTorch from training correctly and fast on all GPUs.",
        allow_abbrev=False,
    )
    parser.add_argument("-V", "--version", action="version", version=_version())
    # With `prog` given, argparse does not format a usage line to learn it, which would cost milliseconds.
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands", prog="gpudoctor")
    chosen = next((argument for argument in arguments if not argument.startswith("-")), None)
    parser.refuse_unknown_command(chosen)
    # The others are for those who ask what there is, and each takes as long as all options of one.
    known = {chosen: COMMANDS[chosen]} if chosen is not None and chosen == arguments[0] else COMMANDS
    for name, summary in known.items():
        description = command_named(name).__doc__ if name == chosen else None
        below = commands.add_parser(name, help=summary, description=description, allow_abbrev=False)
        if name == chosen:
            command_named(name).declare(below)
    return parser, chosen


def _version() -> str:
    from gpudoctor import __version__

    return f"gpudoctor {__version__}"
