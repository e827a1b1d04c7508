"""Which newer syntax a text holds that this Python cannot parse, by the grammar of libcst.

A program of its own: the parser is not of Python and knows no end to its stack. It reads a list of texts and writes a
line for each: what the text holds, or that no Python would read it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator

import libcst
from libcst import CSTNode, CSTVisitor, FormattedString, ParserSyntaxError, parse_module

_MOST_MEMORY = 600 * 1024**2


class _Newer(CSTVisitor):
    """Collects what needs a Python newer than the oldest that gpudoctor runs on: versions with words for it."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[tuple[int, int, str]] = set()

    def on_visit(self, node: CSTNode) -> bool:
        self.found.update(_needs(node))
        return True


def _needs(node: CSTNode) -> Iterator[tuple[int, int, str]]:
    kind = type(node).__name__
    # By name: an older libcst lacks some of them.
    if kind in ("LazyImport", "LazyImportFrom"):
        yield 3, 15, "`lazy import`"
    elif kind == "TemplatedString":
        yield 3, 14, "a template string, `t'…'`"
    elif kind in ("ExceptHandler", "ExceptStarHandler") and _is_bare_tuple(getattr(node, "type", None)):
        yield 3, 14, "`except A, B:` without parentheses"
    elif kind == "TypeParam" and getattr(node, "default", None) is not None:
        yield 3, 13, "the default of a type parameter"
    elif kind == "TypeParameters":
        yield 3, 12, "type parameters"
    elif kind == "TypeAlias":
        yield 3, 12, "the `type` statement"
    elif kind == "TryStar":
        yield 3, 11, "`except*`"
    elif (kind == "Index" and getattr(node, "star", None)) or (kind == "Annotation" and _is_starred(node)):
        yield 3, 11, "this use of `*`"
    elif isinstance(node, FormattedString):
        yield from _in_f_string(node)


def _is_bare_tuple(node: object) -> bool:
    return isinstance(node, libcst.Tuple) and not node.lpar


def _is_starred(node: CSTNode) -> bool:
    return isinstance(getattr(node, "annotation", None), libcst.StarredElement)


def _in_f_string(node: FormattedString) -> Iterator[tuple[int, int, str]]:
    """What stood between the braces was text itself until Python 3.12."""
    quotes = node.end
    for part in node.parts:
        inner = libcst.Module([]).code_for_node(part)
        if not isinstance(part, libcst.FormattedStringExpression):
            continue
        if quotes in inner or "\\" in inner or "#" in inner or (len(quotes) == 1 and "\n" in inner):
            yield 3, 12, "what stands inside an f-string"


def answer(text: str, running: tuple[int, int]) -> tuple[str, str, int, int]:
    """The version that a text needs with words for why, both empty where it cannot be told; and where no Python could
    go on, from 1, or 0 where all of it can be read."""
    try:
        module = parse_module(text)
    except ParserSyntaxError as error:
        place = re.search(r"error at (\d+):(\d+)", str(error))
        return "", "", *((int(place[1]), int(place[2])) if place else (error.editor_line, error.editor_column))
    newer = _Newer()
    module.visit(newer)
    found = max((each for each in newer.found if each[:2] > running), default=None)
    return (f"{found[0]}.{found[1]}", found[2], 0, 0) if found else ("", "", 0, 0)


def main() -> None:
    """Answer for each text on standard input."""
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for text in json.load(sys.stdin):
        try:
            told = answer(text, sys.version_info[:2])
        # Nested too deeply for Python, or for what there is of memory.
        except (RecursionError, MemoryError, ValueError):
            told = "", "", -1, -1
        print(json.dumps(told), flush=True)
