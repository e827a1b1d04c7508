"""What Python writes where a signal ends its process: which one, and where each thread stood.

Of SIGTERM it only writes where they stood.
"""

from __future__ import annotations

import re

_SIGNAL = re.compile(r"^Fatal Python error: (?P<signal>.+)$", re.M)
_THREAD = re.compile(r"^(?P<current>Current t|T)hread 0x\w+ .*\(most recent call first\):$", re.M)
_FRAME = re.compile(r'^  File "(?P<file>[^"]+)", line (?P<line>\d+) in (?P<function>.+)$', re.M)

Frames = list[tuple[str, int, str]]
"""File, line and function of each call, outermost first."""


def fatal_of(text: str) -> tuple[str, Frames] | None:
    """The signal, and the calls of the thread that met it; where that was none of Python, of the one that runs the
    program. The signal is empty where Python does not name it."""
    signal = _SIGNAL.search(text)
    begins = list(_THREAD.finditer(text))
    if signal is None and not begins:
        return None
    ends = [each.start() for each in begins[1:]] + [len(text)]
    threads = [(each["current"], _frames(text[each.end() : end])) for each, end in zip(begins, ends, strict=False)]
    of_program = (frames for _, frames in threads if frames and frames[0][2] == "<module>")
    frames = next((frames for current, frames in threads if current.startswith("C")), None)
    return signal["signal"].strip() if signal else "", frames or next(of_program, [])


def _frames(text: str) -> Frames:
    found = [(each["file"], int(each["line"]), each["function"]) for each in _FRAME.finditer(text)]
    return found[::-1]
