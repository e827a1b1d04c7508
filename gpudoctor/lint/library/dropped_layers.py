"""Layers that a constructor makes and lets go: `embedding = nn.Embedding(10, 2)`, where `self.embedding` was meant."""

from __future__ import annotations

import ast

from gpudoctor.lint.domain.module import Module
from gpudoctor.lint.events.model import ModuleClassFlaw
from gpudoctor.lint.flow.interning import for_one_program
from gpudoctor.lint.interface.library_call import Call
from gpudoctor.lint.library.wrapper_names import every_module_has
from gpudoctor.lint.source.syntax_walk import walk

MODULE = "torch.nn.Module"
_ANYTHING = frozenset({"setattr", "__dict__", "__getattr__", "__setattr__", "vars", "update"})
"""What may give an object an attribute whose name is not written there."""


def note_missed(call: Call, module: Module) -> None:
    """An attribute is asked for that nobody has set: log that the constructor has a local name for it."""
    cls = module.cls
    if cls is None or not module.exact or cls.library_bases != {MODULE} or every_module_has(call.name):
        return
    # Of a base in another file the nodes would be looked for here. Who asks from outside may ask models of several
    # classes, each for what it has.
    inside = cls.node.lineno <= call.place.line <= (cls.node.end_lineno or 0)
    made = _local(cls.node, call.name) if inside and call.place.path == cls.place.path else None
    if made is not None and not cls.own_bases:
        one_of_one = isinstance(made.value, ast.Tuple) and len(made.value.elts) == 1
        call.do.emit(
            ModuleClassFlaw, at=call.do.place(made), flaw="layer-dropped", cls=cls, attribute=call.name,
            count=int(one_of_one),
        )  # fmt: skip


@for_one_program
def _local(cls: ast.ClassDef, name: str) -> ast.Assign | None:
    """Where the constructor makes something under this name, for which no object of the class has an attribute."""
    constructors = (each for each in cls.body if isinstance(each, ast.FunctionDef) and each.name == "__init__")
    made = [each for constructor in constructors for each in constructor.body if _makes(each, name)]
    for node in walk(cls) if made else ():
        # Written down as a text, it may be a name that something is registered under.
        if isinstance(node, ast.Attribute) and node.attr == name and not isinstance(node.ctx, ast.Load):
            return None
        if isinstance(node, ast.Constant) and node.value == name:
            return None
        if getattr(node, "attr", getattr(node, "id", getattr(node, "name", ""))) in _ANYTHING:
            return None
    found = made[0] if made else None
    return found if isinstance(found, ast.Assign) else None


def _makes(statement: ast.stmt, name: str) -> bool:
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return False
    target, value = statement.targets[0], statement.value
    inner = value.elts[0] if isinstance(value, ast.Tuple) and len(value.elts) == 1 else value
    return isinstance(target, ast.Name) and target.id == name and isinstance(inner, ast.Call)
