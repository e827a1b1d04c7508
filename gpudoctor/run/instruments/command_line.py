"""Options of the command line that tell a rank who it is, and those that nobody has declared."""

from __future__ import annotations

import argparse
import functools
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from gpudoctor.run.instruments.state import State

_NAME = "local_rank"


def watch(state: State) -> None:
    """Keep what was parsed until training begins: programs overwrite options. Write down refused command lines."""
    parse, refuse = argparse.ArgumentParser.parse_known_args, argparse.ArgumentParser.error
    keep, told = state.recorder.guarded(_keep), state.recorder.guarded(_tell_refused)

    @functools.wraps(parse)
    def watched(self: argparse.ArgumentParser, *args: Any, **keywords: Any) -> Any:
        parsed = parse(self, *args, **keywords)
        keep(state, parsed)
        return parsed

    @functools.wraps(refuse)
    def watched_refuse(self: argparse.ArgumentParser, message: str) -> NoReturn:
        told(state, message)
        refuse(self, message)

    argparse.ArgumentParser.parse_known_args = watched  # type: ignore[method-assign]
    argparse.ArgumentParser.error = watched_refuse  # type: ignore[method-assign]


def _keep(state: State, parsed: Any) -> None:
    options = parsed[0]
    if isinstance(options, argparse.Namespace) and hasattr(options, _NAME):
        state.options = options, state.recorder.place()


def _tell_refused(state: State, message: str) -> None:
    state.write("refused", text=str(message)[:500], place=state.recorder.place())


def tell_local_rank(state: State) -> None:
    """Write down what the option says by the time that training begins."""
    if state.options is not None:
        options, place = state.options
        value = getattr(options, _NAME, None)
        state.write("local rank", value=value if isinstance(value, int) else None, place=place)
