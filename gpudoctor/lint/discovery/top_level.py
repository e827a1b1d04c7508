"""What a file does at its top level, by its syntax alone."""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from gpudoctor.lint.source.library_roots import is_strange
from gpudoctor.lint.source.syntax_walk import walk
from gpudoctor.manifest.compiled import prefixes

Import = tuple["ast.Import | ast.ImportFrom", ast.alias]
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_ACTING = (ast.Expr, ast.Raise, ast.For, ast.While, ast.AsyncFor, ast.Assign, ast.AnnAssign)
_COMPOUND = (ast.If, ast.For, ast.While, ast.AsyncFor, ast.With, ast.AsyncWith, ast.Try, ast.Match)
_MAY_CALL = (ast.Call, ast.Await, ast.BoolOp, ast.IfExp, ast.ListComp, ast.SetComp, ast.DictComp)
GRADIENTS = frozenset({"backward", "manual_backward"})


def at_top(body: Iterable[ast.stmt], *, with_handlers: bool = False) -> Iterator[ast.stmt]:
    """The statements that an import executes, without those of functions and classes."""
    # Without recursion: a chain of `elif` is as deep as it is long.
    todo = list(body)[::-1]
    while todo:
        statement = todo.pop()
        yield statement
        if not isinstance(statement, _COMPOUND):
            continue
        match statement:
            case ast.With() | ast.AsyncWith():
                todo += statement.body[::-1]
            case ast.Match(cases=cases):
                todo += [each for case in cases for each in case.body][::-1]
            case ast.Try(body, handlers, otherwise, at_last):
                handled = (each for handler in handlers if with_handlers for each in handler.body)
                todo += (*body, *handled, *otherwise, *at_last)[::-1]
            case _:
                todo += (*statement.body, *statement.orelse)[::-1]


