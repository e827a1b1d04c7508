"""What this process does when it is told to end: a program that ignores SIGTERM is killed in the middle of its work."""

from __future__ import annotations

import signal

from gpudoctor.run.instruments.state import State


def tell_handler(state: State) -> None:
    """Write down what the program has put in the place of the default, which ends it."""
    handler = signal.getsignal(signal.SIGTERM)
    if handler in (signal.SIG_DFL, None):
        return
    code = getattr(handler, "__code__", None)
    place = [code.co_filename, code.co_firstlineno] if code is not None else None
    state.write("sigterm", ignored=handler is signal.SIG_IGN, place=place)
