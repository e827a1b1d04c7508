"""Where a report goes: standard output, or a file that is whole or not there at all."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable
from typing import TextIO

from gpudoctor.cli.terminal import style_for
from gpudoctor.errors import UsageError
from gpudoctor.report.text import Style, written


def rendered(
    options: argparse.Namespace, stream: TextIO, document: Callable[[], str], lines: Callable[[Style], Iterable[str]]
) -> str:
    """A report in the format that was asked for: as JSON, or as lines in the style of the stream that they go to."""
    if options.output_format == "json":
        return document()
    colour = "never" if options.output_file and options.color == "auto" else options.color
    return written(lines(style_for(stream, colour)))


def say(*lines: str) -> None:
    """Write lines to standard error, and nothing in them that steers a terminal or a service."""
    sys.stderr.write(written(lines))
    sys.stderr.flush()


def write_aside(report: str) -> None:
    """Write a report to standard error, where standard output belongs to something else."""
    sys.stderr.write(report)
    sys.stderr.flush()


def write_lines(lines: Iterable[str]) -> None:
    """Write lines for people to standard output."""
    write_out(written(lines))


def write_out(text: str) -> None:
    """Write to stdout what its encoding can say, and a question mark for the rest. Lines for people go through
    `written` first; documents escape by themselves what is in them."""
    encoding = sys.stdout.encoding or "utf-8"
    try:
        sys.stdout.write(_exact(text).encode(encoding, "replace").decode(encoding))
        # Standard error is not held back: in a log of both, the report must come before what is said about it.
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UsageError(f"standard output cannot be written: {error.strerror}") from error


def _exact(text: str) -> str:
    # The one control character that JSON leaves as it is; lines for people have none any more.
    return text.replace("\x7f", "\\u007f")


def refuse_bad_target(path: str, option: str = "--output-file") -> None:
    """Fail before the work rather than after it."""
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path):
        raise UsageError(f"{option} {path}: this is a folder")
    if not os.path.isdir(folder):
        raise UsageError(f"{option} {path}: there is no folder `{os.path.dirname(path)}`")


def refuse_no_page(path: str) -> None:
    """Fail before the work where its page could not be made."""
    from importlib.util import find_spec

    refuse_bad_target(path, "--html")
    missing = [name for name in ("jinja2", "matplotlib") if find_spec(name) is None]
    if missing:
        raise UsageError(f"--html {path}: needs {' and '.join(missing)}; pip install {' '.join(missing)}")


def write_file(path: str, text: str, option: str = "--output-file") -> None:
    """Replace a file in one step, so that nobody ever reads half of it."""
    text = _exact(text)
    target = os.path.realpath(path)
    try:
        if os.path.exists(target) and not os.path.isfile(target):  # a pipe or a device cannot be replaced
            with open(target, "w", encoding="utf-8") as stream:
                stream.write(text)
            return
        # Imported late: most reports are printed.
        from gpudoctor.drafts import replace_file

        replace_file(target, text.encode("utf-8"))
    except OSError as error:
        raise UsageError(f"{option} {path}: cannot be written: {error.strerror}") from error
