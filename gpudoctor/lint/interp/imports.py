"""Imports: a module of the project is executed once, all else is a library name.

For a program that is when it is imported, as Python does, until that has taken long; from then on, modules that only
define and register things are executed when a name of theirs is asked for. For a library file, whose functions are read
one by one, all are: a file of a large package imports hundreds of others and uses a handful.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Hashable, Iterator
from contextlib import contextmanager

from gpudoctor.diagnostic import Location
from gpudoctor.lint.discovery.classify import classify
from gpudoctor.lint.domain.abstract_state import NO, PROCESS, ContainerState, ProcessState
from gpudoctor.lint.domain.arguments import Arguments
from gpudoctor.lint.domain.container import DictOf
from gpudoctor.lint.domain.function import BoundMethod, Class, Function, LazyImport, Library, Method, ProjectModule
from gpudoctor.lint.domain.value import Anonymous, Const, Unknown, Value, Values, singleton
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.flow.valueset import union
from gpudoctor.lint.interface.contents import known_items, possible_pairs
from gpudoctor.lint.interface.library_call import MODELS
from gpudoctor.lint.interp.evaluator import Evaluator
from gpudoctor.lint.interp.limits import MAX_EAGER_IMPORTS, MAX_LIBRARY_IMPORTS, MAX_WAITING
from gpudoctor.lint.interp.position import Frame
from gpudoctor.lint.source.file_queries import is_file, is_folder
from gpudoctor.lint.source.file_traits import Role
from gpudoctor.lint.source.layout import is_package
from gpudoctor.lint.source.library_roots import is_strange
from gpudoctor.lint.source.process_state import fresh_stack
from gpudoctor.lint.source.project import ModuleFile, Package

_DECORATED = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
MODULE_BODY = "<module>"
"""The name of the frame of a module's body."""


def import_names(m: Evaluator, node: ast.Import) -> None:
    """`import a.b as c`."""
    for alias in node.names:
        # `import a.b as c` binds the submodule, `import a.b` only `a`.
        if alias.asname:
            m.bind(alias.asname, singleton(load(m, alias.name, 0, node)))
            _is_broken(m, load(m, alias.name, 0, node))
            continue
        root = alias.name.partition(".")[0]
        first = load(m, root, 0, node)
        if _is_broken(m, first) or (alias.name != root and _is_broken(m, load(m, alias.name, 0, node))):
            return
        m.bind(root, singleton(first))


def import_from(m: Evaluator, node: ast.ImportFrom) -> None:
    """`from a import b`, relative ones and `*` included."""
    origin = load(m, node.module or "", node.level, node)
    if _is_broken(m, origin):
        return
    for alias in node.names:
        if alias.name == "*":
            _import_star(m, origin)
            continue
        if isinstance(origin, ProjectModule) and origin.scope in m.pending and m.frame.name == MODULE_BODY:
            m.bind(alias.asname or alias.name, singleton(LazyImport(origin, alias.name)))
            continue
        found = _member(m, origin, alias.name, node)
        if isinstance(found.single, Unknown) and _is_missing(m, origin, alias.name, node):
            why = f"asks for `{alias.name}`, which `{getattr(origin, 'name', '')}` does not have"
            m.abort(m.text(node), m.place(node), "ImportError", why)
            return
        m.bind(alias.asname or alias.name, found)


def _is_broken(m: Evaluator, module: Value) -> bool:
    """To import it ends in the error that its body ends in."""
    stop = m.broken_modules.get(module.scope) if isinstance(module, ProjectModule) else None
    if stop is None or not m.ends_by_errors or m.muted:
        return False
    m.abort(stop.what, stop.at, stop.error, stop.why)
    return True


def _is_missing(m: Evaluator, origin: Value, name: str, node: ast.ImportFrom) -> bool:
    """The module was executed, and nothing in it gives it this name."""
    file = m.packages.get(origin.scope) if isinstance(origin, ProjectModule) else None
    if not m.ends_by_errors or m.muted or not isinstance(file, ModuleFile) or not isinstance(origin, ProjectModule):
        return False
    if origin.scope in m.open_modules or origin.scope in m.pending or m.read((origin.scope, name)) is not None:
        return False
    # Another one of this name may be installed, unless it is what Python comes to first.
    if not node.level and not _is_found_first(m, file, node.module or ""):
        return False
    # What is compiled or generated may join a package later.
    if m.project.submodule(file, name) is not None or (file.is_package and m.project.is_built):
        return False
    # Imported late: hardly any program asks.
    from gpudoctor.lint.interp.exports import attributes_set, may_have

    return not may_have(file.source.tree, name) and not any(
        name in attributes_set(each.source.tree) for each in m.files_read()
    )