def root_name(node: ast.expr) -> str:
    """`runner` of `runner.model.train`; empty where it begins with no name."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def name_parts(node: ast.expr) -> list[str]:
    """`runner(cfg).go` as `["runner", "go"]`; nothing first where it begins with no name."""
    names: list[str] = []
    while isinstance(node, (ast.Call, ast.Attribute)):
        if isinstance(node, ast.Attribute):
            names.append(node.attr)
        node = node.func if isinstance(node, ast.Call) else node.value
    return [node.id if isinstance(node, ast.Name) else "", *reversed(names)]


# --- what it defines and imports --------------------------------------------------------------------------------------


def bindings(nodes: Iterable[ast.AST]) -> dict[str, Import]:
    """The names that the imports among these nodes bind."""
    imports = (node for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom)))
    return {(alias.asname or alias.name).partition(".")[0]: (node, alias) for node in imports for alias in node.names}


def library_of(name: str, imports: dict[str, Import]) -> str:
    """The library that a name is imported from, or nothing."""
    if name not in imports:
        return ""
    statement, alias = imports[name]
    if not isinstance(statement, ast.ImportFrom):
        return alias.name.partition(".")[0]
    return "" if statement.level else (statement.module or "").partition(".")[0]


# --- what it does -----------------------------------------------------------------------------------------------------


def main_guard(tree: ast.Module) -> ast.stmt | None:
    """`if __name__ == "__main__":`, also as a part of a longer test."""
    return next((each for each in at_top(tree.body) if is_main_guard(each)), None)


def is_main_guard(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and _asks_for_main(statement.test)


def _asks_for_main(test: ast.expr) -> bool:
    parts = list(walk(test))
    return any(isinstance(each, ast.Name) and each.id == "__name__" for each in parts) and any(
        isinstance(each, ast.Constant) and each.value == "__main__" for each in parts
    )


def started_by_decorator(tree: ast.Module) -> ast.stmt | None:
    """The function that `@call_parse` or `@experiment.automain` calls when the file is the program."""
    for each in tree.body:
        for decorator in each.decorator_list if isinstance(each, DEFINITIONS) else ():
            first, *_ = parts = name_parts(decorator)
            if parts[-1] not in STARTING:
                continue
            imports = bindings(tree.body)
            # `experiment` is an object that was made with what was imported.
            roots = {library_of(name, imports) for name in ([first] if first in imports else imports)}
            # Another file of the project may have made the object of which it is a method.
            elsewhere = len(parts) > 1 and first in imports and all(not root or is_strange(root) for root in roots)
            if elsewhere or not roots.isdisjoint(STARTING[parts[-1]]):
                return each
    return None


STARTING: dict[str, set[str]] = {}
"""What decorators are called that start their function, and the libraries that have such a one."""
for _name in prefixes("starts"):
    STARTING.setdefault(_name.rpartition(".")[2], set()).add(_name.partition(".")[0])


def deeds_of(tree: ast.Module) -> tuple[ast.stmt, ...]:
    """The statements that do something when the file is imported: calls and loops, but for mere preparation."""
    statements = list(at_top(tree.body))
    acting = [each for each in statements if isinstance(each, _ACTING)]
    # Most modules only define things: nobody asks what their names stand for.
    if not acting:
        return ()
    defined, imports = {each.name: each for each in statements if isinstance(each, DEFINITIONS)}, bindings(statements)
    dull: set[str] = set()
    return tuple(each for each in acting if _acts(each, imports, defined, dull) or _asks_own_object(each, statements))


def _asks_own_object(statement: ast.stmt, statements: list[ast.stmt]) -> bool:
    """`result = trainer.fit()`: a method of an object that the file has made, whose result it keeps."""
    call = statement.value if isinstance(statement, ast.Assign) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.args or call.keywords:
        return False
    made = (each for each in statements if isinstance(each, ast.Assign) and isinstance(each.value, ast.Call))
    owner = root_name(call.func)
    return any(isinstance(target, ast.Name) and target.id == owner for each in made for target in each.targets)


def _acts(statement: ast.stmt, imports: dict[str, Import], defined: Mapping[str, ast.AST], dull: set[str]) -> bool:
    match statement:
        case ast.Assign(value=value) | ast.AnnAssign(value=value):
            return isinstance(value, _MAY_CALL) and _trains(value, defined, dull)
        case ast.Expr(value):
            parts = walk(value) if isinstance(value, _MAY_CALL) else []
            calls = [each for each in parts if isinstance(each, ast.Call)]
            return bool(calls) and not _prepares(value, calls, parts, imports, defined)
        # `raise SystemExit(main())`
        case ast.Raise(error):
            return isinstance(error, ast.Call) and name_parts(error) == ["SystemExit"] and bool(error.args)
    return True


def _trains(value: ast.expr, defined: Mapping[str, ast.AST], dull: set[str]) -> bool:
    """`best = search(train, space)`: what is given a name is the result of a training that stands in the file. Other
    modules make what they offer so. What is found not to train, and all that it uses, is noted as `dull`."""
    todo: list[ast.AST] = [value]
    seen = set(dull)
    while todo:
        for each in walk(todo.pop()):
            if isinstance(each, ast.Attribute) and each.attr in GRADIENTS:
                return True
            if isinstance(each, ast.Name) and each.id in defined and each.id not in seen:
                seen.add(each.id)
                todo.append(defined[each.id])
    dull |= seen
    return False


_PREPARING = sys.stdlib_module_names | {"matplotlib", "numpy"}
_BUILTINS = frozenset(vars(builtins))


def _prepares(
    value: ast.expr,
    calls: Sequence[ast.Call],
    parts: Sequence[ast.AST],
    imports: dict[str, Import],
    defined: Collection[str],
) -> bool:
    """`warnings.filterwarnings("ignore")`, `sys.path.append(str(here))`: no work, and none of the file's own code."""
    called = [name_parts(each)[0] for each in calls]
    if called and library_of(called[0], imports) not in _PREPARING:
        return False
    # `import_module(name).main()` is code of whatever has that name.
    if "import_module" in name_parts(value)[:-1]:
        return False
    if not all(name in _BUILTINS or library_of(name, imports) in _PREPARING for name in called[1:]):
        return False
    return not any(isinstance(each, ast.Name) and each.id in defined for each in parts)


def computes(tree: ast.Module) -> bool:
    """A script of assignments only, such as a tutorial's, has nothing that another file could import."""
    if any(isinstance(each, DEFINITIONS) for each in tree.body):
        return False
    return any(isinstance(each, ast.Assign) and isinstance(each.value, ast.Call) for each in tree.body)


def calls_imported(tree: ast.Module) -> tuple[ast.stmt, ...]:
    """The assignments of what an imported function returns."""
    imports = bindings(tree.body)
    given = (each for each in tree.body if isinstance(each, ast.Assign) and isinstance(each.value, ast.Call))
    return tuple(each for each in given if name_parts(each.value)[0] in imports)
