"""Text of others made harmless: what steers a terminal or a service that reads the log is shown instead of obeyed.

Texts of a program, paths, settings and options end up in messages. Before a line is written it passes `visible`, and
`defused` where it is a line of its own in a log.
"""

from __future__ import annotations

import re

# Compiled where they are needed first: most lines are harmless, and each start would pay.
# Control characters, marks that turn the direction of writing, line ends that are none, and halves of characters.
_UNSEEN = "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
_NAMED = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}
# GitHub's older form and those of Azure and TeamCity count anywhere in a line.
_COMMAND = r"##(?=\w*\[)"


def visible(text: str, kept: str = "") -> str:
    """`text` on one line, with an escape such as `\\x1b` for each character that would do something; not for `kept`."""
    if text.isprintable():
        return text
    return re.sub(_UNSEEN, lambda found: found[0] if found[0] in kept else _escape(found[0]), text)


def _escape(char: str) -> str:
    code = ord(char)
    return _NAMED.get(char) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


def defused(line: str, begins: bool = True) -> str:
    """`line` without what a service takes for a command: GitHub's runner obeys `::error::` also behind blanks."""
    if begins and (rest := line.lstrip()).startswith("::"):
        line = f"{line[: len(line) - len(rest)]}\\{rest}"
    return re.sub(_COMMAND, r"#\\#", line) if "##" in line else line
