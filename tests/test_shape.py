"""The shape of the code: small files, small functions, documented classes, few broad handlers, and the linters."""

from __future__ import annotations

import ast
import io
import statistics
import subprocess
import sys
import tokenize
from collections.abc import Iterator

import pytest
from marks import STUB
from sources import PACKAGES, ROOT, Source, sources

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# Process edges: the command line, a worker, and the border to the user's script.
BROAD_HANDLERS = 4


def test_files_are_small() -> None:
    sizes = sorted((source.text.count("\n"), source.shown) for source in sources().values())
    # The index of the rules is generated: nobody reads it, and it grows with each rule.
    long = [f"{shown}: {lines} lines" for lines, shown in sizes if lines > 600 and not shown.endswith("_index.py")]
    assert not long
    lines = [size for size, _ in sizes]
    assert statistics.median(lines) <= 120
    assert lines[int(0.9 * (len(lines) - 1))] <= 350, sizes[-len(sizes) // 10 :]


def test_functions_are_small() -> None:
    lengths = [(_length(node), f"{source.shown}:{node.lineno} {node.name}") for source, node in _nodes(FUNCTIONS)]
    long = [f"{place}: {lines} lines" for lines, place in lengths if lines > 90]
    assert not long
    large = [place for lines, place in lengths if lines > 50]
    assert len(large) <= 0.04 * len(lengths), large
    assert statistics.median(lines for lines, _ in lengths) <= 14


def test_public_classes_are_documented() -> None:
    # A rule's page is the docstring of its file.
    bare = [
        f"{source.shown}:{node.lineno} {node.name}"
        for source, node in _nodes((ast.ClassDef,))
        if not node.name.startswith("_")
        and not source.name.startswith("gpudoctor_rules.")
        and ast.get_docstring(node) is None
    ]
    assert not bare


def test_modules_are_documented() -> None:
    bare = [s.shown for s in sources().values() if s.text.strip() and ast.get_docstring(s.tree) is None]
    assert not bare


def test_broad_handlers_stand_at_edges_only() -> None:
    broad = [f"{source.shown}:{node.lineno}" for source, node in _nodes((ast.ExceptHandler,)) if _is_broad(node)]
    assert len(broad) <= BROAD_HANDLERS, broad


@pytest.mark.parametrize("package", PACKAGES)
def test_comments_are_few_and_there(package: str) -> None:
    texts = [source.text for source in sources().values() if source.name.split(".")[0] == package]
    lines = sum(text.count("\n") for text in texts)
    comments = sum(_comments(text) for text in texts)
    assert 3 <= 100 * comments / lines <= 7


def test_nothing_is_left_unfinished() -> None:
    words = ("TODO", "FIXME", "XXX", STUB)
    left = [
        f"{source.shown}:{number} {line.strip()}"
        for source in sources().values()
        for number, line in enumerate(source.text.splitlines(), start=1)
        if any(word in line for word in words)
    ]
    assert not left


@pytest.mark.parametrize("command", [("ruff", "check", "--quiet"), ("ruff", "format", "--check", "--quiet"), ("mypy",)])
def test_linters_are_content(command: tuple[str, ...]) -> None:
    run = subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False, timeout=600
    )
    assert run.returncode == 0, run.stdout + run.stderr


def _nodes(kinds: tuple[type, ...]) -> Iterator[tuple[Source, ast.AST]]:
    for source in sources().values():
        for node in ast.walk(source.tree):
            if isinstance(node, kinds):
                yield source, node


def _length(node: ast.AST) -> int:
    return node.end_lineno - node.lineno + 1


def _is_broad(handler: ast.ExceptHandler) -> bool:
    return handler.type is None or (
        isinstance(handler.type, ast.Name) and handler.type.id in {"Exception", "BaseException"}
    )


def _comments(text: str) -> int:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return sum(token.type == tokenize.COMMENT for token in tokens)
