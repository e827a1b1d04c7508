"""What the bytes of a file say about whether it is worth reading: a search, so that the rest costs no parse."""

from __future__ import annotations

import os
import re
from itertools import islice

from gpudoctor.lint.discovery.top_level import STARTING
from gpudoctor.lint.source.layout import started_in
from gpudoctor.manifest.compiled import mentions

_FRAMEWORKS = tuple([word.encode() for word in mentions()])


def concerns_training(data: bytes) -> bool:
    """The file names a training framework somewhere. A search of bytes, so that the rest costs no parse.

    A file that does not may still start the training through helpers of its own; it is for the caller to decide
    whether those files are read as well.
    """
    return any(name in data for name in _FRAMEWORKS)


def speaks_of_training(data: bytes) -> bool:
    """The file may have a library train of which nothing is known: it names no framework, and something that trains."""
    return b"train" in data.lower()


def trains_below(folder: str) -> bool:
    """Some Python file in a folder asks for gradients and changes weights."""
    # Imported late: nothing is searched for where programs are named.
    from gpudoctor.lint.discovery.walk import files_below

    return any(each.endswith(".py") and _trains(each) for each in islice(files_below(folder), _MOST_SEARCHED))


def _trains(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            raw = file.read()
    except OSError:
        return False
    return b"training_step" in raw or (b"backward(" in raw and b".step(" in raw)


_MOST_SEARCHED = 2000
_ACTS = rb"(?m)^(?:[A-Za-z_][\w.]*(?:\[.*\])?\(|(?:if|for|while|with)\b|raise SystemExit)"

_DEFINES = rb"(?m)^(?:def|async def|class) "
_HANDS_ON = rb"(?m)^[\w.,\t ]+ = (?!dict\()[A-Za-z_][\w.]*\("
"""`result = run()`: as much as a file does that leaves all to a function of another one."""


def may_start(path: str, raw: bytes) -> bool:
    """The file may be a program, by a look at its bytes: what cannot be one costs no parse. The path has no links."""
    name = os.path.basename(path)
    known = b"__main__" in raw or any(each.encode() in raw for each in STARTING)
    if name == "__main__.py" or known or re.search(_ACTS, raw) or started_in(path):
        return True
    return b"import " in raw and re.search(_HANDS_ON, raw) is not None and not re.search(_DEFINES, raw)
