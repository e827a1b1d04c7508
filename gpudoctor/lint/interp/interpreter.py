"""The interpreter: the state of an execution with statements, expressions and calls wired to it.

The parts stand in modules of their own and know each other only through this class.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Hashable, Sequence

from gpudoctor.lint.domain.arguments import Arguments
from gpudoctor.lint.domain.container import DictOf, TupleOf
from gpudoctor.lint.domain.function import Class, Generator, ProjectModule
from gpudoctor.lint.domain.symbols import PlaceOnDisk
from gpudoctor.lint.domain.value import Const, Unknown, Value, Values, singleton
from gpudoctor.lint.flow.condition import Literal
from gpudoctor.lint.interp import attributes, calls, imports, items, library, statements, truthiness, with_statements
from gpudoctor.lint.interp.annotations import object_of_settings
from gpudoctor.lint.interp.evaluator import MAIN, Evaluator
from gpudoctor.lint.interp.expressions import EVALUATORS
from gpudoctor.lint.interp.imports import module_frame
from gpudoctor.lint.source.project import ModuleFile

_LOOK_EVERY = 255
"""One less than a power of two: after so many expressions it is asked whether time is over."""


def _last_line(file: ModuleFile) -> tuple[str, int] | None:
    """Where the last statement of a file begins, also under the main guard."""
    last = file.source.tree.body[-1] if file.source.tree.body else None
    while isinstance(last, ast.If) and last.body:
        last = last.body[-1]
    return (file.source.shown, last.lineno) if last is not None else None


class Interpreter(Evaluator):
    """Executes a program on paper. One object for one entry file in one world."""

    __slots__ = ()

    def run_module(self, scope: Hashable, file: ModuleFile) -> None:
        """Execute the body of a module; what it binds is seen on every path."""
        name = MAIN if scope == self.main_scope else file.name
        # Below all layers, since Python executes a module once, whichever branch imports it.
        with self.isolated(), self.store.at_bottom(), self.in_frame(module_frame(scope, file)):
            self.executing_module = True
            self.write((scope, "__name__"), singleton(Const(name)))
            self.write((scope, "__package__"), singleton(Const(file.package)))
            self.write((scope, "__file__"), singleton(Unknown(PlaceOnDisk(file.source.path), "a path", "__file__")))
            if file.is_package:
                folder = singleton(Unknown(PlaceOnDisk(os.path.dirname(file.source.path)), "a path", "__path__[0]"))
                self.write((scope, "__path__"), singleton(TupleOf((folder,))))
            self.frame.base_depth = self.store.depth
            self.execute(file.source.tree.body)
            if self.unreachable and self.job_aborted and self.stop is not None and self.stop.why:
                self.broken_modules[scope] = self.stop
            if scope == self.main_scope:
                self._note_end(_last_line(file))

    def execute(self, body: Sequence[ast.stmt]) -> None:
        statements.run_block(self, body)

    def evaluate(self, node: ast.expr) -> Values:
        """The values of an expression on this path."""
        # Counted and chosen here, not in functions of their own: there is no call that is more frequent.
        self.evaluations = count = self.evaluations + 1
        if not count & _LOOK_EVERY:
            self.check_evaluations()
        return EVALUATORS[type(node)](self, node)

    def truth(self, values: Values, node: ast.AST) -> bool | Literal:
        return truthiness.truth(self, values, node)

    def attribute(self, receiver: Value, name: str, node: ast.AST) -> Values:
        return attributes.attribute(self, receiver, name, node)

    def import_named(self, name: str, node: ast.AST) -> Value:
        if name == MAIN and self.main_scope is not None:
            return ProjectModule(self.main_scope, name)
        bare = name.lstrip(".")
        if bare == name and imports.is_no_module(self, name):
            why = f"imports `{name}`, which is no module"
            self.abort(self.text(node), self.place(node), "ModuleNotFoundError", why)
        return imports.load(self, bare, len(name) - len(bare), node)

    def import_defining(self, name: str, most: int, node: ast.AST) -> list[Value]:
        return imports.load_defining(self, name, most, node)

    def import_found(self, folder: str | None) -> None:
        imports.wait_for_found(self, folder or os.path.dirname(self.frame.file.source.path))

    def complete(self, table: DictOf, key: Value | None) -> None:
        if self.waits or (self.pending and not self.reading_library):
            imports.complete(self, table, key)

    def item_at(self, value: Value, index: Values, node: ast.AST) -> Values:
        return items.item_at(self, value, index, node)

    def object_of_settings(
        self, cls: Class, node: ast.AST, chosen: Callable[[str, Values | None], Values] | None = None
    ) -> Values:
        return object_of_settings(self, cls, node, chosen)

    def call(self, function: Values, arguments: Arguments, node: ast.AST) -> Values:
        return calls.call(self, function, arguments, node)

    def open_context(self, manager: Values, node: ast.AST) -> Values:
        return with_statements.open_in_stack(self, manager, node)

    def run_generator(
        self, generator: Generator, node: ast.AST, on_yield: Callable[[Values], None] | None = None
    ) -> Values:
        return with_statements.run_generator(self, generator, node, on_yield)

    def items_of(self, values: Values, node: ast.AST) -> Values:
        return items.items_of(self, values, node)

    def library_name(self, name: str, node: ast.AST) -> Values:
        return library.library_name(self, name, node)
