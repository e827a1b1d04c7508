"""The state of an execution, with the questions that statements, expressions and calls ask each other.

Each part of the evaluation is a file that knows this class only; the interpreter puts the parts together. So a part can
be read without the others, and what goes in a circle (a call runs statements, which evaluate expressions, which call)
does so here and nowhere else.
"""

from __future__ import annotations

import ast
import os
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from gpudoctor.lint.domain.abstract_state import NO, PROCESS, ProcessState
from gpudoctor.lint.domain.arguments import Arguments
from gpudoctor.lint.domain.function import Class, Function, LazyImport, ProjectModule
from gpudoctor.lint.domain.launched_numbers import Sizes, asks_for_size, decided
from gpudoctor.lint.domain.symbols import HandlerHasRun
from gpudoctor.lint.domain.value import Value, Values, int_of
from gpudoctor.lint.events.knowledge import Stop
from gpudoctor.lint.events.launch_world import LaunchWorld
from gpudoctor.lint.events.model import Wrap
from gpudoctor.lint.events.process import RankTextUsed
from gpudoctor.lint.flow.condition import Atom, Condition, Divergence, Literal
from gpudoctor.lint.interp.execution_state import ExecutionState
from gpudoctor.lint.interp.function_traits import traits_of_tree
from gpudoctor.lint.interp.limits import MAX_AT_END
from gpudoctor.lint.interp.position import Frame, PathExit, Within
from gpudoctor.lint.source.file_queries import folder_above, is_folder
from gpudoctor.lint.source.project import ModuleFile, Package, Project
from gpudoctor.record import dataclass, replace

if TYPE_CHECKING:
    from gpudoctor.diagnostic import Location
    from gpudoctor.lint.domain.function import ChosenCall
    from gpudoctor.lint.domain.rank import Rank, Size
    from gpudoctor.lint.events.event_context import Event
    from gpudoctor.lint.interface.library_context import Execution, Launch, LibraryContext, ProjectModules
    from gpudoctor.lint.interp.function_traits import Registrar

    class _WhatModelsAsk(LibraryContext, ProjectModules):
        """What models may ask and do."""

else:
    # Nobody needs to run what only says which members there are.
    _WhatModelsAsk = object


MAIN = "__main__"
"""How Python calls the module that is the program."""


@dataclass(frozen=True)
class LastCall:
    """A function that is called when the program has ended, from where it was said, on the paths that came there."""

    function: Values
    arguments: Arguments
    node: ast.AST
    path: Condition
    frame: Frame


