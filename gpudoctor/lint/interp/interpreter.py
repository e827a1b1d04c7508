"""The interpreter: the state of an execution with statements, expressions and calls wired to it.

The parts stand in modules of their own and know each other only through this class.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Hashable

from gpudoctor.lint.domain.container import DictOf, TupleOf
from gpudoctor.lint.domain.function import ProjectModule
from gpudoctor.lint.domain.symbols import PlaceOnDisk
from gpudoctor.lint.domain.value import Const, Unknown, Value, Values, singleton
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

    # The functions themselves, which get it as their first argument: nothing is called more often.
    execute = statements.run_block
    truth = truthiness.truth
    attribute = attributes.attribute
    item_at = items.item_at
    items_of = items.items_of
    call = calls.call
    open_context = with_statements.open_in_stack
    run_generator = with_statements.run_generator
    library_name = library.library_name
    object_of_settings = object_of_settings
    import_defining = imports.load_defining

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

    def evaluate(self, node: ast.expr) -> Values:
        """The values of an expression on this path."""
        # Counted and chosen here, not in functions of their own: there is no call that is more frequent.
        self.evaluations = count = self.evaluations + 1
        if not count & _LOOK_EVERY:
            self.check_evaluations()
        return EVALUATORS[type(node)](self, node)

    def import_named(self, name: str, node: ast.AST) -> Value:
        if name == MAIN and self.main_scope is not None:
            return ProjectModule(self.main_scope, name)
        bare = name.lstrip(".")
        if bare == name and imports.is_no_module(self, name):
            why = f"imports `{name}`, which is no module"
            self.abort(self.text(node), self.place(node), "ModuleNotFoundError", why)
        return imports.load(self, bare, len(name) - len(bare), node)

    def import_found(self, folder: str | None) -> None:
        imports.wait_for_found(self, folder or os.path.dirname(self.frame.file.source.path))

    def complete(self, table: DictOf, key: Value | None) -> None:
        if self.waits or (self.pending and not self.reading_library):
            imports.complete(self, table, key)
