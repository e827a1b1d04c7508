"""What a library model may ask and do: types only, which nobody needs to run."""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.abstract_state import Flag, Ternary, ValueCell, ValueTable
from gpudoctor.lint.domain.arguments import Arguments
from gpudoctor.lint.domain.container import DictOf
from gpudoctor.lint.domain.function import ChosenCall, Class, Generator
from gpudoctor.lint.domain.rank import RankKind
from gpudoctor.lint.domain.value import Unknown, Value, Values
from gpudoctor.lint.events.event_context import Event, Loop
from gpudoctor.lint.flow.condition import Condition, Divergence, Literal

Owner = TypeVar("Owner", bound=Value)


class Listener(Protocol):
    """Somebody who is told what is done for a while: what is executed inside of `listening`."""

    __slots__ = ()

    def called(self, name: str, args: tuple[Values, ...]) -> None:
        """A library callable is called."""

    def calculated(self, op: ast.operator, left: Values, right: Values) -> None:
        """A binary operation."""

    def sliced(self, start: Values | None) -> None:
        """A slice begins here."""

    def repeats_for_ever(self) -> None:
        """`while True`."""

    def leaves_loop(self) -> None:
        """A loop is left before its end."""

    def hands_on(self, source: Values) -> None:
        """`yield from source`."""

    def apart(self) -> Listener:
        """Another one, who is told what a part of it does."""

    def add(self, inner: Any) -> None:
        """What that one was told, this one is told, too: once more where the part is done again from memory."""


class SpeculativeRun(Protocol):
    """What is known of a speculative run when it is over."""

    __slots__ = ()

    @property
    def events(self) -> list[Event]: ...
    @property
    def studied(self) -> list[Hashable]: ...
    @property
    def whole(self) -> bool: ...
    @property
    def returned(self) -> bool: ...
    def reads(self, name: str) -> bool: ...


class LoopRound(Protocol):
    """A round of a loop that is being followed."""

    __slots__ = ()

    @property
    def event(self) -> Loop: ...
    @property
    def source(self) -> Values: ...


class Launch(Protocol):
    """How the program is started, and what is assumed of that."""

    __slots__ = ()

    @property
    def launched_by(self) -> str:
        """Who starts the processes."""

    leaves_out_the_rest: bool
    """Options that what starts the program does not give it keep their numbers."""

    @property
    def counts_ranks(self) -> bool:
        """The loop around this place is known to start processes: what it counts is their rank."""

    @property
    def started_here(self) -> bool:
        """What a process does is being followed that the program has started itself."""

    @property
    def under_main_guard(self) -> bool:
        """No process that is started comes here by importing the program."""

    @property
    def found_apart(self) -> Divergence:
        """How far ranks disagree about what is found out here, as the time: what the one process has found that starts
        them all, it hands on."""

    @property
    def in_main_module(self) -> bool:
        """This is the body of the file that is started."""

    def at_main_guard(self) -> AbstractContextManager[None]:
        """Inside is what no other process comes to that imports the module."""

    @property
    def assumptions(self) -> Mapping[Hashable, bool]:
        """The answers to tests, by their keys, that are taken for granted."""

    def assume(self, literal: Literal) -> None:
        """Begin again with this answer where it is not given yet."""

    def assume_rank(self, values: Values, kind: RankKind = ...) -> None:
        """A setting that is handed on as a rank is one."""

    def assume_counted(self, counter: Hashable = None) -> None:
        """The loop around this place starts the processes, or what goes through the numbers of this counter."""

    def assume_several_processes(self, values: Values) -> None:
        """So many processes are started, which are several."""

    def setting(self, value: Unknown, place: Location, default: Value | None = None) -> Value:
        """What the user chooses at the start: one value for all ranks, unless it is their rank. `default` is what it
        is where he chooses nothing."""

    def option(self, flags: Sequence[str]) -> str | bool | None:
        """What the program gets for an option with these names, where what starts it is known: text, or True for a
        switch."""

    words: tuple[str, ...] | None
    """All that the program gets behind its name, where what starts it is known."""

    configured: Mapping[str, str]
    """What the settings files of the launcher say, by their keys: `distributed_type`, `engine.fp16.enabled`."""

    def start_ranks(self) -> None:
        """The program starts its ranks itself, and nobody starts it as one of several."""

    def run_spawned(
        self, function: Values, arguments: Arguments, node: ast.AST, prepare: Callable[[], None] = ...
    ) -> None:
        """Run what a process does that is started here, with its own memory."""

    def run_beside(self, function: Values, arguments: Arguments, node: ast.AST) -> None:
        """Run what is done beside the program, however it ends."""

    def run_at_any_time(self, function: Values, arguments: Arguments, node: ast.AST) -> None:
        """From now on it may have been run, by this rank and not by the others."""

    def run_at_end(self, function: Values, arguments: Arguments, node: ast.AST) -> None:
        """Run it when the program has ended."""


