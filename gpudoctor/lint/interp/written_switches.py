"""Switches that the author of a program sets in its text: `distributed = False`, and `if distributed:` starts a group.

Whoever trains on several GPUs writes `True` there. For a program of several processes such a name is a setting like an
option of the command line, whose default is what stands there. Which of them turn distribution on is learnt by
executing it; here are those that may.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping

from gpudoctor.lint.domain.symbols import WrittenSwitch
from gpudoctor.lint.domain.value import Unknown
from gpudoctor.lint.source.file import SourceFile
from gpudoctor.lint.source.syntax_walk import nodes_of, statements

WrittenSwitches = Mapping[ast.stmt, Unknown]
"""The assignments that set them, and what their names hold for who may set them otherwise."""


def written_switches(source: SourceFile) -> WrittenSwitches:
    """The names of a file that are `False`, set nowhere else, and asked before something that several processes do."""
    if "= False" not in source.text:
        return {}
    off = {target.id: node for node, target in _set_to_false(source.tree)}
    if not off:
        return {}
    asked = {name for name, block in _asked(source.tree) if name in off and any(map(_is_telling, block))}
    if not asked:
        return {}
    names = Counter(each.id for each in nodes_of(ast.Name, source.tree) if isinstance(each.ctx, ast.Store))
    # A parameter of that name is another thing, or the same thing told otherwise.
    names.update(each.arg for each in nodes_of(ast.arg, source.tree))
    return {
        off[name]: Unknown(WrittenSwitch(name, source.location(off[name])), "set by the author", name, config=True)
        for name in asked
        if names[name] == 1
    }


def _set_to_false(tree: ast.Module) -> Iterator[tuple[ast.stmt, ast.Name]]:
    for node in statements(tree):
        match node:
            case (
                ast.Assign(targets=[ast.Name() as target], value=ast.Constant(value=False))
                | ast.AnnAssign(target=ast.Name() as target, value=ast.Constant(value=False))
            ):
                yield node, target


def _asked(tree: ast.Module) -> Iterator[tuple[str, list[ast.stmt]]]:
    """The names that tests ask alone, and what is done where they are true."""
    for node in statements(tree):
        match node:
            case ast.If(test=ast.Name(id=name)):
                yield name, node.body
            case ast.If(test=ast.UnaryOp(op=ast.Not(), operand=ast.Name(id=name))):
                yield name, node.orelse


def _is_telling(statement: ast.stmt) -> bool:
    # Imported late: few programs have such a name.
    from gpudoctor.lint.discovery.prefilter import is_telling

    return any(is_telling(ast.unparse(call.func)) for call in nodes_of(ast.Call, statement))