def is_no_module(m: Evaluator, name: str) -> bool:
    """A package of the project was read whole, and has no such module: `import_module("training.loss.Loss")`."""
    above, _, _ = name.rpartition(".")
    if not above or not m.ends_by_errors or m.muted or m.project.find(m.frame.file, name) is not None:
        return False
    found = m.project.find(m.frame.file, above)
    if isinstance(found, ModuleFile) and not found.is_package:
        return _is_found_first(m, found, above)
    return found is None and is_no_module(m, above)


def _is_found_first(m: Evaluator, file: ModuleFile, dotted: str) -> bool:
    """It lies beside the program that is started, and nowhere further up, where `python -m` would look. Of a package
    it may look there for nothing at all."""
    folder = os.path.dirname(m.frames[0].file.source.path)
    path = os.path.join(folder, *dotted.split("."))
    if is_package(folder):
        return False
    if file.source.path not in (f"{path}.py", os.path.join(path, "__init__.py")):
        return False
    while folder != m.project.root and folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
        other = os.path.join(folder, dotted.partition(".")[0])
        if is_folder(other) or is_file(f"{other}.py"):
            return False
    return True


def resolved(m: Evaluator, values: Values, node: ast.AST) -> Values:
    """The values, with what was imported and not asked for until now."""
    # Written out, because nearly nothing is.
    for binding in values.bindings:
        if type(binding.value) is LazyImport:
            break
    else:
        return values
    return union(_asked(m, each.value, node).guarded_by(each.condition) for each in values.bindings)


def _asked(m: Evaluator, value: Value, node: ast.AST) -> Values:
    if not isinstance(value, LazyImport):
        return singleton(value)
    found = m.imported.get(value)
    if found is None:
        # Modules that have a name from each other: whoever asks first is asked in the end.
        m.imported[value] = m.unknown(node, f"`{value.name}` is imported in a circle", Divergence.UNREAD)
        # A name may come through several modules.
        with _one_deeper(m):
            found = m.imported[value] = resolved(m, _member(m, value.module, value.name, node), node)
    return found


def member(m: Evaluator, origin: Value, name: str, node: ast.AST) -> Values:
    """A name of a module: what the module bound to it, else a module inside the package."""
    return resolved(m, _member(m, origin, name, node), node)


def _member(m: Evaluator, origin: Value, name: str, node: ast.AST) -> Values:
    if isinstance(origin, Library):
        return m.library_name(f"{origin.name}.{name}", node)
    if not isinstance(origin, ProjectModule):
        return m.unknown(node, f"{name} could not be imported", Divergence.UNREAD)
    begin(m, origin)
    found = m.read((origin.scope, name))
    if found is not None:
        return found
    if name == "__dict__":
        # What is asked of the dictionary of a module is asked of the module.
        return singleton(origin)
    if name == "__getattribute__":
        # `import_module(f"models.{name}").__getattribute__("Net")` is `getattr` in other words.
        return singleton(BoundMethod(origin, Library("builtins.getattr")))
    # `from package import module` loads the module where no name of that kind is bound.
    inner = m.project.submodule(m.packages[origin.scope], name) if origin.scope in m.packages else None
    if inner is not None:
        return singleton(enter(m, inner, node))
    # PEP 562: a package that loads its parts when they are asked for.
    getter = m.read((origin.scope, "__getattr__"))
    answered = m.answer_of(getter, Arguments((singleton(Const(name)),)), node) if getter is not None else None
    if answered is not None:
        return answered
    if (ProjectModule, name) in MODELS.methods:
        return singleton(Method(origin, name))
    folder = m.packages.get(origin.scope)
    if isinstance(folder, Package) and not any(map(is_package, folder.folders)):
        # A folder without `__init__.py` has no names of its own: whoever asks means an installed package of that name.
        return m.library_name(f"{origin.name}.{name}", node)
    # Circular imports work in Python as long as the name is asked for late enough.
    if origin.scope in m.open_modules:
        m.record_imprecision(f"`{name}` is imported from a module that is still being imported", m.place(node))
    why = f"{origin.name} has no `{name}` that could be seen"
    term = Anonymous("", m.allocation_site(m.place(node)))
    return singleton(Unknown(term, why, f"{origin.name}.{name}", Divergence.UNREAD))