class Evaluator(ExecutionState, _WhatModelsAsk):
    """The state of an execution, as the parts of the evaluation see it."""

    # One for the whole execution, too: a module is executed once, whoever has asked for it.
    __slots__ = {
        "asked_by_name": "How often setting files were asked what stands under the keys of a value.",
        "at_end": "What is called when the program has ended.",
        "beside": "Files that were imported for the package around another one, and of which nothing was called.",
        "broken_modules": "The modules whose bodies surely end in an error, and which: who imports them gets it, too.",
        "chosen_calls": "The calls of what a setting has chosen, which were not followed.",
        "configured": "What the settings files of the launcher say, by their keys.",
        "decorated": "What each decorator has done that gave functions back as they were.",
        "drawn": "How often generators were followed for one item, what that took last, and what it was.",
        "ended": "Where all paths of the program end in an error.",
        "fatal": "The functions of which a call has ended in an error on all its paths, and which.",
        "frame_star_libraries": "The libraries of which a scope has imported all names.",
        "given": "Options that the program is known to get: what starts it says so.",
        "handed_over": "Functions that code which was not read has been given, and may call.",
        "imported": "What lazy imports have come to.",
        "imported_statements": "Counted against the budget of imports.",
        "importing_since": "How many statements had been executed when a module was begun that is not done yet.",
        "leaves_out_the_rest": "Options that it does not say they get keep their numbers.",
        "looked_up": "How often was looked for a file, or in one, which may have changed what is known.",
        "main_scope": "The scope of the module that is the program.",
        "on_statement": "Somebody looks on before and after each statement, whoever executes it.",
        "open_imports": "How many modules and names are being imported, one for the other.",
        "open_modules": "The modules whose bodies are being executed.",
        "packages": "The modules that were imported.",
        "pending": "Modules that were imported and not executed yet.",
        "reading_library": "The entry only defines things: what it imports is executed when it is asked for.",
        "registering_nothing": "Of the modules that wait, those that put nothing into a table.",
        "sizes": "How many processes and machines there are, where what starts the program says so.",
        "strangers": "Modules that were imported, and are neither the program's nor known libraries.",
        "waits": "Modules that only define things are executed when they are asked for: enough were imported.",
        "words": "All that the program is given behind its name, where what starts it says so.",
        "written_there": "The trees of texts that are executed, in the place of code of a library, by where.",
    }

    def __init__(self, project: Project, world: LaunchWorld, assumed: dict[Hashable, bool]) -> None:
        super().__init__(project, world, assumed)
        self.broken_modules: dict[Hashable, Stop] = {}
        self.packages: dict[Hashable, ModuleFile | Package] = {}
        self.open_modules: set[Hashable] = set()
        self.pending: dict[Hashable, ModuleFile] = {}
        self.imported: dict[LazyImport, Values] = {}
        self.imported_statements = self.looked_up = self.asked_by_name = 0
        self.importing_since: int | None = None
        self.open_imports = 0
        self.reading_library = self.waits = False
        self.registering_nothing: set[Hashable] = set()
        self.frame_star_libraries: dict[Hashable, list[str]] = {}
        self.drawn: dict[Hashable, tuple[int, int, Values]] = {}
        self.ended: Stop | None = None
        self.fatal: dict[ast.AST, Stop] = {}
        self.on_statement: Callable[[Evaluator, ast.stmt, bool], None] | None = None
        self.main_scope: Hashable = None
        self.chosen_calls: dict[ast.AST, ChosenCall] = {}
        self.strangers: set[str] = set()
        self.beside: set[str] = set()
        self.handed_over: dict[Value, None] = {}
        self.given: Mapping[str, str | bool] = {}
        self.words: tuple[str, ...] | None = None
        self.leaves_out_the_rest = False
        self.configured: Mapping[str, str] = {}
        self.sizes: Sizes = {}
        self.decorated: dict[ast.AST, Registrar] = {}
        self.at_end: list[LastCall] = []
        self.written_there: dict[tuple[str, Location], ast.AST] = {}

    # --- what models may ask, by what it is about: `library_context.py` says what each means ------------------------

    @property
    def launch(self) -> Launch:
        return self

    def option(self, flags: Sequence[str]) -> str | bool | None:
        names = (flag.lstrip("-").replace("_", "-") for flag in flags if flag.startswith("-"))
        return next((self.given[name] for name in names if name in self.given), None)

    def counted(self, key: Hashable) -> bool | None:
        """What a test comes to with as many processes as the launch makes; None where it is about something else, or
        the launch does not say how many."""
        return decided(key, self.sizes) if self.sizes and asks_for_size(key) else None

    @property
    def size_matters(self) -> bool:
        """A test has asked how many processes there are."""
        return any(map(asks_for_size, self.asked))

    @property
    def modules(self) -> ProjectModules:
        return self

    @property
    def execution(self) -> Execution:
        return self

    # --- what the parts do for each other, beside what library models may ask --------------------------------------

    @abstractmethod
    def execute(self, body: Sequence[ast.stmt]) -> None:
        """Follow the statements of a block."""

    @abstractmethod
    def evaluate(self, node: ast.expr) -> Values:
        """The values of an expression on this path."""

    @abstractmethod
    def truth(self, values: Values, node: ast.AST) -> bool | Literal:
        """What a test of these values comes to on this path: decided, or open."""

    @abstractmethod
    def run_module(self, scope: Hashable, file: ModuleFile) -> None:
        """Execute the body of a module; what it binds is seen on every path."""

    @abstractmethod
    def item_at(self, value: Value, index: Values, node: ast.AST) -> Values:
        """`value[index]`."""

    @abstractmethod
    def library_name(self, name: str, node: ast.AST) -> Values:
        """What a name of a library means."""

    # --- scopes and processes ---------------------------------------------------------------------------------------

    def _note_end(self, last_line: tuple[str, int] | None) -> None:
        """All paths of the main program, or of the ranks that it starts, end in an error."""
        # `sys.exit(main())` at the very end is how a program ends that has done its work.
        if self.unreachable and self.job_aborted and self.stop and (self.stop.at.path, self.stop.at.line) != last_line:
            self.ended = self.ended or self.stop

    def result_name(self, node: ast.AST) -> str | None:
        return self.hints.get(id(node)) or None

    def files_read(self) -> Iterator[ModuleFile]:
        """The modules of the project that were executed so far."""
        read = (each for scope, each in self.packages.items() if scope not in self.pending)
        return (each for each in read if isinstance(each, ModuleFile))

    @property
    def spent_on_imports(self) -> int:
        """Statements of modules that were imported, or are being imported."""
        under_way = self.statements - self.importing_since if self.importing_since is not None else 0
        return self.imported_statements + under_way

    def bind(self, name: str, values: Values) -> None:
        """Bind a name in the current frame, or where `global` and `nonlocal` say."""
        frame = self.frames[-1]
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

    def own_module(self) -> ProjectModule:
        """The module in which this is executed."""
        return ProjectModule(self.frame.scopes[-1], self.frame.file.name)

    def own_functions(self) -> list[Value]:
        return [each for each in self.defined_in(self.own_module()) if isinstance(each, Function)]

    def _default(self, default: ast.expr, given: dict[str, Values]) -> Values:
        known = given.get(default.id) if isinstance(default, ast.Name) else None
        return known if known is not None else self.evaluate(default)

    def function_at(self, text: str, node: ast.AST, **given: Values) -> Value:
        (made,) = self._written(text, node, ast.parse).body
        assert isinstance(made, ast.FunctionDef)
        at, file = self.place(made), self.frame.file
        by_name = zip(made.args.kwonlyargs, made.args.kw_defaults, strict=True)
        left_out = {each.arg: self._default(default, given) for each, default in by_name if default is not None}
        named = tuple({**left_out, **given}.items())
        defaults = tuple([self._default(default, given) for default in made.args.defaults])
        return Function(self.allocation_site(at), at, made.name, made, (), file, defaults, named, "library")

    def expression_at(self, text: str, node: ast.AST) -> Values | None:
        try:
            expression = self._written(text.strip(), node, partial(ast.parse, mode="eval"))
        except (SyntaxError, ValueError, RecursionError):
            return None
        return self.evaluate(expression.body)

    def _written(self, text: str, node: ast.AST, parse: Callable[[str], Any]) -> Any:
        """The tree of a text, which stands where a node does. It is kept: what is known of nodes goes by who they
        are."""
        key = text, self.place(node)
        found = self.written_there.get(key)
        if found is None:
            found = self.written_there[key] = parse(text)
            for part in ast.walk(found):
                if hasattr(part, "lineno"):
                    ast.copy_location(part, node)
                if isinstance(part, (ast.FunctionDef, ast.Lambda)):
                    self._traits[part] = traits_of_tree(part)
        return found

    def defined_in(self, module: Value) -> list[Value]:
        scope = module.scope if isinstance(module, ProjectModule) else None
        path = getattr(getattr(self.packages.get(scope), "source", None), "shown", "")
        found = (values.single for name in self.store.names(scope) if (values := self.read((scope, name))) is not None)
        return [each for each in found if isinstance(each, (Function, Class)) and each.place.path == path]

    def modules_below(self, package: str) -> tuple[str, ...]:
        found = self.project.find(self.frame.file, package)
        return self.project.module_names(found) if found is not None else ()

    def folders_below(self, package: str) -> tuple[str, ...]:
        found = self.project.find(self.frame.file, package)
        return self.project.folder_names(found) if found is not None else ()

    def has_module(self, name: str) -> bool:
        return name == MAIN or (bool(name) and self.project.find(self.frame.file, name) is not None)

    def named_in_settings(self, keys: Sequence[str], *, words: bool = False) -> list[str]:
        # Imported late: most programs write the names of their classes.
        from gpudoctor.lint.source.setting_files import named_under

        self.asked_by_name += 1
        return named_under(self.project.root, keys, words=words) if keys else []

    def named_by_itself(self, key: str) -> list[str]:
        # Imported late, as above.
        from gpudoctor.lint.source.setting_files import named_by_itself

        self.asked_by_name += 1
        return named_by_itself(self.project.root, key)

    def is_before(self, library: str, version: Sequence[int]) -> bool:
        first = self.project.too_new(library)
        return bool(first) and tuple(first) <= tuple(version)

    def settings_in(self, name: str) -> tuple[str, object] | None:
        return self.project.settings(name)

    def usual_settings(
        self, option: str, before: str, behind: str, endings: tuple[str, ...]
    ) -> tuple[str, object] | None:
        # Imported late: few programs must be given a file.
        from gpudoctor.lint.source.usual_settings import WantedFile

        self.looked_up += 1
        return self.project.usual_settings(WantedFile(option, before, behind, endings), self.frame.file.source)

    def usual_module(self, option: str) -> str:
        # Imported late, as above.
        from gpudoctor.lint.source.usual_settings import WantedFile

        self.looked_up += 1
        return self.project.usual_module(WantedFile(option, "", "", (".py",)))

    def hydra_config(self, folder: str, name: str) -> object:
        """What hydra composes of the setting files in a folder beside this file."""
        words = {key[1:]: each for key, each in self.given.items() if key.startswith("=") and isinstance(each, str)}
        return self.project.hydra_config(self.frame.file.source.path, folder, name, words)

    def folder_above(self, place: str, marks: Sequence[str]) -> str | None:
        return folder_above(place, marks)

    def yielded(self, values: Values, node: ast.AST) -> None:
        """A generator hands out a value."""
        frame = self.frame
        if frame.on_yield is not None:
            frame.yields_at = node
            frame.on_yield(values)

    def run_spawned(
        self, function: Values, arguments: Arguments, node: ast.AST, prepare: Callable[[], None] = lambda: None
    ) -> None:
        """What a spawned process does, with its own memory of what it changes, after its launcher has prepared it."""
        # A rank that starts processes starts another job: they have neither its group nor what its tests have told.
        if self.started_here and self.flag(PROCESS, ProcessState.group) is not NO:
            return
        # Those of each further round do the same once more, and know nothing of those before.
        if any(loop.repeats for loop in self.open_loops):
            return
        if self.world_unasked is LaunchWorld.TORCHRUN:
            self.to_cluster |= set(self._open_switches())
        # A spawned process shares no memory: what it changes is gone for its parent. It has no part in a loop that
        # starts one after the other.
        with self.fork(self.path), Within(self, started_here=True, open_loops=()):
            prepare()
            self.call(function, arguments, node)
            self._note_end(None)

    def run_beside(self, function: Values, arguments: Arguments, node: ast.AST) -> None:
        """Run what is done beside the program: it may go on for ever, or end in an error of its own."""
        with self.fork(self.path):
            self.call(function, arguments, node)

    def run_at_end(self, function: Values, arguments: Arguments, node: ast.AST) -> None:
        """Run it when the program has ended, on the paths that have come here."""
        if not self.muted and len(self.at_end) < MAX_AT_END:
            self.at_end.append(LastCall(function, arguments, node, self.path, self.frame))

    def run_at_any_time(self, function: Values, arguments: Arguments, node: ast.AST) -> None:
        at = self.place(node)
        told = Literal(Atom(HandlerHasRun(at), Divergence.LOCAL, self.text(node), at), True)
        base = self.path

        def then() -> None:
            self.call(function, arguments, node)

        with self.events_suppressed():
            side = self.run_branch(base, told, then)
        # What ends the process leaves nothing to be read.
        if side.end is not None:
            self.join(base, [side.end, PathExit({}, base.conjoined_with(told.negated()))])

    def answer_of(self, getter: Values, given: Arguments, node: ast.AST) -> Values | None:
        """What a `__getattr__` of the project returns; None where it surely has no such attribute, or asks itself."""
        only = getter.single
        if not isinstance(only, Function) or any(frame.function is only for frame in self.frames):
            return None
        with self.fork(self.path):
            self.call(getter, given, node)
            if self.unreachable:
                return None
        return self.call(getter, given, node)

    def add_search_path(self, folder: str, *, first: bool = False) -> None:
        """The program looks for modules here too: counted from where it is started, which is its folder or the root."""
        for start in (os.path.dirname(self.frames[0].file.source.path), self.project.root):
            path = os.path.join(start, folder)
            if is_folder(path):
                self.project.add_search_path(path, first=first and os.path.isabs(folder))

    def replay_event(self, event: Event) -> None:
        if not self.muted:
            if self.choices.waiting and type(event) is Wrap and event.kind.synchronises:
                self.refine_or_wait(self.trains_beside)
            self.log.append(replace(event, order=len(self.log)))

    def names_of(self, value: Hashable) -> list[str]:
        return self.store.names(value)

    def terminate(self, failed: bool, by: str, at: Location) -> None:
        self.unreachable = True
        self.job_aborted = failed
        self.stop = Stop(by, at)
        self.raised.append("")

    @property
    def found_apart(self) -> Divergence:
        # What a started process does, or each of them when it imports the program.
        if self.started_here or not self.under_main_guard:
            return Divergence.LOCAL
        self.launcher_matters = True
        return Divergence.NONE if self._world is LaunchWorld.SPAWN else Divergence.LOCAL

    @property
    def under_main_guard(self) -> bool:
        """A test of `__name__` keeps child processes from coming here; no child executes a notebook."""
        main = self.packages.get(self.main_scope)
        return self.behind_main_guard or (isinstance(main, ModuleFile) and main.source.cells is not None)

    @property
    def ends_by_errors(self) -> bool:
        """An error that the program runs into ends it: in a notebook one cell does, and a file that is read for its
        functions alone is not run."""
        main = self.packages.get(self.main_scope)
        return not self.reading_library and isinstance(main, ModuleFile) and main.source.cells is None

    @property
    def in_main_module(self) -> bool:
        """This is the body of the file that is started, which is what a main guard asks."""
        return self.frame.scope == self.main_scope

    @property
    def augmenting(self) -> bool:
        return self.frame.augments

    @property
    def evaluating(self) -> bool:
        return "no_grad" in self.contexts

    def note_rank_text(self, op: ast.cmpop, left: Value, right: Value, node: ast.AST) -> None:
        """The string of a rank variable is compared with a number: never equal."""
        for text, other in ((left, right), (right, left)):
            # Two texts may well be equal.
            if text.as_text and (int_of(other) is not None or (other.is_launched and not other.as_text)):
                self.emit(RankTextUsed, at=self.place(node), rank=text, use=f"compared in `{self.text(node)}`")

    def note_text_used(self, rank: Rank | Size, operation: str, node: ast.AST) -> None:
        self.emit(RankTextUsed, at=self.place(node), rank=rank, use=f"used in `{self.text(node)}`")
