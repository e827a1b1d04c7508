"""The interpreter: the machine with statements, expressions and calls wired to it.

The parts stand in modules of their own and know each other only through this class.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from gpudoctor.lint.domain.arguments import Arguments
from gpudoctor.lint.domain.container import DictOf, ListOf
from gpudoctor.lint.domain.function import BoundMethod, Class, Function, Generator, LazyImport, Library, ProjectModule
from gpudoctor.lint.domain.rank import Rank, Size
from gpudoctor.lint.domain.value import UNBOUND, Const, Unknown, Value, Values
from gpudoctor.lint.events.process import RankTextUsed, SettingRead
from gpudoctor.lint.flow.condition import ALWAYS, Literal
from gpudoctor.lint.flow.valueset import ValueSet
from gpudoctor.lint.interp import (
    attributes,
    batch_items,
    calls,
    containers,
    expressions,
    imports,
    library,
    statements,
    truthiness,
    with_statements,
)
from gpudoctor.lint.interp.expressions import EVALUATORS
from gpudoctor.lint.interp.imports import module_frame
from gpudoctor.lint.interp.machine import Machine, singleton
from gpudoctor.lint.library.argument_parsers import OPTIONS
from gpudoctor.lint.program import Stop
from gpudoctor.lint.source.project import ModuleFile
from gpudoctor.record import replace

if TYPE_CHECKING:
    from gpudoctor.diagnostic import Location
    from gpudoctor.lint.domain.data import Loader
    from gpudoctor.lint.domain.tensor import Tensor
    from gpudoctor.lint.events.event_context import Event
    from gpudoctor.lint.interp.configured_calls import ChosenCall
    from gpudoctor.lint.program import LaunchWorld
    from gpudoctor.lint.source.project import Package, Project

_LOOK_EVERY = 255
"""One less than a power of two: after so many expressions it is asked whether time is over."""
IN_NOTEBOOKS = {"display": "IPython.display.display", "get_ipython": "IPython.get_ipython"}
"""What a notebook's kernel adds to Python's own names."""
BUILTINS = frozenset(dir(__builtins__) if not isinstance(__builtins__, dict) else __builtins__)


def _last_line(file: ModuleFile) -> tuple[str, int] | None:
    """Where the last statement of a file begins, also under the main guard."""
    last = file.source.tree.body[-1] if file.source.tree.body else None
    while isinstance(last, ast.If) and last.body:
        last = last.body[-1]
    return (file.source.shown, last.lineno) if last is not None else None


@cache
def _builtin(name: str) -> Values:
    return singleton(Library(f"builtins.{name}"))


class Interpreter(Machine):
    """Executes a program on paper. One object for one entry file in one world."""

    __slots__ = (
        "augmenting", "class_being_defined", "decorated", "ended", "executing_module", "frame_star_libraries",
        "imported", "imported_statements", "importing_since", "main_guards", "main_scope",
        "open_imports", "open_modules",
        "packages", "pending", "reading_library", "unread",
    )  # fmt: skip

    def __init__(self, project: Project, world: LaunchWorld, assumed: dict[Hashable, bool]) -> None:
        super().__init__(project, world, assumed)
        self.packages: dict[Hashable, ModuleFile | Package] = {}
        self.open_modules: set[Hashable] = set()
        self.pending: dict[Hashable, ModuleFile] = {}
        """Modules that were imported and not executed yet."""
        self.imported: dict[LazyImport, Values] = {}
        self.imported_statements = 0
        self.importing_since: int | None = None
        self.open_imports = 0
        """How many statements had been executed when a module was begun that is not done yet."""
        self.reading_library = False
        """The entry only defines things: what it imports is executed when it is asked for."""
        self.executing_module = False
        """The body of a module is being executed, and not yet a function of the library file."""
        self.frame_star_libraries: dict[Hashable, list[str]] = {}
        self.class_being_defined: Class | None = None
        self.ended: Stop | None = None
        """Where all paths of the program end in an error."""
        self.augmenting = False
        self.main_scope: Hashable = None
        self.main_guards = 0
        self.unread: dict[ast.AST, ChosenCall] = {}
        """The calls of what a setting has chosen."""
        self.decorated: dict[ast.AST, int] = {}
        """How often each decorator has given a function back as it was, one time after the other."""

    # --- modules -----------------------------------------------------------------------------------------------

    def run_module(self, scope: Hashable, file: ModuleFile) -> None:
        """Execute the body of a module; what it binds is seen on every path."""
        name = "__main__" if scope == self.main_scope else file.name
        # Below all layers, since Python executes a module once, whichever branch imports it.
        with self.isolated_state(), self.store.at_bottom():
            self.frames.append(module_frame(scope, file))
            self.write((scope, "__name__"), singleton(Const(name)))
            self.write((scope, "__file__"), singleton(Unknown(("file", scope), "a path", "__file__")))
            self.frame.base_depth = self.store.depth
            self.execute(file.source.tree.body)
            if scope == self.main_scope:
                self._note_end(_last_line(file))

    def _note_end(self, last_line: tuple[str, int] | None) -> None:
        """All paths of the main program, or of the ranks that it starts, end in an error."""
        # `sys.exit(main())` at the very end is how a program ends that has done its work.
        if self.unreachable and self.job_aborted and self.stop and (self.stop.at.path, self.stop.at.line) != last_line:
            self.ended = self.ended or self.stop

    @contextmanager
    def isolated_state(self) -> Iterator[None]:
        """What asks for a module is none of the module's business, and what the module does is not done by who asks."""
        fresh: dict[str, object] = {
            # An import inside a rank guard still binds the module for everybody.
            "path": ALWAYS, "unreachable": False, "job_aborted": self.job_aborted, "enclosing": [], "open_loops": [],
            # The frame at the bottom stays: where the entry stands decides what `sys.path` holds.
            "frames": self.frames[:1], "calls": [], "contexts": [], "augmenting": False, "class_being_defined": None,
            "muted": 0, "executing_module": True, "oldest_write": self.oldest_write,
            # Executed once and for all, it is no part of a look ahead, and nobody listens to what it calls.
            "look_ends": None, "iteration_probe": None,
            # Its body runs as well where a new process imports it, whoever has asked for it first.
            "main_guards": 0,
        }  # fmt: skip
        before, reads = {name: getattr(self, name) for name in fresh}, len(self.reads)
        for name, value in fresh.items():
            setattr(self, name, value)
        try:
            yield
        finally:
            for name, value in before.items():
                setattr(self, name, value)
            del self.reads[reads:]

    def names_in(self, scope: Hashable) -> list[str]:
        return self.store.names(scope)

    # --- names -------------------------------------------------------------------------------------------------

    def bind(self, name: str, values: Values) -> None:
        """Bind a name in the current frame, or where `global` and `nonlocal` say."""
        frame = self.frame
        if name in frame.global_names:
            self.write((frame.scopes[-1], name), values)
        elif name in frame.outer_names:
            # `nonlocal` means the nearest scope around that has the name.
            owner = next((s for s in frame.scopes[1:] if self.store.get((s, name)) is not None), frame.scope)
            self.write((owner, name), values)
        else:
            self.write((frame.scope, name), values)

    def is_bound(self, name: str) -> bool:
        """The program gives this name a meaning of its own."""
        return any(self.store.get((scope, name)) is not None for scope in self.frame.scopes)

    def lookup(self, name: str, node: ast.AST) -> Values:
        """What a name holds here."""
        for scope in self.frame.scopes:
            found = self.read((scope, name))
            if found is None:
                continue
            # A path on which the name is unbound raises NameError: whoever gets on has a value.
            bound = [b for b in found.bindings if b.value is not UNBOUND]
            if bound:
                known = found if len(bound) == len(found.bindings) else ValueSet(bound)
                return imports.resolved(self, known, node)
        return self.elsewhere(name, node)

    def elsewhere(self, name: str, node: ast.AST) -> Values:
        """What a name means that the program does not bind: Python's own, or one of a star import."""
        stars = self.frame_star_libraries
        origins = [o for scope in self.frame.scopes for o in stars.get(scope, ())] if stars else []
        for origin in origins:
            # `from torch import *` must not make `print` a name of torch.
            if library.is_known(f"{origin}.{name}", exactly=name in BUILTINS):
                return self.library_name(f"{origin}.{name}", node)
        if name in BUILTINS:
            return _builtin(name)
        if name in IN_NOTEBOOKS and self.frame.file.source.cells is not None:
            return self.library_name(IN_NOTEBOOKS[name], node)
        # A star import of what was not read is the likeliest source.
        if origins:
            return self.library_name(f"{origins[-1]}.{name}", node)
        self.record_imprecision(f"`{name}` is not defined in what was read", self.place(node))
        return singleton(Unknown(("name", self.frame.scopes[-1], name), "a name that is not defined", name))

    # --- parts -------------------------------------------------------------------------------------------------

    def execute(self, body: Sequence[ast.stmt]) -> None:
        statements.run_block(self, body)

    def evaluate(self, node: ast.expr) -> Values:
        """The values of an expression on this path."""
        # Counted and chosen here, not in functions of their own: there is no call that is more frequent.
        self.evaluations += 1
        if not self.evaluations & _LOOK_EVERY:
            self.check_evaluations()
        evaluator = EVALUATORS.get(type(node))
        # Newer syntax must not end the execution.
        if evaluator is None:
            return self.unknown(node, f"{type(node).__name__} is not followed")
        return evaluator(self, node)

    def test(self, node: ast.expr) -> bool | Literal:
        return truthiness.ask(self, node)

    def truth(self, values: Values, node: ast.AST) -> bool | Literal:
        return truthiness.truth(self, values, node)

    def pattern(self, subject: Values, case: ast.pattern) -> bool | Literal:
        return truthiness.pattern(self, subject, case)

    def binary(self, left: Values, op: ast.operator, right: Values, node: ast.AST) -> Values:
        return expressions.binary(self, left, op, right, node)

    def attribute(self, receiver: Value, name: str, node: ast.AST) -> Values:
        return attributes.attribute(self, receiver, name, node)

    def set_attribute(self, target: ast.Attribute, values: Values) -> None:
        statements.clears_gradient(self, target, values)
        attributes.set_attribute(self, target, values)

    def find_method(self, value: Value, name: str) -> Values | None:
        """A method that the project's class of this object has."""
        cls = attributes.class_of(value)
        found = attributes.find_in_class(self, cls, name) if cls is not None else None
        if found is None:
            return None
        return found.map(lambda each: BoundMethod(value, each, name) if isinstance(each, Function) else each)

    def find_in_class(self, cls: Value, name: str) -> Values | None:
        return attributes.find_in_class(self, cls, name) if isinstance(cls, Class) else None

    def fields_of(self, cls: Value) -> tuple[str, ...]:
        """The fields of a dataclass or its kind, in the order of its constructor."""
        return tuple(attributes.fields_of(cls)) if isinstance(cls, Class) else ()

    def own_functions(self) -> list[Value]:
        """The functions that the current module defines."""
        module = ProjectModule(self.frame.scopes[-1], self.frame.file.name)
        return [each for each in self.defined_in(module) if isinstance(each, Function)]

    def defined_in(self, module: Value) -> list[Value]:
        """The classes and functions that a module of the project defines itself."""
        scope = module.scope if isinstance(module, ProjectModule) else None
        path = getattr(getattr(self.packages.get(scope), "source", None), "shown", "")
        found = (values.single for name in self.names_in(scope) if (values := self.read((scope, name))) is not None)
        return [each for each in found if isinstance(each, (Function, Class)) and each.place.path == path]

    def bound_in(self, module: Value, name: str) -> Values | None:
        """What a module of the project binds a name to."""
        return self.read((module.scope, name)) if isinstance(module, ProjectModule) else None

    def import_named(self, name: str, node: ast.AST) -> Value:
        bare = name.lstrip(".")
        return imports.load(self, bare, len(name) - len(bare), node)

    def modules_below(self, package: str) -> tuple[str, ...]:
        """The names of the modules in a package of the project."""
        found = self.project.find(self.frame.file, package)
        return self.project.module_names(found) if found is not None else ()

    def call(self, function: Values, arguments: Arguments, node: ast.AST) -> Values:
        return calls.call(self, function, arguments, node)

    def method(self, receiver: Value, name: str, args: tuple[Values, ...], node: ast.AST) -> Values | None:
        """Call a method of the project's class; None where it has none of that name."""
        found = self.find_method(receiver, name)
        return None if found is None else self.call(found, Arguments(args), node)

    def context_name(self, dotted: str) -> str:
        return with_statements.context_name(dotted)

    def enter(self, manager: Values, inside: Callable[[Values], None], node: ast.AST) -> None:
        with_statements.enter(self, manager, inside, node)

    def open_context(self, manager: Values, node: ast.AST) -> Values:
        return with_statements.open_in_stack(self, manager, node)

    def run_generator(self, generator: Generator, node: ast.AST) -> Values:
        return with_statements.run_generator(self, generator, node)

    def yielded(self, values: Values) -> None:
        """A generator hands out a value."""
        frame = self.frame
        if frame.on_yield is not None:
            frame.on_yield(values)

    def receivers(self, node: ast.Call) -> list[Value]:
        """What the method of a call was called on, evaluated without a trace."""
        # Evaluating a call twice would make its objects twice.
        if not isinstance(node.func, ast.Attribute) or not isinstance(
            node.func.value, (ast.Name, ast.Attribute, ast.Subscript)
        ):
            return []
        with self.events_suppressed():
            return list(self.evaluate(node.func.value).restrict(self.path))

    def missing_argument(self, function: Function, name: str, arguments: Arguments) -> Values:
        """A parameter for which nothing was given: a library fills it, or the call was made up."""
        # These decorators fill the parameters from the command line.
        settings = any(each.startswith(("click.", "hydra.", "fire.", "typer.")) for each in function.decorators)
        if settings:
            self.emit(SettingRead, at=function.place, name=name)
            declared = self.fact(OPTIONS, name)
            if declared is not None:
                return declared
        key = ("setting", name) if settings else ("parameter", function.place, name)
        return singleton(
            Unknown(key, "a parameter", name, config=settings or arguments.open_ended or len(self.calls) <= 1)
        )

    # --- containers --------------------------------------------------------------------------------------------

    def new_list(self, items: list[Values], node: ast.AST, exact: bool = True) -> Values:
        return containers.new_list(self, items, node, exact)

    def new_dict(self, entries: list[tuple[Values | None, Values]], node: ast.AST, exact: bool = True) -> Values:
        return containers.new_dict(self, entries, node, exact)

    def known_items(self, value: Value | None) -> tuple[Values, ...] | None:
        return containers.known_items(self, value)

    def known_keys(self, value: DictOf) -> list[Value] | None:
        return containers.known_keys(self, value)

    def pairs(self, value: Value | None) -> list[tuple[Values, Values]] | None:
        return containers.pairs(self, value) if isinstance(value, DictOf) else None

    def possible_pairs(self, value: DictOf) -> list[tuple[Values, Values]]:
        return containers.possible_pairs(self, value)

    def items_of(self, values: Values, node: ast.AST) -> Values:
        return containers.items_of(self, values, node)

    def item(self, value: Value, index: Values, node: ast.AST) -> Values:
        return containers.item(self, value, index, node)

    def set_item(self, target: ast.Subscript, values: Values) -> None:
        owner, index = self.evaluate(target.value), self.evaluate(target.slice)
        for value in owner.restrict(self.path):
            # `os.environ["X"] = …` is a write to the environment, not to a dictionary.
            if not library.set_library_item(self, value, index, values, target):
                containers.set_item(self, value, index, values, target)

    def put_item(self, owner: Value, index: Values, values: Values, node: ast.AST) -> None:
        containers.set_item(self, owner, index, values, node)

    def add_items(self, owner: Value, items: list[Values], exact: bool = True) -> None:
        if isinstance(owner, ListOf):
            containers.extend(self, owner, items, exact)

    def unpack(self, values: Values, count: int, star: int | None, node: ast.AST) -> list[Values]:
        return containers.unpack(self, values, count, star, node)

    def concatenate(self, left: Value, right: Value, node: ast.AST) -> Values:
        return containers.concatenate(self, left, right, node)

    # --- library knowledge -------------------------------------------------------------------------------------

    def library_name(self, name: str, node: ast.AST) -> Values:
        return library.library_name(self, name, node)

    def call_library(self, name: str, arguments: Arguments, node: ast.AST) -> Values:
        return library.call_library(self, name, arguments, node)

    def call_unknown(self, value: Value, arguments: Arguments, node: ast.AST) -> Values:
        return library.call_unknown(self, value, arguments, node)

    def unanswered(self, receiver: Value, name: str, arguments: Arguments, node: ast.AST) -> Values:
        return library.unanswered(self, receiver, name, arguments, node)

    def library_item(self, value: Value, index: Values, node: ast.AST) -> Values:
        return library.library_item(self, value, index, node)

    def environment_has(self, key: Value, container: Value) -> Value | None:
        return library.environment_has(self, key, container)

    def iterate_object(self, value: Value, node: ast.AST) -> Values:
        return library.iterate_object(self, value, node)

    def batch(self, loader: Loader, node: ast.AST) -> Values:
        return batch_items.batch(self, loader, node)

    def part(self, tensor: Tensor, node: ast.AST, key: object = None) -> Values:
        return library.part(self, tensor, node, key)

    def combine(self, values: list[Value], node: ast.AST) -> Values:
        return library.combine(self, values, node)

    def note_accumulation(self, target: ast.expr, new: Values, node: ast.AST) -> None:
        library.note_accumulation(self, target, new, node)

    def note_written(self, old: Values, by: Values, node: ast.AST) -> None:
        library.note_written(self, old, by, node)

    def note_printed(self, values: Values, node: ast.AST) -> None:
        library.note_printed(self, values, node)

    def note_rank_text(self, op: ast.cmpop, left: Value, right: Value, node: ast.AST) -> None:
        """The string of a rank variable is compared with a number: never equal."""
        for text, other in ((left, right), (right, left)):
            if isinstance(text, (Rank, Size)) and text.as_text:
                # Two texts may well be equal.
                number = isinstance(other, (Rank, Size)) and not other.as_text
                if number or (isinstance(other, Const) and type(other.value) is int):
                    self.emit(RankTextUsed, at=self.place(node), rank=text, use=f"compared in `{self.text(node)}`")

    def note_text_used(self, rank: Rank | Size, operation: str, node: ast.AST) -> None:
        self.emit(RankTextUsed, at=self.place(node), rank=rank, use=f"calculated with in `{self.text(node)}`")

    def run_spawned(
        self,
        function: Values,
        arguments: Arguments,
        node: ast.AST,
        prepare: Callable[[], None] = lambda: None,
    ) -> None:
        """What a spawned process does, with its own memory of what it changes, after its launcher has prepared it."""
        # A spawned process shares no memory: what it changes is gone for its parent.
        with self.store.delta():
            before = self.path, self.unreachable
            prepare()
            self.call(function, arguments, node)
            self._note_end(None)
            self.path, self.unreachable = before

    def run_speculatively(self, act: Callable[[], Values]) -> tuple[Values, list[Event]]:
        """What something would return and log. Nothing of it is kept, so that it may be done for a look ahead."""
        before = self.path, self.unreachable, self.job_aborted, self.muted
        logged, start, studied = set(self._logged), len(self.log), self.studied.copy()
        with self.store.delta():
            # Asked for its events, it must log also where the caller is muted.
            self.muted = 0
            try:
                values = act()
            finally:
                # Where a limit ends it, nothing of it has happened, either.
                events = self.log[start:]
                del self.log[start:]
        self._logged, self.studied = logged, studied
        self.path, self.unreachable, self.job_aborted, self.muted = before
        return values, events

    def replay_event(self, event: Event) -> None:
        """Log what a rehearsal has found, as it was found there."""
        if not self.muted:
            self.log.append(replace(event, order=len(self.log)))

    def define_class(self, value: Value) -> str | None:
        """The name of the project's class of an object."""
        cls = attributes.class_of(value)
        return cls.label if cls is not None else None

    def attributes_of(self, value: Value) -> list[Value]:
        """What the attributes of an object hold."""
        return library.attributes_of(self, value)

    def names_of(self, value: Value) -> list[str]:
        """The attributes that the program has set on an object."""
        return self.store.names(value)

    def note_escape(self, into: str, given: tuple[Values, ...], node: ast.AST) -> None:
        library.note_escape(self, into, given, node)

    def terminate(self, failed: bool, by: str, at: Location) -> None:
        """The process ends here, and with it the job where it has failed."""
        self.unreachable = True
        self.job_aborted = failed
        self.stop = Stop(by, at)

    @property
    def under_main_guard(self) -> bool:
        """A test of `__name__` keeps child processes from coming here; no child executes a notebook."""
        main = self.packages.get(self.main_scope)
        return self.main_guards > 0 or (isinstance(main, ModuleFile) and main.source.cells is not None)

    @property
    def in_loop(self) -> bool:
        return bool(self.open_loops)

    @property
    def evaluating(self) -> bool:
        return "no_grad" in self.contexts
