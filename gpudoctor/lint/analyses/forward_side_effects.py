"""What a model's own `forward` changes about it: `forward` is not followed, and its flags are read outside."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpudoctor.lint.domain.function import class_of
from gpudoctor.lint.domain.value import Anonymous, Const, Unknown, Value
from gpudoctor.lint.flow.interning import for_one_program
from gpudoctor.lint.interface.library_call import LibraryContext, singleton
from gpudoctor.lint.source.syntax_walk import walk


def forget_what_forward_sets(do: LibraryContext, module: Value) -> None:
    """`if model.queue_is_full:` asks for a flag that was False when the model was made, and that `forward` sets."""
    cls = class_of(module)
    for name in _set_by_forward(cls.node) if cls is not None else ():
        known = do.own_attribute(module, name)
        # Layers and the like are replaced in no `forward`; numbers and flags are.
        if known is not None and known.has(Const):
            do.set_own_attribute(
                module, name, singleton(Unknown(Anonymous("set by forward", (module, name)), "set by `forward`", name))
            )


@for_one_program
def _set_by_forward(node: ast.ClassDef) -> frozenset[str]:
    """The attributes that `forward`, or a method that it calls, assigns."""
    methods = {each.name: each for each in node.body if isinstance(each, ast.FunctionDef)}
    found: set[str] = set()
    todo, seen = ["forward"], {"__init__"}
    while todo:
        name = todo.pop()
        if name in seen or name not in methods:
            continue
        seen.add(name)
        own = list(_own_attributes(methods[name]))
        found |= {each.attr for each in own if isinstance(each.ctx, ast.Store)}
        todo += [each.attr for each in own]
    return frozenset(found)


def _own_attributes(method: ast.FunctionDef) -> Iterator[ast.Attribute]:
    arguments = method.args.args
    if not arguments:
        return
    for each in walk(method):
        if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and each.value.id == arguments[0].arg:
            yield each
