"""What IPython adds to Python in a cell: magics, shell lines and questions. They become Python that does nothing.

Lines and columns stay as they are, so that what is found is found where the user sees it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from gpudoctor.lint.source.process_state import no_warnings
from gpudoctor.record import dataclass, replace

# Of these the cell below is Python, which is executed as if they were not there.
RUN_BELOW = frozenset("capture debug ipytest memit prun snakeviz time timeit wandb".split())
# What is behind these is Python, too.
_RUN_BEHIND = re.compile(r"%(?:time|timeit|prun|memit)(?:[ \t]+-\w+(?:[ \t]+\d+)?)*[ \t]+(?=[^-\s])")
_FOREIGN_BELOW = frozenset(
    """
    ! HTML SVG R bash bigquery cmd cython file html javascript js julia latex markdown md perl powershell pypy python
    python2 python3 ruby script sh shell sql svg system writefile
    """.split()
)
"""Cells that do nothing to the variables of the others. Of all other cell magics that is not known."""
_FOREIGN_LINE = re.compile(r"%(?:sql|md|md-sandbox|scala|r|sh|fs)\b")
"""With these Databricks begins cells of other languages."""
CELL_MAGIC = re.compile(r"%%([\w!.-]*)")
_WRITE = re.compile(r"%%(?:writefile|file)[ \t]+([\w./-]+\.py)[ \t]*$")
SETS_VARIABLE = re.compile(r"%(?:set_)?env[ \t]+(\w+)(?:=|[ \t]+)(.*\S)")
_RUN_FILE = re.compile(r"%(?:run|runfile|rerun|px)\b")
# Not `a != b`, and not `a %= b`.
_ASSIGNED = re.compile(r"(\s*[A-Za-z_][\w.,\[\]'\" \t*]*?=[ \t]*)[!%](?=[A-Za-z_({$/.~!])")
# IPython takes these as magics also without `%`, where no name of the program is called so.
_AUTOMATIC = re.compile(r"(?:pip|conda|mamba|micromamba|uv|cd|ls|cat|cp|mv|mkdir|rm|rmdir)[ \t]+[-\w./~$*{\"']")
_QUESTION = re.compile(r"\s*%{0,2}[\w.*\[\]-]+\?{1,2}\s*(?:#.*)?$")
_LEADS = ("!", "%", "?", ",", ";", "/")
# Text without an end goes to the end of its line: to look for it again behind each quote in it would take hours.
_SIGNS = re.compile(r"""#|\"{3}|'{3}|"(?:\\.|[^"\\])*"?|'(?:\\.|[^'\\])*'?|[\[({]|[\])}]""")
IN_BLOCK = "if True:"
"""The line above an indented cell."""
_NOTHING = "pass"
# Whatever a command returns: a name that only notebooks know.
_SOMETHING = "get_ipython()"


@dataclass(frozen=True)
class Plain:
    """A cell as Python. `replaced` are the lines, from 1, of which something is not as the user has written it; `gap`
    says what of the cell may have had an effect that is not seen, and is empty where all is. An `indented` cell is to
    stand in a block. `writes` is the program to which the cell writes all that stands below line `above`."""

    text: str
    replaced: frozenset[int] = frozenset()
    gap: str = ""
    indented: bool = False
    writes: str = ""
    above: int = 0


def plain(source: str) -> Plain:
    """A cell as Python, as many lines long; a cell of another language as empty lines. Raises what the parser does."""
    try:
        _parse(source)
        return Plain(source)
    except (SyntaxError, ValueError):
        # Only now: inside of a string, such lines are text.
        return _without_magics(source)


def _parse(text: str) -> None:
    with no_warnings():
        ast.parse(text)