class ProjectModules(Protocol):
    """The modules of the project, for those who import by hand."""

    __slots__ = ()

    def import_named(self, name: str, node: ast.AST) -> Value:
        """Import a module by its dotted name."""

    def import_defining(self, name: str, most: int, node: ast.AST) -> list[Value]:
        """Import the modules beside each other that define a name, or one of them where they are more than `most`."""

    def import_found(self, folder: str | None) -> None:
        """Import the modules in a folder and below it, which the program has searched for; without one, those beside
        the current module. Each is executed when a table lacks what it may register."""

    def modules_below(self, package: str) -> tuple[str, ...]:
        """The names of the modules in a package."""

    def folders_below(self, package: str) -> tuple[str, ...]:
        """The names of the folders in a package of the project."""

    def has_module(self, name: str) -> bool:
        """The project has a module or package of this dotted name."""

    def named_in_settings(self, keys: Sequence[str], *, words: bool = False) -> list[str]:
        """The dotted names that stand under these keys in setting files of the project; with `words` those of one."""

    def named_by_itself(self, key: str) -> list[str]:
        """The dotted names that stand under this key in setting files of the project, in no section or in one."""

    def complete(self, table: DictOf, key: Value | None) -> None:
        """What a table may have under a key is asked: import what registers things and has waited to be asked."""

    def is_before(self, library: str, version: Sequence[int]) -> bool:
        """The project is installed with an older version of a library than this one."""

    def settings_in(self, name: str) -> tuple[str, object] | None:
        """The path and the document of a YAML, TOML or JSON file of the project, where it can be read."""

    def usual_settings(
        self, option: str, before: str, behind: str, endings: tuple[str, ...]
    ) -> tuple[str, object] | None:
        """The same of a file that the user has to name by this option, between these texts, and that ends so: one that
        the program is usually given."""

    def usual_module(self, option: str) -> str:
        """The module that the user has to name by this option: one that the program is usually given, or none."""

    def hydra_config(self, folder: str, name: str) -> object:
        """What hydra composes of the setting files in a folder beside this file: plain dictionaries, lists and scalars,
        `GroupOptions` and `OPEN`; None where that is not known."""

    def folder_above(self, place: str, marks: Sequence[str]) -> str | None:
        """The nearest folder above a place that holds a file or a folder of one of these names."""

    def defined_in(self, module: Value) -> list[Value]:
        """The classes and functions that a module defines itself."""

    def own_module(self) -> Value:
        """The current module."""

    def own_functions(self) -> list[Value]:
        """The functions that the current module defines."""

    def object_of_settings(
        self, cls: Class, node: ast.AST, chosen: Callable[[str, Values | None], Values] | None = None
    ) -> Values:
        """An object of a class whose fields the user or a file chooses, also those of the objects in it; `chosen` says
        what one is, by its name and what it is where nobody chooses."""

    def function_at(self, text: str, node: ast.AST, **given: Values) -> Value:
        """A function with this text, all of which stands where a node stands. It sees nothing but its parameters; of
        some it is `given` what they are."""

    def expression_at(self, text: str, node: ast.AST) -> Values | None:
        """What an expression with this text is, read where a node stands; None of what is none."""

    def add_search_path(self, folder: str, *, first: bool = False) -> None:
        """Look for modules here too, or first of all."""


class Execution(Protocol):
    """What is being executed, for analyses: what leads here, what is read, and what is only tried."""

    __slots__ = ()

    @property
    def statements(self) -> int:
        """How many were executed until now."""

    def flag_by_path(self, owner: Owner, flag: Flag[Owner]) -> Values:
        """Whether something is so of an object, for each of the paths that have come together here."""

    @property
    def receiver(self) -> Value | None:
        """The object whose method is being followed."""

    @property
    def parameters(self) -> dict[str, Values]:
        """What the function that is being followed was given, by the names of its parameters; `**more` has the rest."""

    @property
    def in_body(self) -> bool:
        """The body of a stub is being followed, and no code of the program."""

    @property
    def open_loops(self) -> Sequence[LoopRound]:
        """The loops whose bodies are being followed, innermost last."""

    def outlives_round(self, owner: Hashable) -> bool:
        """It was there before the round of a loop that goes round any number of times."""

    def is_older(self, one: Hashable, other: Hashable) -> bool:
        """It was made before the other."""

    @property
    def augmenting(self) -> bool:
        """What is written now is the result of an augmented assignment."""

    @property
    def reads(self) -> list[Hashable]:
        """The keys that were read, in order."""

    @property
    def listener(self) -> Listener | None:
        """Who is told what is done."""

    @property
    def studied(self) -> dict[Hashable, Any]:
        """The classes whose `forward` was looked at."""

    @property
    def watched(self) -> set[tuple[Value, str]]:
        """Attributes of objects whose reads somebody wants to be told, as those that only copies of a model have."""

    @property
    def chosen_calls(self) -> dict[ast.AST, ChosenCall]:
        """Calls of what a setting has chosen, which were not followed."""

    @property
    def handed_over(self) -> dict[Value, None]:
        """Functions of the program that code which was not read has been given, and may call."""

    def held(self, key: Hashable) -> Values | None:
        """What a key holds now, on whatever path."""

    def open_methods(self, value: Value) -> list[tuple[str, Location | None]]:
        """The methods of this object that are still open, and where each was called; the outermost first."""

    def reached_at(self, value: Value) -> Location | None:
        """Where a method of this object was called that is still open; the outermost one."""

    def listening(self, listener: Listener) -> AbstractContextManager[None]:
        """This one is told what is done inside, and nobody else."""

    def speculative(self, statements: int | None = None) -> AbstractContextManager[SpeculativeRun]:
        """Inside, things are tried: nothing of it has happened behind it, but what it would have logged is known."""

    def replay_event(self, event: Event) -> None:
        """Log what a speculative run has found, as it was found there."""


