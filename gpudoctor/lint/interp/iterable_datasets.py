"""How a stream or a sampler of the project gives out its items: its `__iter__` is rehearsed once for each object."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpudoctor.lint.domain.arguments import Arguments
from gpudoctor.lint.domain.container import DictOf, Enumerated, ListOf, Range, TupleOf
from gpudoctor.lint.domain.data import Dataset, Sampler
from gpudoctor.lint.domain.function import Class, Generator
from gpudoctor.lint.domain.provenance import provenance_of
from gpudoctor.lint.domain.rank import Rank, Size
from gpudoctor.lint.domain.tensor import Tensor
from gpudoctor.lint.domain.value import Const, Text, Unknown, Value, Values
from gpudoctor.lint.events.data_loading import Streamed
from gpudoctor.lint.events.knowledge import Imprecision
from gpudoctor.lint.events.process import EnvironmentRead
from gpudoctor.lint.flow.condition import Divergence, Literal
from gpudoctor.lint.flow.valueset import union
from gpudoctor.lint.interp import attributes, containers
from gpudoctor.lint.interp.calls import run_body
from gpudoctor.lint.interp.machine import singleton
from gpudoctor.lint.interp.position import NOTHING
from gpudoctor.lint.interp.records import IterationProbe, holds_setting
from gpudoctor.lint.library.class_kinds import seeds_by_epoch
from gpudoctor.manifest.compiled import prefixes
from gpudoctor.record import dataclass, field

if TYPE_CHECKING:
    from gpudoctor.lint.events.event_context import Event
    from gpudoctor.lint.interp.evaluator import Evaluator

WORKER_INFO = "torch.utils.data.get_worker_info"
SHARES = prefixes("shares")
"""Code under these names knows the rank or deals out work, or it runs beside the stream."""
DRAWN = ("random.", "numpy.random.", "secrets.", "torch.rand", "torch.multinomial", "torch.normal")
"""Chance gives each process something else."""
DRAWN_AGAIN = (
    "random.randint", "random.choice", "random.randrange", "numpy.random.randint", "numpy.random.choice",
    "torch.randint", "torch.multinomial",
)  # fmt: skip
"""These may draw one and the same item more than once."""
GENERATORS = ("torch.Generator", "numpy.random.RandomState", "numpy.random.default_rng", "random.Random")
ENDLESS = frozenset({"itertools.cycle", "itertools.repeat", "itertools.count"})
OWN = Divergence.RANK | Divergence.LOCAL
RANKED = OWN | Divergence.UNREAD
"""What may differ between ranks, as code that was not read may see to."""


@dataclass(slots=True)
class Produced:
    """What was given out, what the loops around each `yield` go over (outermost first), and under which tests."""

    items: list[Values] = field(default_factory=list)
    sources: list[list[Values]] = field(default_factory=list)
    tests: set[Literal] = field(default_factory=set)


def analyze_iteration(m: Evaluator, source: Dataset | Sampler, node: ast.AST) -> tuple[Values, list[Event]]:
    """Follow `__iter__` without a trace, and log how it gives out its items: one of them, and what was logged."""
    cls = source.cls if isinstance(source, Dataset) else source.own
    iterator = attributes.find_in_class(m, cls, "__iter__") if isinstance(cls, Class) else None
    if iterator is None or not isinstance(cls, Class):
        return NOTHING, []
    given, begin = Produced(), len(m.reads)
    with m.probing_iteration() as heard:
        with m.speculative() as run:
            items = _follow(m, source, iterator, given, heard, node)
        events = run.events
    read = [value for key in dict.fromkeys(m.reads[begin:]) for value in m.store.get(key) or ()]
    known = cls.complete and bool(given.items) and not any(isinstance(event, Imprecision) for event in events)
    straight = known and not heard.endless and not heard.calls & ENDLESS
    same = straight and source not in m.takes_parts and _gives_all(given, heard) and not _knows_rank(read, events)
    # A sampler that draws each item once gives all ranks all of them, in whatever order.
    drawn = DRAWN_AGAIN if isinstance(source, Sampler) else DRAWN
    same = same and not any(name.startswith(drawn) for name in heard.calls)
    pieces = (
        straight
        and not heard.leaves
        and attributes.find_in_class(m, cls, "__len__") is None
        and _by_pieces(m, given, node)
    )
    # What does not shuffle has asked for no generator.
    shuffles = any(name.startswith(GENERATORS) for name in heard.calls)
    by_epoch = isinstance(source, Sampler) and shuffles and seeds_by_epoch(cls)
    m.emit(
        Streamed, at=source.place, source=source, same_on_ranks=same,
        same_in_workers=same and WORKER_INFO not in heard.calls, by_pieces=pieces, by_epoch=by_epoch,
    )  # fmt: skip
    return items, events


def _follow(
    m: Evaluator, source: Value, iterator: Values, given: Produced, heard: IterationProbe, node: ast.AST
) -> Values:
    base, outer = m.path, len(m.open_loops)

    def on_yield(values: Values) -> None:
        given.items.append(values)
        around = [loop.source for loop in m.open_loops[outer:]]
        given.sources.append([each for each in (*around, heard.handed_on) if each.bindings])
        given.tests.update(m.path.difference(base))
        heard.handed_on = NOTHING

    made = m.call(iterator, Arguments((singleton(source),)), node)
    only = made.single
    if isinstance(only, Generator):
        run_body(m, only, on_yield, node)
    elif only != source:
        given.sources.append([made])
        given.items.append(containers.items_of(m, made, node))
    return union(given.items) if given.items else NOTHING


def _gives_all(given: Produced, heard: IterationProbe) -> bool:
    """No item is left out for a reason that another rank may not have."""
    # `if index < self.first: continue`: what the user has chosen may be a share.
    chosen = any(_compares_setting(each) or each.atom.divergence & OWN for each in given.tests)
    shared = heard.picks or chosen or any(name.startswith(SHARES) for name in heard.calls)
    return not shared and all(_is_whole(value) for row in given.sources for each in row for value in each)


def _compares_setting(literal: Literal) -> bool:
    key = literal.atom.key
    # A switch is no share: `if self.shuffle:`.
    return not (isinstance(key, tuple) and key[:1] == ("true",)) and holds_setting(key)


def _is_whole(value: Value) -> bool:
    """Nothing is left out of what a loop goes over."""
    if isinstance(value, Range):
        return value.start.all(lambda each: isinstance(each, Const)) and not value.divergence & RANKED
    if isinstance(value, Enumerated):
        return all(_is_whole(each) for item in value.items for each in item)
    if isinstance(value, Dataset):
        return not value.iterable and not value.sharded
    kinds = (Const, Text, ListOf, TupleOf, DictOf, Tensor, Generator, Unknown)
    return isinstance(value, kinds) and not value.divergence & RANKED


def _knows_rank(read: list[Value], events: list[Event]) -> bool:
    asked = any(isinstance(event, EnvironmentRead) for event in events)
    return asked or any(isinstance(each, (Rank, Size)) or bool(each.divergence & Divergence.RANK) for each in read)


def _by_pieces(m: Evaluator, given: Produced, node: ast.AST) -> bool:
    """What is gone over inside is made from an item of what is gone over outside."""
    for row in given.sources:
        # A generator's own loops are among these, too.
        held = [(each, containers.items_of(m, each, node)) for each in row if not each.any(_is_generator)]
        for place, (_, items) in enumerate(held):
            outside = set(items)
            inside = [value for each, parts in held[place + 1 :] for value in (*each, *parts)]
            if any(isinstance(part, Value) and part in outside for value in inside for part in provenance_of(value)):
                return True
    return False


def _is_generator(value: Value) -> bool:
    return isinstance(value, Generator)
