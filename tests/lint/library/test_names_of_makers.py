"""The names under which values say which library made them: each is one that the library has."""

import ast
import importlib.util
from pydoc import locate

import pytest

from gpudoctor.lint.library.device_meshes import MESH
from tests.support.sources import sources


def _written(node: ast.expr) -> str:
    """A constant, or the part of an f-string before what is put in."""
    first = node.values[0] if isinstance(node, ast.JoinedStr) else node
    return first.value.rstrip(".") if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""


def _names() -> set[str]:
    return {MESH} | {
        _written(keyword.value)
        for source in sources().values()
        if "escaped_from=" in source.text
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "escaped_from" and _written(keyword.value)
    }


@pytest.mark.slow
def test_a_library_has_what_is_said_to_be_its_own() -> None:
    installed = [name for name in _names() if importlib.util.find_spec(name.partition(".")[0]) is not None]
    assert MESH in installed
    assert [name for name in installed if locate(name) is None] == []
