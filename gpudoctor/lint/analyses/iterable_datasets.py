"""How a stream or a sampler of the project gives out its items: its `__iter__` is rehearsed once for each object."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gpudoctor.lint.domain.abstract_state import NO, DatasetState
from gpudoctor.lint.domain.arguments import Arguments
from gpudoctor.lint.domain.container import DictOf, Enumerated, ListOf, Range, TupleOf
from gpudoctor.lint.domain.data import Dataset, Sampler
from gpudoctor.lint.domain.function import Class, Generator
from gpudoctor.lint.domain.provenance import provenance_of
from gpudoctor.lint.domain.symbols import CallResult
from gpudoctor.lint.domain.tensor import Tensor
from gpudoctor.lint.domain.value import Const, Text, Unknown, Value, Values
from gpudoctor.lint.events.data_loading import Streamed
from gpudoctor.lint.events.event_context import Event
from gpudoctor.lint.events.knowledge import Imprecision
from gpudoctor.lint.events.process import EnvironmentRead
from gpudoctor.lint.flow.condition import Divergence, Literal
from gpudoctor.lint.flow.valueset import ValueSet, union
from gpudoctor.lint.interface.contents import find_in_class
from gpudoctor.lint.interface.hooks import HOOKS, answers
from gpudoctor.lint.interface.library_call import LibraryContext, singleton
from gpudoctor.lint.source.syntax_walk import nodes_of
from gpudoctor.manifest.compiled import declared, functions, prefixes
from gpudoctor.manifest.effects import DrawEffect
from gpudoctor.record import dataclass, field

WORKER_INFO = "torch.utils.data.get_worker_info"
SHARES = prefixes("shares")
"""Code under these names knows the rank or deals out work, or it runs beside the stream."""
DRAWS = prefixes("draws")
"""Chance gives each process something else."""
NOTHING: Values = ValueSet(())
ENDLESS = frozenset({"itertools.cycle", "itertools.repeat", "itertools.count"})
OWN = Divergence.RANK | Divergence.LOCAL
RANKED = OWN | Divergence.UNREAD
"""What may differ between ranks, as code that was not read may see to."""


class IterationProbe:
    """How a class of the project gives out its items."""

    __slots__ = ("calls", "endless", "handed_on", "leaves", "picks", "picks_by_rank")

    def __init__(self) -> None:
        self.calls: set[str] = set()
        """The dotted names of the library callables."""
        self.picks = False
        """Something begins at, or takes each n-th of, a number that is not written there: it may be a share."""
        self.picks_by_rank = False
        """What a slice begins at is made of the rank."""
        self.endless = False
        """There is a `while True`."""
        self.leaves = False
        """A loop is left before its end."""
        self.handed_on: Values = NOTHING
        """What the last `yield from` goes over."""

    def called(self, name: str, args: tuple[Values, ...]) -> None:
        self.calls.add(name)
        # The second of two is where it ends, which is the same for all.
        if name == "itertools.islice" and len(args) > 2:
            self.sliced(args[1])

    def calculated(self, op: ast.operator, left: Values, right: Values) -> None:
        # `%` of a text writes it.
        if isinstance(op, ast.Mod) and not left.any(lambda value: value.is_text) and not right.all(_is_alike):
            self.picks = True

    def sliced(self, start: Values | None) -> None:
        if start is not None and not start.all(_is_alike):
            self.picks = True
            self.picks_by_rank |= start.all(lambda value: bool(value.divergence & Divergence.RANK))

    def repeats_for_ever(self) -> None:
        self.endless = True

    def leaves_loop(self) -> None:
        self.leaves = True

    def hands_on(self, source: Values) -> None:
        self.handed_on = source

    def apart(self) -> IterationProbe:
        return IterationProbe()

    def add(self, inner: IterationProbe) -> None:
        self.calls |= inner.calls
        self.picks |= inner.picks
        self.picks_by_rank |= inner.picks_by_rank
        self.endless |= inner.endless
        self.leaves |= inner.leaves


@contextmanager
def _probing(do: LibraryContext) -> Iterator[IterationProbe]:
    """Listen to what is executed inside."""
    outer, heard = do.execution.listener, IterationProbe()
    with do.execution.listening(heard):
        yield heard
    if outer is not None:
        outer.add(heard)


@answers(HOOKS.constructions, Dataset, Sampler)
def _construct(do: LibraryContext, made: Dataset | Sampler, run: Callable[[], object]) -> None:
    """Note what picks some of what it is given: it needs to know the rank no more when it gives out its items."""
    with _probing(do) as heard:
        run()
    if heard.picks:
        do.set_flag(made, DatasetState.picks_given)


def _is_alike(value: Value) -> bool:
    """A constant, a counter that no setting has moved, or made of the number of the loader's worker: these are numbered
    alike on all ranks."""
    if value.is_constant or _is_of_worker(value):
        return True
    return value.divergence == Divergence.BATCH_INDEX and not _holds_setting(value)


def _is_of_worker(value: Value) -> bool:
    unknown = [each for each in provenance_of(value) if isinstance(each, Unknown)]
    return bool(unknown) and all(map(_asks_worker, unknown))


def _asks_worker(value: Unknown) -> bool:
    asked = (each for each in provenance_of(value) if isinstance(each, CallResult))
    return any(each.function == WORKER_INFO for each in asked)


def _holds_setting(value: object) -> bool:
    """What the user has chosen is a part of how a value was computed."""
    return any(isinstance(each, Unknown) and each.config for each in provenance_of(value))


@dataclass
class Produced:
    """What was given out, what the loops around each `yield` go over (outermost first), and under which tests."""

    items: list[Values] = field(default_factory=list)
    sources: list[list[Values]] = field(default_factory=list)
    tests: set[Literal] = field(default_factory=set)


def analyze_iteration(do: LibraryContext, source: Dataset | Sampler, node: ast.AST) -> tuple[Values, list[Event]]:
    """Follow `__iter__` without a trace, and log how it gives out its items: one of them, and what was logged."""
    cls = source.cls if isinstance(source, Dataset) else source.own
    iterator = find_in_class(do, cls, "__iter__") if cls is not None else None
    if iterator is None or cls is None:
        return NOTHING, []
    given, begin = Produced(), len(do.execution.reads)
    with _probing(do) as heard:
        with do.execution.speculative() as run:
            items = _follow(do, source, iterator, given, heard, node)
        events = run.events
    read = [value for key in dict.fromkeys(do.execution.reads[begin:]) for value in do.execution.held(key) or ()]
    known = cls.complete and bool(given.items) and not any(isinstance(event, Imprecision) for event in events)
    straight = known and not heard.endless and not heard.calls & ENDLESS
    picked = heard.picks or do.flag(source, DatasetState.picks_given) is not NO
    same = straight and not picked and _gives_all(given, heard) and not _knows_rank(read, events)
    same = same and not any(_draws(name, source) for name in heard.calls) and not _was_told_rank(do, source)
    pieces = straight and not heard.leaves and find_in_class(do, cls, "__len__") is None and _by_pieces(do, given, node)
    by_epoch = isinstance(source, Sampler) and _shuffles(heard.calls) and _seeds_by_epoch(cls)
    do.emit(
        Streamed, at=source.place, source=source, same_on_ranks=same,
        same_in_workers=same and WORKER_INFO not in heard.calls, by_pieces=pieces, by_epoch=by_epoch,
        by_rank=heard.picks_by_rank or any(map(_picks_by_rank, given.tests)),
    )  # fmt: skip
    return items, events


def _follow(
    do: LibraryContext, source: Value, iterator: Values, given: Produced, heard: IterationProbe, node: ast.AST
) -> Values:
    base, outer = do.path, len(do.execution.open_loops)

    def on_yield(values: Values) -> None:
        given.items.append(values)
        around = [loop.source for loop in do.execution.open_loops[outer:]]
        given.sources.append([each for each in (*around, heard.handed_on) if each.bindings])
        given.tests.update(do.path.difference(base))
        heard.handed_on = NOTHING

    made = do.call(iterator, Arguments((singleton(source),)), node)
    only = made.single
    if isinstance(only, Generator):
        do.run_generator(only, node, on_yield)
    elif only != source:
        given.sources.append([made])
        given.items.append(do.items_of(made, node))
    return union(given.items) if given.items else NOTHING


def _draws(name: str, source: Dataset | Sampler) -> bool:
    """What this function returns decides which items a process gets."""
    function = declared(name)
    effect = function.effect(DrawEffect) if function is not None else None
    # A sampler that draws each item once gives all ranks all of them, in whatever order.
    if isinstance(source, Sampler):
        return effect is not None and effect.repeats
    return effect is not None or name.startswith(DRAWS)


def _gives_all(given: Produced, heard: IterationProbe) -> bool:
    """No item is left out for a reason that another rank may not have."""
    # `if index < self.first: continue`: what the user has chosen may be a share.
    chosen = any(_compares_setting(each) or each.atom.divergence & OWN for each in given.tests)
    shared = chosen or any(name.startswith(SHARES) for name in heard.calls)
    return not shared and all(_is_whole(value) for row in given.sources for each in row for value in each)


def _picks_by_rank(test: Literal) -> bool:
    """`if index % world_size == rank: yield item`."""
    ranked = bool(test.atom.divergence & Divergence.RANK) and not test.atom.divergence & Divergence.UNREAD
    return ranked and bool(test.atom.divergence & Divergence.BATCH_INDEX)


def _compares_setting(literal: Literal) -> bool:
    # A switch is no share, `if self.shuffle:`, nor is what an item is like: `while len(buffer) > self.length:`.
    return bool(literal.atom.divergence & Divergence.BATCH_INDEX) and _holds_setting(literal.atom.key)


def _is_whole(value: Value) -> bool:
    """Nothing is left out of what a loop goes over."""
    match value:
        case Range(start=start):
            return start.are(Const) and not value.divergence & RANKED
        case Enumerated(items=items):
            return all(_is_whole(each) for item in items for each in item)
        case Dataset():
            return not value.iterable and not value.sharded
    kinds = (Const, Text, ListOf, TupleOf, DictOf, Tensor, Generator, Unknown)
    return isinstance(value, kinds) and not value.divergence & RANKED


def _knows_rank(read: list[Value], events: list[Event]) -> bool:
    asked = any(isinstance(event, EnvironmentRead) for event in events)
    return asked or any(each.is_launched or bool(each.divergence & Divergence.RANK) for each in read)


def _was_told_rank(do: LibraryContext, source: Dataset | Sampler) -> bool:
    """A sampler that keeps the rank cuts by it, also where its way there was not followed: each full batch."""
    if not isinstance(source, Sampler):
        return False
    kept = (do.own_attribute(source, name) for name in do.names_of(source))
    return _knows_rank([value for values in kept for value in values or ()], [])


def _by_pieces(do: LibraryContext, given: Produced, node: ast.AST) -> bool:
    """What is gone over inside is made from an item of what is gone over outside."""
    for row in given.sources:
        # A generator's own loops are among these, too.
        held = [(each, do.items_of(each, node)) for each in row if not each.has(Generator)]
        for place, (_, items) in enumerate(held):
            outside = set(items)
            inside = [value for each, parts in held[place + 1 :] for value in (*each, *parts)]
            if any(isinstance(part, Value) and part in outside for value in inside for part in provenance_of(value)):
                return True
    return False


def _shuffles(calls: set[str]) -> bool:
    """The order is drawn at random, from a generator of its own."""
    # One may be made and not used: `if self.shuffle:`. torch's functions are given the generator.
    methods = any(name.rpartition(".")[0] in functions("OwnGenerator") for name in calls)
    return methods or ("torch.Generator" in calls and not calls.isdisjoint(functions("draws")))


def _seeds_by_epoch(cls: Class) -> bool:
    """Each order is drawn from a seed made of what `set_epoch` is told: `manual_seed(self.seed + self.epoch)`."""
    methods = cls.methods
    if "__iter__" not in methods:
        return any(_seeds_by_epoch(base) for base in cls.own_bases)
    if "set_epoch" not in methods:
        return False
    told = {each.attr for each in nodes_of(ast.Attribute, methods["set_epoch"]) if isinstance(each.ctx, ast.Store)}
    calls = nodes_of(ast.Call, methods["__iter__"])
    seeds = any(
        _is_seeding(call) and any(each.attr in told for each in nodes_of(ast.Attribute, call)) for call in calls
    )
    others = [method for name, method in methods.items() if name not in ("__init__", "set_epoch")]
    written = [each for method in others for each in nodes_of(ast.Attribute, method) if isinstance(each.ctx, ast.Store)]
    asked = {each.attr for method in others for each in nodes_of(ast.Attribute, method)}
    # `self.epoch += 1`, `self.set_epoch(...)`: it tells itself.
    return seeds and "set_epoch" not in asked and told.isdisjoint(each.attr for each in written)


def _is_seeding(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return name == "manual_seed" or any(each.endswith(f".{name}") for each in functions("OwnGenerator"))
