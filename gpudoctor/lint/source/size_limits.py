"""How much of a project is read before reading stops. Reaching a limit is always recorded, never silent."""

from __future__ import annotations

import re
from itertools import islice

MAX_FILE_BYTES = 8 * 1024 * 1024
"""Larger files are data written as Python: parsing one takes tens of seconds and gigabytes."""

MAX_NOTEBOOK_BYTES = 48 * 1024 * 1024
"""A notebook holds its plots as well. One sign beyond U+FFFF in it makes four bytes of each."""

MAX_WORDS = 400_000
"""Words and signs of a program, those of all cells of a notebook together: a tree takes up to a kilobyte for each. A
file of 15,000 ordinary lines has a third of that."""

MAX_NOTEBOOK_PARTS = 2_000_000
"""Values in a notebook's JSON. Plots are text, and one value each, however large they are."""

UNPARSABLE = (SyntaxError, RecursionError, MemoryError, SystemError, ValueError, OverflowError)
"""How Python's parser ends with what is no program: deep nesting in one of three ways, which its version decides."""


def too_much(text: str) -> str:
    """Why a program is too large to be parsed; empty where it is not."""
    if len(text) > MAX_FILE_BYTES:
        return f"the file is larger than {MAX_FILE_BYTES // 1024**2} MiB; so much text is data, not a program"
    # Each takes at least one character. Counted one by one: a list of them would take what is to be saved.
    if len(text) > MAX_WORDS and next(islice(re.finditer(r"\w+|[^\w\s]|\n(?!\n)", text), MAX_WORDS, None), None):
        return f"the file has more than {MAX_WORDS:,} words and signs; so much text is data, not a program"
    return ""


MAX_PROJECT_FILES = 500
"""Files read for one entry. The largest training program among those reviewed needs under 200."""

MAX_PROJECT_BYTES = 24 * 1024 * 1024
"""Text read for one entry."""

MAX_FOLDER_SCAN = 400
"""Names looked at in a folder to learn whether it holds Python files: data folders can hold a million images."""

MAX_FOLDERS_BELOW = 10
"""Sub-folders looked into for the same reason."""

MAX_IGNORE_BYTES = 256 * 1024
"""A larger `.gitignore` does not count: no hand has written it."""

MAX_IGNORE_LINES = 5_000
"""Lines of a `.gitignore` that count."""

MAX_STARS = 3
"""A line of a `.gitignore` with more wildcards, besides those at its two ends that stand for folders, does not count.
`**` counts twice."""

MAX_SETUP_BYTES = 64 * 1024
"""Of a `setup.py`, to learn whether it installs a project."""
