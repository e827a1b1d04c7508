"""What can be shown where: width, colour and characters of an output stream."""

from __future__ import annotations

import os
from typing import TextIO

from gpudoctor.report.text import Style

COLOURS = ("auto", "always", "never")
_PIPE_WIDTH, _NARROWEST, _WIDEST = 80, 40, 120


def style_for(stream: TextIO, colour: str = "auto") -> Style:
    """How text may look on this stream."""
    return Style(width=width_of(stream), colour=_coloured(stream, colour), unicode=_speaks_unicode(stream))


def width_of(stream: TextIO) -> int:
    """The width of the terminal within reason, 80 where the stream is none."""
    # What the user says counts also for a pipe; shells do not export it by themselves.
    asked = os.environ.get("COLUMNS", "")
    if asked.isdigit() and int(asked) > 0:
        return max(_NARROWEST, int(asked))
    if not stream.isatty():
        return _PIPE_WIDTH
    try:
        columns = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        return _PIPE_WIDTH
    return min(max(_NARROWEST, columns or _PIPE_WIDTH), _WIDEST)


def _coloured(stream: TextIO, colour: str) -> bool:
    if colour != "auto":
        return colour == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def _speaks_unicode(stream: TextIO) -> bool:
    try:
        "\N{BOX DRAWINGS LIGHT VERTICAL}".encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
