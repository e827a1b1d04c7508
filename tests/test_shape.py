"""The shape of the code: small functions, documented classes, names of one meaning, few broad handlers, no lint."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator

import pytest

from tests.support.fixture_marks import STUB
from tests.support.sources import ROOT, Source, sources

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# Process edges: the command line, a worker, and the border to the user's script.
BROAD_HANDLERS = 4
# A stub says `-> Setting` of what is a `Setting` once it is called; types that only mypy reads have a stand-in.
SAME_THING = {"Setting", "LibraryContext", "WhatModelsAsk", "Launched", "Program", "Recording"}
CLASS_NAME = re.compile(r"_?[A-Z]\w*[a-z]")


def test_no_file_is_endless() -> None:
    """A file is as long as its one purpose; beyond this, somebody has to look whether it still has one."""
    # The index of the rules is generated: nobody reads it, and it grows with each rule.
    sizes = {s.shown: s.text.count("\n") for s in sources().values()}
    assert not {shown: lines for shown, lines in sizes.items() if lines > 800}


def test_functions_are_small() -> None:
    lengths = [(_length(node), f"{source.shown}:{node.lineno} {node.name}") for source, node in _nodes(FUNCTIONS)]
    long = [f"{place}: {lines} lines" for lines, place in lengths if lines > 90]
    assert not long


def test_a_file_name_means_one_thing() -> None:
    twice = _twice((source.path.stem, source.shown) for source in sources().values() if not source.is_package)
    assert not twice


def test_all_tests_can_be_collected_at_once() -> None:
    """pytest names a test file in a folder that is no package by its bare name, and refuses a second one."""
    files = (path for path in (ROOT / "tests").rglob("test_*.py") if not (path.parent / "__init__.py").exists())
    assert not _twice((path.stem, str(path.relative_to(ROOT))) for path in files)


def test_the_name_of_a_type_means_one_thing() -> None:
    """Classes and aliases, private ones, too: who reads two files of a part reads one language."""
    types = [(name.lstrip("_"), source.shown) for source in sources().values() for name in _types(source.nodes)]
    assert _twice(types).keys() == SAME_THING


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


def _twice(names: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """The names that stand in more files than one, with these."""
    found: dict[str, list[str]] = {}
    for name, file in names:
        found.setdefault(name, []).append(file)
    return {name: files for name, files in found.items() if len(files) > 1}


def _types(module: Iterable[ast.AST]) -> Iterator[str]:
    """The classes that a module defines, and what it gives the name of a class: aliases, but no type variables."""
    for node in module:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and not _is_type_variable(node.value):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (each.id for each in targets if isinstance(each, ast.Name) and CLASS_NAME.match(each.id))


def _is_type_variable(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Call) and ast.unparse(value.func).endswith(("TypeVar", "ParamSpec"))


def _nodes(kinds: tuple[type, ...]) -> Iterator[tuple[Source, ast.AST]]:
    for source in sources().values():
        for node in source.nodes:
            if isinstance(node, kinds):
                yield source, node


def _length(node: ast.AST) -> int:
    return node.end_lineno - node.lineno + 1


def _is_broad(handler: ast.ExceptHandler) -> bool:
    return handler.type is None or (
        isinstance(handler.type, ast.Name) and handler.type.id in {"Exception", "BaseException"}
    )
