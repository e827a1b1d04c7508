"""Imports: a module of the project is executed once, all else is a library name."""

from __future__ import annotations

import ast
from collections.abc import Hashable
from typing import TYPE_CHECKING

from gpudoctor.lint.flow.condition import Dependence
from gpudoctor.lint.interp.machine import Frame, one
from gpudoctor.lint.values.function import Library, ProjectModule

if TYPE_CHECKING:
    from gpudoctor.lint.interp.interpreter import Interpreter
    from gpudoctor.lint.source.project import ModuleFile, Package
    from gpudoctor.lint.values.base import Value, Values


def import_names(m: Interpreter, node: ast.Import) -> None:
    """`import a.b as c`."""
    for alias in node.names:
        # `import a.b as c` binds the submodule, `import a.b` only `a`.
        if alias.asname:
            m.bind(alias.asname, one(load(m, alias.name, 0, node)))
            continue
        root = alias.name.partition(".")[0]
        first = load(m, root, 0, node)
        if alias.name != root:
            load(m, alias.name, 0, node)
        m.bind(root, one(first))


def import_from(m: Interpreter, node: ast.ImportFrom) -> None:
    """`from a import b`, relative ones and `*` included."""
    origin = load(m, node.module or "", node.level, node)
    for alias in node.names:
        if alias.name == "*":
            _import_star(m, origin)
            continue
        m.bind(alias.asname or alias.name, member(m, origin, alias.name, node))


def member(m: Interpreter, origin: Value, name: str, node: ast.AST) -> Values:
    """A name of a module: what the module bound to it, else a module inside the package."""
    if isinstance(origin, Library):
        return m.library_name(f"{origin.name}.{name}", node)
    if not isinstance(origin, ProjectModule):
        return m.unknown(node, f"{name} could not be imported", Dependence.UNREAD)
    found = m.read((origin.scope, name))
    if found is not None:
        return found
    if name == "__dict__":
        # What is asked of the dictionary of a module is asked of the module.
        return one(origin)
    # `from package import module` loads the module where no name of that kind is bound.
    inner = m.project.submodule(m.packages[origin.scope], name) if origin.scope in m.packages else None
    if inner is not None:
        return one(enter(m, inner))
    # Circular imports work in Python as long as the name is asked for late enough.
    if origin.scope in m.open_modules:
        m.lose(f"`{name}` is imported from a module that is still being imported", m.place(node))
    return m.unknown(node, f"{origin.name} has no `{name}` that could be seen", Dependence.UNREAD)


def load(m: Interpreter, dotted: str, level: int, node: ast.AST) -> Value:
    """The module of this name."""
    found = m.project.find(m.frame.file, dotted, level)
    if found is None:
        return Library(dotted) if level == 0 else Library("." * level + dotted)
    return enter(m, found)


def enter(m: Interpreter, found: ModuleFile | Package) -> Value:
    """Execute a module of the project, once."""
    scope: Hashable = ("module", found.name, getattr(getattr(found, "source", None), "shown", ""))
    module = ProjectModule(scope, found.name)
    if scope in m.packages:
        return module
    # Before the body runs, so that a circular import ends here.
    m.packages[scope] = found
    source = getattr(found, "source", None)
    if source is None:
        return module
    m.open_modules.add(scope)
    m.run_module(scope, found)  # type: ignore[arg-type]
    m.open_modules.discard(scope)
    return module


def _import_star(m: Interpreter, origin: Value) -> None:
    if not isinstance(origin, ProjectModule):
        if isinstance(origin, Library):
            m.frame_star_libraries.setdefault(m.frame.scope, []).append(origin.name)
        return
    for name in m.names_in(origin.scope):
        # Python's rule where there is no `__all__`.
        if not name.startswith("_"):
            values = m.read((origin.scope, name))
            if values is not None:
                m.bind(name, values)


def module_frame(scope: Hashable, file: ModuleFile) -> Frame:
    """The frame in which a module's body runs."""
    return Frame(scope, (scope,), file, "<module>")
