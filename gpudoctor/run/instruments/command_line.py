"""Options of the command line that tell a rank who it is, and those that nobody has declared."""

from __future__ import annotations

import argparse
from typing import Any

from gpudoctor.run.instruments.state import State

_NAME = "local_rank"


def watch(state: State) -> None:
    """Keep what was parsed until training begins: programs overwrite options. Write down refused command lines."""
    parser, line = argparse.ArgumentParser, _CommandLine(state)
    parser.parse_known_args = state.recorder.after(parser.parse_known_args, line.keep)  # type: ignore[method-assign]
    parser.error = state.recorder.before(parser.error, line.tell_refused)  # type: ignore[method-assign]


class _CommandLine:
    def __init__(self, state: State) -> None:
        self._state = state

    def keep(self, parsed: Any, *args: Any, **keywords: Any) -> None:
        options = parsed[0]
        if isinstance(options, argparse.Namespace) and hasattr(options, _NAME):
            self._state.options = options, self._state.recorder.place()

    def tell_refused(self, parser: argparse.ArgumentParser, message: str) -> None:
        self._state.write("refused", text=str(message)[:500], place=self._state.recorder.place())


def tell_local_rank(state: State) -> None:
    """Write down what the option says by the time that training begins."""
    if state.options is not None:
        options, place = state.options
        value = getattr(options, _NAME, None)
        state.write("local rank", value=value if isinstance(value, int) else None, place=place)