class LibraryContext(Protocol):
    """What a model may ask and do. `contents.py` says what containers hold and classes have, `Call` what a call is
    about."""

    __slots__ = ()

    # --- what is known here ---

    @property
    def several_processes(self) -> bool:
        """The program runs as several processes."""

    @property
    def path(self) -> Condition:
        """What had to hold to get here."""

    @property
    def evaluating(self) -> bool:
        """No graph is built: `no_grad` is open."""

    @property
    def parts(self) -> dict[Value, set[Value]]:
        """The modules in each module."""

    @property
    def launch(self) -> Launch:
        """How the program is started."""

    @property
    def modules(self) -> ProjectModules:
        """The modules of the project."""

    @property
    def execution(self) -> Execution:
        """What is being executed."""

    # --- places, names and events ---

    def place(self, node: ast.AST) -> Location:
        """Where a node of the current file stands."""

    def text(self, node: ast.AST, limit: int = 60) -> str:
        """How the source writes it, shortened."""

    def result_name(self, node: ast.AST) -> str | None:
        """What the program calls the result of a call."""

    def emit(self, kind: type[Event], /, *, at: Location | None = None, **fields: object) -> None:
        """Log an event."""

    def record_imprecision(self, why: str, at: Location, *, unread: bool = False) -> None:
        """Record that knowledge ends here, in a call of something unknown where it is `unread`."""

    def terminate(self, failed: bool, by: str, at: Location) -> None:
        """The process ends here, and with it the job where it has failed."""

    # --- memory ---

    def allocation_site(self, place: Location) -> Hashable:
        """A fresh identity for something made here."""

    def state(self, owner: Owner, cell: ValueCell[Owner]) -> Values | None:
        """What a cell of an object holds."""

    def set_state(self, owner: Owner, cell: ValueCell[Owner], values: Values) -> None:
        """Write a cell of an object."""

    def flag(self, owner: Owner, flag: Flag[Owner]) -> Ternary:
        """Whether something is so of an object."""

    def set_flag(self, owner: Owner, flag: Flag[Owner], is_so: bool = True) -> None:
        """Say whether something is so of an object."""

    def entry(self, owner: Owner, table: ValueTable[Owner], name: str) -> Values | None:
        """What a table of an object holds under a name."""

    def set_entry(self, owner: Owner, table: ValueTable[Owner], name: str, values: Values) -> None:
        """Write an entry of a table of an object."""

    def own_attribute(self, owner: Hashable, name: str) -> Values | None:
        """What the program has set an attribute of this very object to, or a name of this scope."""

    def set_own_attribute(self, owner: Hashable, name: str, values: Values) -> None:
        """Set an attribute, as the program would, or a name of this scope."""

    def names_of(self, value: Hashable) -> list[str]:
        """The attributes that the program has set on an object."""

    # --- evaluation ---

    def call(self, function: Values, arguments: Arguments, node: ast.AST) -> Values:
        """Call whatever the function may be."""

    def attribute(self, value: Value, name: str, node: ast.AST) -> Values:
        """`value.name`."""

    def for_each_value(self, values: Values, visit: Callable[[Value], Values], node: ast.AST) -> Values:
        """Visit each value that is possible here, on a path of its own, and join the results."""

    def items_of(self, values: Values, node: ast.AST) -> Values:
        """What a loop over these gets in one round."""

    def run_generator(
        self, generator: Generator, node: ast.AST, on_yield: Callable[[Values], None] | None = None
    ) -> Values:
        """Run the body of a generator, for all that it yields."""

    def open_context(self, manager: Values, node: ast.AST) -> Values:
        """Open a context that stays open until the block around ends."""

    def in_contexts(self, *names: str) -> AbstractContextManager[None]:
        """Inside, contexts of these names are open."""