def load(m: Evaluator, dotted: str, level: int, node: ast.AST) -> Value:
    """The module of this name."""
    found = m.project.find(m.frame.file, dotted, level)
    if found is None:
        name = m.project.library_name(m.frame.file, dotted, level)
        root = name.lstrip(".").partition(".")[0]
        if is_strange(root):
            m.strangers.add(root)
        return Library(name)
    if "." in dotted and not m.reading_library:
        # Python executes the packages around a module first: they may fill a table with what lies beside it.
        around = m.project.find(m.frame.file, dotted.rpartition(".")[0], level)
        if isinstance(around, ModuleFile) and around is not m.frame.file:
            known = {*m.packages}
            load(m, dotted.rpartition(".")[0], level, node)
            came = (each for scope, each in m.packages.items() if scope not in known)
            m.beside |= {each.source.shown for each in came if isinstance(each, ModuleFile)}
    module = enter(m, found, node)
    if isinstance(found, ModuleFile):
        m.beside.discard(found.source.shown)
    return module


def load_defining(m: Evaluator, name: str, most: int, node: ast.AST) -> list[Value]:
    """The modules beside each other that define a name, or one of them where they are more than `most`."""
    m.looked_up += 1
    for beside in m.project.defining(name):
        # A program has such a name for what it imports.
        parts = [each for each in beside if classify(each, m.project).role is Role.PART]
        if parts:
            return [enter(m, each, node) for each in (parts if len(parts) <= most else parts[:1])]
    return []


def enter(m: Evaluator, found: ModuleFile | Package, node: ast.AST) -> Value:
    """A module of the project: executed, once, or to be executed when it is asked for something."""
    scope: Hashable = ("module", found.name, getattr(getattr(found, "source", None), "shown", ""))
    module = ProjectModule(scope, found.name)
    if scope in m.packages:
        return module
    # Before the body runs, so that a circular import ends here.
    m.packages[scope] = found
    if isinstance(found, ModuleFile):
        m.pending[scope] = found
        if not m.reading_library and not _can_wait(m, found, node):
            begin(m, module)
    return module


def _can_wait(m: Evaluator, file: ModuleFile, node: ast.AST) -> bool:
    """Enough was imported, and this one only defines things: it costs something when a name of it is asked for."""
    if m.spent_on_imports < MAX_EAGER_IMPORTS or file.is_package or classify(file, m.project).role is not Role.PART:
        return False
    if not m.waits:
        # Imported late: hardly any program imports so much.
        from gpudoctor.lint.interp.registries import leave_registries_open

        m.waits = True
        leave_registries_open(m, node)
    return True


def wait_for_found(m: Evaluator, folder: str) -> None:
    """Modules that the program has searched a folder for: they are executed where a table may lack what is in them."""
    m.set_flag(PROCESS, ProcessState.imports_unknown)
    for found in m.project.modules_in_tree(folder, MAX_WAITING):
        scope: Hashable = ("module", found.name, found.source.shown)
        if scope not in m.packages:
            m.packages[scope] = m.pending[scope] = found


def begin(m: Evaluator, module: ProjectModule) -> None:
    """Execute a module that is waiting for it."""
    file = m.pending.get(module.scope)
    if file is None or (m.reading_library and (_has_imported_enough(m, file) or not m.project.can_execute(file))):
        return
    del m.pending[module.scope]
    outermost = m.importing_since is None
    if m.importing_since is None:
        m.importing_since = m.statements
    m.open_modules.add(module.scope)
    with _one_deeper(m):
        m.run_module(module.scope, file)
    m.open_modules.discard(module.scope)
    if outermost:
        m.imported_statements += m.statements - m.importing_since
        m.importing_since = None


def complete(m: Evaluator, table: DictOf, key: Value | None) -> None:
    """Before it is said what a table has: execute the modules that wait and register something, where what is asked for
    may be among that. Those that the program has imported last are nearest to it."""
    # Who registers asks for the table as well, and to parse a whole zoo of models takes seconds.
    if (
        m.importing_since is not None
        or len(m.pending) > MAX_WAITING
        or m.spent_on_imports >= 2 * MAX_EAGER_IMPORTS
        or not _may_lack(m, table, key)
    ):
        return
    for scope, file in reversed([*m.pending.items()]):
        if scope in m.pending and scope not in m.registering_nothing:
            if not _registers(m, file):
                m.registering_nothing.add(scope)
                continue
            m.looked_up += 1
            begin(m, ProjectModule(scope, file.name))
            if m.spent_on_imports >= 2 * MAX_EAGER_IMPORTS or not _may_lack(m, table, key):
                return


