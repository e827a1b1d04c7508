"""The code of a file, without what is only said about it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
"""Where statements hold others."""


def without_comments(text: str, tree: ast.Module) -> str:
    """The text of a file without its comments, and without strings that are statements of their own, as documentation
    is. `tree` is what it was parsed to."""
    said = sorted([*_documentation(text, tree), *_comments(text)])
    ends = [0, *(end for _, end in said)]
    starts = [*(start for start, _ in said), len(text)]
    return "".join(text[end:start] for end, start in zip(ends, starts, strict=True))


def _comments(text: str) -> Iterator[tuple[int, int]]:
    # Strings are matched as well, for what looks like a comment in them is none. Compiled only where it is needed.
    parts = re.finditer(
        r"""#[^\n]*"""
        r"""|"{3}[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*"{3}|\'{3}[^'\\]*(?:(?:\\.|'(?!\'\'))[^'\\]*)*\'{3}"""
        r"""|"[^"\\\n]*(?:\\.[^"\\\n]*)*"|'[^'\\\n]*(?:\\.[^'\\\n]*)*\'""",
        text,
        re.DOTALL,
    )
    return (part.span() for part in parts if part[0][0] == "#")


def _documentation(text: str, tree: ast.Module) -> Iterator[tuple[int, int]]:
    lines = text.split("\n")
    begins = [0]
    for line in lines:
        begins.append(begins[-1] + len(line) + 1)

    def offset(line: int, column: int) -> int:
        # The parser counts bytes of UTF-8.
        known = lines[line - 1]
        known_before = known[:column] if known.isascii() else known.encode()[:column].decode()
        return begins[line - 1] + len(known_before)

    for node in _statements(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
            yield offset(node.lineno, node.col_offset), offset(end_line, end_column)


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        yield node
        for block in _BLOCKS:
            todo += getattr(node, block, ())
