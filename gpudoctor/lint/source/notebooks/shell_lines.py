"""What a notebook has the shell do: `!torchrun train.py`, `%cd`, `%env`, cells of `%%bash`."""

from __future__ import annotations

import ast
import itertools
import re
import shlex
from collections.abc import Iterator

from gpudoctor.lint.source.notebooks.cells import Cells, lines_of
from gpudoctor.lint.source.notebooks.magics import CELL_MAGIC, RUN_BELOW, SETS_VARIABLE, plain
from gpudoctor.lint.source.size_limits import UNPARSABLE

_OF_SHELL = frozenset({"bash", "sh", "script"})
_FILLED_IN = re.compile(r"(?<!\$)\{[A-Za-z_][^{}]*\}")
"""IPython fills in what Python says there."""


def shell_of(cells: Cells) -> str:
    """The script that all cells are, one after the other. What stands on a line of the joined program stands on the
    same line here, and in the same column where it is a command."""
    lines = [""] * (cells.text.count("\n") + 1)
    for cell, first in zip(cells.cells, cells.first, strict=True):
        for index, line in _commands(cell.source):
            lines[first - 1 + index] = line
    return "\n".join(lines)


def _commands(source: str) -> Iterator[tuple[int, str]]:
    lines = lines_of(source)
    top = next((index for index, line in enumerate(lines) if line.strip()), 0)
    magic = CELL_MAGIC.match(lines[top].lstrip()) if lines else None
    if magic is not None and magic[1] not in RUN_BELOW:
        if magic[1] in _OF_SHELL:
            # A shell of its own: the line behind the last one is in no cell.
            yield from enumerate(["(", *lines[top + 1 :], ")"], top)
        return
    yield from _variables(source)
    for index, line in enumerate(lines):
        code = line.lstrip()
        indent = " " * (len(line) - len(code))
        if code.startswith("!"):
            ends = itertools.takewhile(lambda line: line.rstrip().endswith("\\"), lines[index:])
            texts = lines[index : index + len(list(ends)) + 1]
            # Each has a shell of its own: what it sets is gone afterwards.
            begins, end = (" ", "") if "#" in texts[-1] else ("(", ")")
            texts[0] = indent + begins + code.removeprefix("!")
            texts[-1] += end
            # As long as what stood there.
            for at, text in enumerate(texts, index):
                yield at, _FILLED_IN.sub(lambda found: "$" + "_" * (len(found[0]) - 1), text)
        elif code.startswith("%cd "):
            yield index, f"{indent} {code[1:]}"
        elif setting := SETS_VARIABLE.match(code):
            yield index, f"export {setting[1]}={setting[2]}"


def _variables(source: str) -> Iterator[tuple[int, str]]:
    """`os.environ["NAME"] = "value"`, and constants of Python, which commands name as `$NAME`."""
    try:
        body = ast.parse(plain("\n".join(lines_of(source))).text).body
    except UNPARSABLE:
        return
    for node in body:
        match node:
            case ast.Assign(targets=[ast.Name(name)], value=ast.Constant(str() | int() as value)):
                yield node.lineno - 1, f"{name}={shlex.quote(str(value))}"
            case ast.Assign(
                targets=[ast.Subscript(value=held, slice=ast.Constant(str(name)))], value=ast.Constant(str(value))
            ) if name.isidentifier() and ast.unparse(held) in ("os.environ", "environ"):
                yield node.lineno - 1, f"export {name}={shlex.quote(value)}"