def _may_lack(m: Evaluator, table: DictOf, key: Value | None) -> bool:
    """It is a table of classes and functions, or of such tables, and may have been asked too early."""
    entries = possible_pairs(m, table)
    if m.state(table, ContainerState.more) is not None or any(name.single == key for name, _ in entries):
        return False
    # Modules that were found may fill a table that has nothing yet.
    if not entries and m.flag(PROCESS, ProcessState.imports_unknown) is not NO:
        return True
    return _holds_definitions(entries) or any(
        isinstance(held.single, DictOf) and _holds_definitions(possible_pairs(m, held.single)) for _, held in entries
    )


def _holds_definitions(entries: list[tuple[Values, Values]]) -> bool:
    return bool(entries) and all(held.are(Class, Function) for _, held in entries)


def _registers(m: Evaluator, file: ModuleFile) -> bool:
    """It has something at the top of it decorated by what another file of the project has."""
    body = file.source.tree.body
    decorators = (each for node in body if isinstance(node, _DECORATED) for each in node.decorator_list)
    names = set(map(_root_of, decorators))
    return any(
        isinstance(node, ast.ImportFrom)
        and any((each.asname or each.name) in names for each in node.names)
        and m.project.find(file, node.module or "", node.level) is not None
        for node in body
    )


def _root_of(node: ast.expr) -> str:
    """The name that a decorator begins with: `MODELS` of `@MODELS.register("net")`."""
    while isinstance(node, (ast.Call, ast.Attribute)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


_ROOM_EVERY = 10


@contextmanager
def _one_deeper(m: Evaluator) -> Iterator[None]:
    """A chain of imports may be as long as a project is large: of our own stack each file takes some calls."""
    m.open_imports += 1
    try:
        if m.open_imports % _ROOM_EVERY:
            yield
        else:
            with fresh_stack():
                yield
    finally:
        m.open_imports -= 1


def _has_imported_enough(m: Evaluator, file: ModuleFile) -> bool:
    """What a library file imports must leave enough for the file itself."""
    if m.spent_on_imports < MAX_LIBRARY_IMPORTS:
        return False
    why = f"more than {MAX_LIBRARY_IMPORTS} statements of modules that are imported"
    m.record_imprecision(why, Location(file.source.shown, 1, 1))
    return True


def _names_bound(waiting: ModuleFile) -> dict[str, bool] | None:
    # Imported late: most programs import no star of a module that waits.
    from gpudoctor.lint.interp.exports import names_bound

    return names_bound(waiting.source.tree.body)


def _import_star(m: Evaluator, origin: Value) -> None:
    if not isinstance(origin, ProjectModule):
        if isinstance(origin, Library):
            m.frame_star_libraries.setdefault(m.frame.scope, []).append(origin.name)
        return
    waiting = m.pending.get(origin.scope)
    can_wait = waiting is not None and m.project.can_execute(waiting)
    names = _names_bound(waiting) if waiting is not None and can_wait else None
    if names is None:
        _bind_all(m, origin)
        return
    for name, made in names.items():
        # What the module imports itself may come from here.
        if made or not m.is_bound(name):
            m.bind(name, singleton(LazyImport(origin, name)))


def _bind_all(m: Evaluator, origin: ProjectModule) -> None:
    begin(m, origin)
    listed, package = m.read((origin.scope, "__all__")), m.packages.get(origin.scope)
    # `__all__ = [name[:-3] for name in os.listdir(folder)]`: a star imports the modules of a package that it lists.
    if listed is not None and known_items(m, listed.single) is None and isinstance(package, ModuleFile):
        wait_for_found(m, os.path.dirname(package.source.path))
    for name in m.store.names(origin.scope):
        # Python's rule where there is no `__all__`.
        if not name.startswith("_"):
            values = m.read((origin.scope, name))
            if values is not None:
                m.bind(name, values)


def module_frame(scope: Hashable, file: ModuleFile) -> Frame:
    """The frame in which a module's body runs."""
    return Frame(scope, (scope,), file, MODULE_BODY)
