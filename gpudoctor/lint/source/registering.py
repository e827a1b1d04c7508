"""Modules of a package that do something when they are imported, and are no programs for it."""

from __future__ import annotations

import ast
import re

# `main()`, `trainer.fit(model)`, `run_training()`: what a program without a main guard ends with.
# Not `append` and `constraint`.
_STARTS = r"(?i)main|run|(?<!s)train|fit|launch|start|cli|app(?!end)|eval|test|infer|demo|work|go$|step|backward|call"


def only_registers(tree: ast.Module) -> bool:
    """All that the top level does are calls such as `register(...)` or `table.update(...)`, and none starts anything.

    Asked of modules inside packages: in a script of its own, `dist.barrier()` at the top is what it does. What imports
    from its neighbours is no script, so that it may loop, too: over the operators that it registers, say.
    """
    todo: list[ast.stmt] = list(tree.body)
    found, is_part = False, any(isinstance(each, ast.ImportFrom) and each.level for each in tree.body)
    # Without recursion: a chain of `elif` is as deep as it is long.
    while todo:
        statement = todo.pop()
        if isinstance(statement, (ast.For, ast.While, ast.With, ast.AsyncFor, ast.AsyncWith)):
            if not is_part:
                return False
            found = True
            todo += statement.body
        if isinstance(statement, ast.If):
            if any(isinstance(node, ast.Name) and node.id == "__name__" for node in ast.walk(statement.test)):
                return False
            todo += (*statement.body, *statement.orelse)
        elif isinstance(statement, ast.Try):
            todo += (*statement.body, *statement.orelse, *statement.finalbody)
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            found = True
            if re.search(_STARTS, _called(statement.value.func)):
                return False
    return found


def _called(function: ast.expr) -> str:
    """The last name of what is called."""
    if isinstance(function, ast.Name):
        return function.id
    return function.attr if isinstance(function, ast.Attribute) else ""
