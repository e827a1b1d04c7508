"""The edge of the program: whatever went wrong becomes a message on stderr and an exit code."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Sequence

from gpudoctor.cli.output import say
from gpudoctor.errors import GpudoctorError, InternalError, UsageError, internal_error

INTERRUPTED = 130
PIPE_CLOSED = 141
"""What a shell sees of a program that a closed pipe has ended, as with `cat` or `grep`."""


def at_the_edge(work: Callable[[], int], arguments: Sequence[str]) -> int:
    """Run `work` and turn how it ended into an exit code."""
    _stand_in_for_closed_streams()
    try:
        code = work()
        sys.stdout.flush()
    except InternalError as error:
        return report_bug(error, arguments)
    except GpudoctorError as error:
        _give_up_output(error.__cause__)
        say(f"gpudoctor: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        say("gpudoctor: interrupted")
        return INTERRUPTED
    except BrokenPipeError as error:
        _give_up_output(error)
        return PIPE_CLOSED
    except Exception as error:
        if isinstance(error, FileNotFoundError) and not _has_working_directory():
            say("gpudoctor: the working directory does not exist any more: change to another one")
            return UsageError.exit_code
        return report_bug(internal_error("unexpected", error), arguments)
    return code


def _has_working_directory() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True


def _stand_in_for_closed_streams() -> None:
    """Started with closed streams, as some services do, Python has None for them."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def _give_up_output(error: BaseException | None) -> None:
    """After a failed write: the interpreter flushes once more at its end, and would complain again."""
    if isinstance(error, OSError) and error.errno in (errno.EPIPE, errno.ENOSPC, errno.EIO, errno.EBADF):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def report_bug(bug: InternalError, arguments: Sequence[str]) -> int:
    """Print lines that can be pasted into a report."""
    import platform

    from gpudoctor import __version__

    facts = (
        f"gpudoctor {__version__}, Python {platform.python_version()}, {platform.platform()}",
        f"command: gpudoctor {' '.join(arguments)}",
        *str(bug).splitlines(),
    )
    say(
        "gpudoctor: this is a bug in gpudoctor, not in your program. Please report it with these lines:",
        "",
        *(f"  {fact}" for fact in facts),
        "",
        "GPUDOCTOR_DEBUG=1 shows the whole traceback.",
    )
    if os.environ.get("GPUDOCTOR_DEBUG"):
        import traceback

        for part in traceback.format_exception(type(bug), bug, bug.__traceback__):
            say(*part.splitlines())
    return bug.exit_code
