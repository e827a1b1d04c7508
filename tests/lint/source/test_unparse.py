"""Expressions are written as Python itself would, in a fraction of the time."""

import ast
from pathlib import Path

import pytest

from gpudoctor.lint.source.unparse import written

FIXTURES = Path(__file__).parents[3] / "fixtures"
SPECIAL = """
a.b.c(1, x=2)[0]
f(*a, **b)
f((1, 2), [3], {4}, {5: 6}, (x for x in y), lambda: 0)
f(yield_=(yield 1))
x[1:2]
x[1, 2]
x[(yield 1)]
x["it's"]
(1).real
1.5.real
(a + b).c
-1 ** 2
a ** -b
a - (b - c)
a - b - c
a * (b + c) + -d * e
a + b * c % d
-(a + b)
a | b + c
(a | b) + c
(-a) ** 2
- -a
[1, (2,), *c][0].d
a += b, c
a **= 2
a[0] -= -1
(a + b) > -c * d
(not a) == b
2.0 .real
a < b < c
not a
a @ b
1e999
1j
u"x"
b"x"
f"{x!r:>{n}}"
(lambda: 0)()
(await_ := 3)
...
None is not x
a or b and not c or (d or e)
(a if b else c) if (d if e else f) else g
not (a and b) == c
a ** b ** c + (a ** b) ** c
~a & b << c ^ d | +e
x[1:2, ::3, :]
x[(1,)]
x[()]
(), (a,), (a, *b)
f(**a or b, c=d if e else f)
a < (b < c) < d
"""


def assert_alike(node: ast.AST) -> None:
    assert written(node) == ast.unparse(node)


@pytest.mark.parametrize("line", SPECIAL.strip().splitlines())
def test_special_forms(line: str) -> None:
    for node in ast.walk(ast.parse(line)):
        if isinstance(node, (ast.expr, ast.AugAssign)):
            assert_alike(node)


@pytest.mark.parametrize("line", ["assert a, (b, c)", "assert (a, b)", "raise", "raise A(b) from (c or d)"])
def test_statements(line: str) -> None:
    assert_alike(ast.parse(line).body[0])


def test_real_programs() -> None:
    for path in sorted((FIXTURES / "programs").rglob("*.py"))[:20]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.expr, ast.AugAssign)):
                assert_alike(node)
