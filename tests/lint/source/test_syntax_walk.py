"""Syntax trees are walked as `ast.walk` does, in its order."""

import ast
from pathlib import Path

import pytest

from gpudoctor.lint.source.syntax_walk import parts_of, statements, walk

LEFT_OUT = (ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop)
FIXTURES = Path(__file__).parents[3] / "fixtures"
PROGRAMS = [path.read_text(encoding="utf-8") for path in sorted((FIXTURES / "programs").rglob("*.py"))[:20]]
FORMS = """
match x:
    case [1, *rest] if rest: import a
    case {"k": v, **others}: pass
try:
    import b
except (A, B) as error:
    from c import d as e
else:
    async def f(a: int = 1, /, *args: str, key: bytes = b"", **rest) -> None:
        global g
        async with o as p: return [i async for i in await j if k]
finally:
    class K(L, metaclass=M):
        n: "o" = lambda: (yield 1.5j)
for _ in (): print(f"{x!r:>{y}}", *z, **w, sep=...)
x += -1 if not (a and 0 < b in c[1:2]) else {**d, "e": f}
"""


@pytest.mark.parametrize("text", [FORMS, *PROGRAMS])
def test_walks_alike(text: str) -> None:
    tree = ast.parse(text)
    every = [each for each in ast.walk(tree) if not isinstance(each, LEFT_OUT)]
    assert walk(tree) == every
    for node in every:
        assert parts_of(node) == [each for each in ast.iter_child_nodes(node) if not isinstance(each, LEFT_OUT)]
    found = [each for each in every if isinstance(each, (ast.stmt, ast.excepthandler, ast.match_case))]
    assert set(statements(tree)) == {tree, *found}
