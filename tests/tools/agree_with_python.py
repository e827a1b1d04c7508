"""Where lint and Python disagree over what the tests of Python itself say.

    python tests/tools/agree_with_python.py [MODULE ...]

Each test method of `test.MODULE` of the standard library that runs here (by default of those below) becomes a program
of its own, in which each assertion is a claim. On paper none may be surely false, and the end must be reached. What is
printed is a place to look at: the tests also ask for what no training program asks, as for the text of an error.
Needs a Python that has its tests, which some distributions leave out.
"""

import ast
import copy
import importlib.util
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.support.agreement import on_paper

MODULES = (
    "test_dict test_generators test_with test_exceptions test_class test_scope test_iter test_itertools test_functools "
    "test_dataclasses test_contextlib test_copy test_builtin test_range test_augassign test_listcomps test_property "
    "test_super test_decorators test_keywordonlyarg test_patma test_named_expressions test_fstring test_global "
    "test_bool test_compare test_contains test_operator test_defaultdict test_ordered_dict test_userdict test_deque "
    "test_collections test_types test_grammar test_raise test_exception_variations test_unpack test_tuple test_string "
    "test_call test_set test_isinstance test_yield_from test_threading test_dictviews test_extcall"
).split()
COMPARED: dict[str, type[ast.cmpop]] = {
    "assertEqual": ast.Eq, "assertNotEqual": ast.NotEq, "assertIs": ast.Is, "assertIsNot": ast.IsNot,
    "assertIn": ast.In, "assertNotIn": ast.NotIn, "assertListEqual": ast.Eq, "assertDictEqual": ast.Eq,
    "assertTupleEqual": ast.Eq, "assertSetEqual": ast.Eq, "assertSequenceEqual": ast.Eq, "assertGreater": ast.Gt,
    "assertLess": ast.Lt, "assertGreaterEqual": ast.GtE, "assertLessEqual": ast.LtE,
}  # fmt: skip
PRELUDE = """
import torch.distributed
from nowhere import Base
class TestCase(Base):
    def __init__(self, name=None): pass
    def setUp(self): pass
    def tearDown(self): pass
"""


class _Claims(ast.NodeTransformer):
    """Assertions become claims; what is expected to fail is tried."""

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        self.generic_visit(node)
        name, args = _assertion(node.value)
        claimed: ast.expr | None = None
        if name in COMPARED and len(args) >= 2:
            claimed = ast.Compare(args[0], [COMPARED[name]()], [args[1]])
        elif name == "assertTrue" and args:
            claimed = args[0]
        elif name == "assertFalse" and args:
            claimed = ast.UnaryOp(ast.Not(), args[0])
        elif name == "assertIsInstance" and len(args) >= 2:
            claimed = ast.Call(ast.Name("isinstance", ast.Load()), args[:2], [])
        elif name == "assertRaises" and len(args) >= 2 and isinstance(node.value, ast.Call):
            return _tried([ast.Expr(ast.Call(args[1], args[2:], node.value.keywords))], args[0])
        return node if claimed is None else ast.Expr(ast.Call(ast.Name("claim", ast.Load()), [claimed], []))

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        self.generic_visit(node)
        return ast.Expr(ast.Call(ast.Name("claim", ast.Load()), [node.test], []))

    def visit_With(self, node: ast.With) -> ast.stmt | list[ast.stmt]:
        self.generic_visit(node)
        name, args = _assertion(node.items[0].context_expr) if len(node.items) == 1 else ("", [])
        if name in ("assertRaises", "assertRaisesRegex") and args and node.items[0].optional_vars is None:
            return _tried(node.body, args[0])
        return node.body if name == "subTest" else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        return ast.Name("TestCase", ast.Load()) if ast.unparse(node) == "unittest.TestCase" else node


def _assertion(node: ast.expr) -> tuple[str, list[ast.expr]]:
    """The method of `self` that is called, and what it is given; empty for other calls."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name), args=args):
            return ("", []) if any(isinstance(each, ast.Starred) for each in args) else (name, args)
    return "", []


def _tried(body: list[ast.stmt], error: ast.expr) -> ast.stmt:
    return ast.Try(body, [ast.ExceptHandler(error, None, [ast.Pass()])], [], [])


def programs(module: str) -> Iterator[tuple[str, str]]:
    """The name and the program of each test method of a module."""
    spec = importlib.util.find_spec(f"test.{module}")
    if spec is None or spec.origin is None:
        return
    tree = _Claims().visit(ast.parse(Path(spec.origin).read_text(encoding="utf-8")))
    tree.body = [each for each in tree.body if not isinstance(each, ast.If) or "__name__" not in ast.unparse(each.test)]
    for case in [each for each in tree.body if isinstance(each, ast.ClassDef)]:
        if not any("TestCase" in ast.unparse(base) for base in case.bases):
            continue
        for method in case.body:
            if isinstance(method, ast.FunctionDef) and method.name.startswith("test") and not method.decorator_list:
                text = ast.unparse(ast.fix_missing_locations(_with_one(tree, method.name)))
                call = f"case = {case.name}()\ncase.setUp()\ncase.{method.name}()\nclaim(True)\n"
                yield f"{module}.{case.name}.{method.name}", f"{PRELUDE}{text}\n{call}"


def _with_one(tree: ast.Module, name: str) -> ast.Module:
    """Of all test methods those of this name."""
    made = copy.copy(tree)
    made.body = [copy.copy(each) for each in tree.body]
    for each in made.body:
        if isinstance(each, ast.ClassDef):
            each.body = [part for part in each.body if not _is_other_test(part, name)] or [ast.Pass()]
    return made


def _is_other_test(node: ast.stmt, name: str) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name.startswith("test") and node.name != name


def main(modules: list[str]) -> int:
    asked = wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "train.py")
        for module in modules or MODULES:
            for name, text in programs(module):
                path.write_text(text, encoding="utf-8")
                lines = text.splitlines()
                found = on_paper(path)
                told = [f"denies {lines[line - 1].strip()}" for line, denied in found.items() if denied]
                told += ["never comes to its end"] if len(lines) not in found else []
                print(*(f"{name}: {each}\n" for each in told), sep="", end="", flush=True)
                asked, wrong = asked + 1, wrong + bool(told)
    print(f"{wrong} of {asked} programs disagree")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