def _without_magics(source: str) -> Plain:
    lines = source.split("\n")
    kept = list(lines)
    gaps: list[str] = []
    for index, line in enumerate(kept):
        if not line.strip():
            continue
        # One may stand above the other: `%%capture`, then `%%time`.
        magic = CELL_MAGIC.match(line.lstrip())
        if magic is None:
            break
        if magic[1] not in RUN_BELOW:
            empty = Plain("\n" * (len(lines) - 1))
            if writes := _WRITE.match(line.strip()):
                return replace(empty, writes=writes[1], above=index + 1)
            known = magic[1] in _FOREIGN_BELOW
            return empty if known else replace(empty, gap=f"`%%{magic[1]}` decides what its cell does")
        kept[index] = ""
    gaps += _replace(kept)
    text = "\n".join(kept)
    replaced = frozenset(number for number, (one, other) in enumerate(zip(lines, kept, strict=True), 1) if one != other)
    gap = gaps[0] if gaps else ""
    try:
        _parse(text)
    except SyntaxError as error:
        # IPython takes away what a whole cell is indented by.
        if isinstance(error, IndentationError) and _parses(f"{IN_BLOCK}\n{text}"):
            return Plain(text, replaced, gap, indented=True)
        if _FOREIGN_LINE.match(source.lstrip()):
            return Plain("\n" * (len(lines) - 1))
        raise
    return Plain(text, replaced, gap)


def without_magics(lines: Sequence[str]) -> str:
    """The lines of a cell that cannot be read, as far as they are Python."""
    kept = list(lines)
    _replace(kept)
    return "\n".join(kept)


def _parses(text: str) -> bool:
    try:
        _parse(text)
    except (SyntaxError, ValueError):
        return False
    return True


def _replace(lines: list[str]) -> list[str]:
    """Put something in the place of each line that is not Python; what of them may have had an effect."""
    inside = _Inside()
    gaps: list[str] = []
    skipping = False
    for index, line in enumerate(lines):
        if skipping:
            lines[index] = ""
            skipping = line.rstrip().endswith("\\")
            continue
        stand_in = _stand_in(line) if inside.begins else None
        if stand_in is None:
            inside.read(line)
            continue
        if found := _RUN_FILE.match(line.lstrip()):
            gaps.append(f"what `{found[0]}` runs is not read")
        lines[index] = stand_in
        skipping = line.rstrip().endswith("\\")
    return gaps


def _stand_in(line: str) -> str | None:
    """Python of the same columns for a line that is none; None for one that is."""
    code = line.lstrip()
    indent = line[: len(line) - len(code)]
    # No statement of Python begins with one of these.
    if code.startswith(_LEADS):
        if setting := SETS_VARIABLE.match(code):
            # What is filled in by IPython is not known.
            value = _SOMETHING if re.search(r"[${]", setting[2]) else repr(setting[2])
            return f"{indent}__import__('os').environ[{setting[1]!r}] = {value}"
        behind = _RUN_BEHIND.match(code)
        if behind and not line.rstrip().endswith("\\"):
            return f"{indent}{f'{_NOTHING};':<{behind.end()}}{code[behind.end() :]}"
        return indent + _NOTHING
    if assigned := _ASSIGNED.match(line):
        return assigned[1] + _SOMETHING
    return indent + _NOTHING if _QUESTION.match(line) or (_AUTOMATIC.match(code) and not _parses(code)) else None


class _Inside:
    """Whether a line begins a statement, or is inside of a string, of brackets or behind a backslash."""

    def __init__(self) -> None:
        self._quotes = ""
        self._depth = 0
        self._continued = False

    @property
    def begins(self) -> bool:
        return not self._quotes and not self._depth and not self._continued

    def read(self, line: str) -> None:
        at = 0
        while True:
            if self._quotes:
                end = _end_of_text(line, at, self._quotes)
                if end < 0:
                    self._continued = False
                    return
                at, self._quotes = end, ""
            found = _SIGNS.search(line, at)
            if found is None or found[0] == "#":
                break
            at = found.end()
            if found[0] in ('"""', "'''"):
                self._quotes = found[0]
            elif found[0] in "[({":
                self._depth += 1
            elif found[0] in "])}":
                self._depth = max(0, self._depth - 1)
        self._continued = found is None and line.endswith("\\")


def _end_of_text(line: str, at: int, quotes: str) -> int:
    """Where the text in triple quotes ends that is open at a place, or -1."""
    while (end := line.find(quotes, at)) >= 0:
        slashes = len(line[:end]) - len(line[:end].rstrip("\\"))
        if slashes % 2 == 0:
            return end + len(quotes)
        at = end + 1
    return -1
