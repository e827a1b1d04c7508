"""Tuples, lists and dictionaries: making them, reading items, and going over them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpudoctor.lint.domain.abstract_state import NO, ContainerState
from gpudoctor.lint.domain.arguments import NO_ARGUMENTS
from gpudoctor.lint.domain.container import DictOf, Enumerated, ListOf, Range, Slice, TupleOf
from gpudoctor.lint.domain.data import Dataset, Loader
from gpudoctor.lint.domain.function import Generator
from gpudoctor.lint.domain.rank import Rank, RankKind, RankSource
from gpudoctor.lint.domain.symbols import Item
from gpudoctor.lint.domain.tensor import Tensor
from gpudoctor.lint.domain.value import Anonymous, Const, Text, Truth, Unknown, Value, Values
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.flow.valueset import union
from gpudoctor.lint.interp import library
from gpudoctor.lint.interp.limits import MAX_VALUES
from gpudoctor.lint.interp.machine import singleton
from gpudoctor.lint.interp.operators import compare
from gpudoctor.lint.library.register import HOOKS
from gpudoctor.record import replace

if TYPE_CHECKING:
    from gpudoctor.lint.interp.evaluator import Evaluator

MAX_ITEMS = 64
MAX_TUPLE = 256
MAX_ENTRIES = 500

# The contents of a list or dictionary stand in the store under (object, name):
#   "items"  a TupleOf with the items, as far as they are known one by one
#   "more"   what further items may be
#   "entries"  for a dictionary: a TupleOf with each key and what stands under it, by turns


def new_list(m: Evaluator, items: list[Values], node: ast.AST, exact: bool = True, kind: str = "list") -> Values:
    """A list with these items; not `exact` where there may be others of the same kind."""
    place = m.place(node)
    made = ListOf(m.allocation_site(place), place, m.hints.get(id(node), "a list"), kind)
    # Made under a rank guard: that it is filled there too gives no rank another share.
    if m.path.divergence & Divergence.RANK:
        m.set_flag(made, ContainerState.made_by_some_ranks)
    # One by one as long as it pays: layer lists matter, word lists do not.
    if exact and len(items) <= MAX_ITEMS:
        m.set_state(made, ContainerState.items, singleton(TupleOf(tuple(items))))
    elif items:
        m.set_state(made, ContainerState.more, union(items))
    else:
        m.set_state(made, ContainerState.more, m.unknown(node, "an item"))
    return singleton(made)


def new_tuple(m: Evaluator, items: list[Values], node: ast.AST) -> Values:
    """A tuple with these items, as long as they are few: `x = (*x, *x)` doubles with each line."""
    return singleton(TupleOf(tuple(items))) if len(items) <= MAX_TUPLE else new_list(m, items, node, kind="tuple")


def new_dict(m: Evaluator, entries: list[tuple[Values | None, Values]], node: ast.AST, exact: bool = True) -> Values:
    """A dictionary; an entry without a key is another dictionary merged in."""
    place = m.place(node)
    made = DictOf(m.allocation_site(place), place, m.hints.get(id(node), "a dictionary"))
    # As in Python, later entries win, in the place of the first.
    known: dict[Values, Values] = {}
    more: list[Values] = []
    for key, value in entries:
        only = key.single if key is not None else None
        if key is None:
            _merge(m, value, known, more)
        # A key that is computed may replace any of the others.
        elif isinstance(only, Const) and exact:
            known[key] = value
        else:
            more.append(value)
    _set_entries(m, made, known)
    if more:
        m.set_state(made, ContainerState.more, union(more))
    return singleton(made)


def _merge(m: Evaluator, other: Values, known: dict[Values, Values], more: list[Values]) -> None:
    only = other.single
    entries = pairs(m, only) if isinstance(only, DictOf) else None
    if entries is None or not isinstance(only, DictOf):
        more.append(singleton(Unknown(Anonymous("merged", only), "entries of another dictionary")))
        return
    known.update(entries)
    extra = m.state(only, ContainerState.more)
    if extra is not None:
        more.append(extra)


def _set_entries(m: Evaluator, made: DictOf, known: dict[Values, Values]) -> None:
    m.set_state(
        made, ContainerState.entries, singleton(TupleOf(tuple(each for pair in known.items() for each in pair)))
    )


def pairs(m: Evaluator, value: DictOf) -> list[tuple[Values, Values]] | None:
    """The known entries; None where the dictionary is known only in part on this path."""
    entries = m.state(value, ContainerState.entries)
    return _by_two(entries.single) if entries is not None and isinstance(entries.single, TupleOf) else None


def possible_pairs(m: Evaluator, value: DictOf) -> list[tuple[Values, Values]]:
    """The entries that it has on some path: a loop that fills it may have run or not."""
    entries = m.state(value, ContainerState.entries)
    if entries is None:
        return []
    if isinstance(entries.single, TupleOf):
        return _by_two(entries.single)
    found: dict[Values, list[Values]] = {}
    for binding in entries.bindings:
        for key, held in _by_two(binding.value) if isinstance(binding.value, TupleOf) else ():
            found.setdefault(key, []).append(held.guarded_by(binding.condition))
    return [(key, union(each)) for key, each in found.items()]


def _by_two(entries: TupleOf) -> list[tuple[Values, Values]]:
    return list(zip(entries.items[::2], entries.items[1::2], strict=True))


def known_items(m: Evaluator, value: Value | None) -> tuple[Values, ...] | None:
    """The items one by one, None where they are not known so."""
    if isinstance(value, TupleOf):
        return value.items
    if isinstance(value, ListOf):
        items = m.state(value, ContainerState.items)
        only = items.single if items is not None else None
        return only.items if isinstance(only, TupleOf) and m.state(value, ContainerState.more) is None else None
    if isinstance(value, DictOf):
        known = pairs(m, value)
        return (
            None if known is None or m.state(value, ContainerState.more) is not None else tuple(key for key, _ in known)
        )
    if isinstance(value, Enumerated):
        return _known_enumerated(m, value)
    return None


def _known_enumerated(m: Evaluator, value: Enumerated) -> tuple[Values, ...] | None:
    columns = [known_items(m, item.single) for item in value.items]
    if any(column is None for column in columns) or not columns:
        return None
    if value.kind == "enumerate":
        return tuple(singleton(TupleOf((singleton(Const(i)), item))) for i, item in enumerate(columns[0] or ()))
    # As short as the shortest column, as in Python.
    if value.kind == "zip":
        return tuple(singleton(TupleOf(row)) for row in zip(*(column or () for column in columns), strict=False))
    return columns[0]


def known_keys(m: Evaluator, value: DictOf) -> list[Value] | None:
    """The keys, None where others may be there."""
    known = pairs(m, value)
    if known is None or m.state(value, ContainerState.more) is not None:
        return None
    return [key.single for key, _ in known if key.single is not None]


def items_of(m: Evaluator, values: Values, node: ast.AST) -> Values:
    """What a loop over these values gets in one round."""
    return m.for_each_value(values, lambda value: _item_of(m, value, node), node)


def _items_on_paths(held: Values) -> list[Values]:
    return [
        item.guarded_by(b.condition) for b in held.bindings if isinstance(b.value, TupleOf) for item in b.value.items
    ]


def _item_of(m: Evaluator, value: Value, node: ast.AST) -> Values:
    if isinstance(value, TupleOf):
        return union(value.items) if value.items else m.unknown(node, "an item")
    if isinstance(value, ListOf):
        # On different paths different items may have been put in: any of them may come.
        held, extra = m.state(value, ContainerState.items), m.state(value, ContainerState.more)
        found = _items_on_paths(held) if held is not None else []
        found += [extra] if extra is not None else []
        return union(found) if found else m.unknown(node, "an item")
    if isinstance(value, DictOf):
        there = possible_pairs(m, value)
        return union([key for key, _ in there]) if there else m.unknown(node, "a key")
    answer = HOOKS.iterations.get(type(value))
    if answer is not None:
        return answer(m, value, node)
    if isinstance(value, Range):
        return counter(m, node, m.text(node, 40))
    if isinstance(value, Enumerated):
        return _row(m, value, node)
    # Batches that go through a generator of the project are followed into it.
    if isinstance(value, Generator):
        return m.run_generator(value, node)
    if isinstance(value, Unknown):
        return singleton(
            Unknown(Anonymous("item of", value), value.why, value.label, value.dependence, False, value.shards)
        )
    return library.iterate_object(m, value, node)


def _row(m: Evaluator, value: Enumerated, node: ast.AST) -> Values:
    columns = [items_of(m, item, node) for item in value.items]
    if value.kind == "enumerate":
        # `if step % 100 == 0` is the same on all ranks: a collective there is fine.
        return singleton(TupleOf((counter(m, node, "the counter of enumerate"), *columns)))
    if value.kind == "zip":
        return singleton(TupleOf(tuple(columns)))
    return columns[0] if columns else m.unknown(node, "an item")


def counter(m: Evaluator, node: ast.AST, label: str) -> Values:
    """The number of a round: the same on all ranks, another one each time."""
    if m.assumptions and m.counts_ranks:
        return singleton(Rank(RankKind.LOCAL, RankSource.SPAWN_INDEX, place=m.place(node)))
    return singleton(
        Unknown(Anonymous("counter", m.allocation_site(m.place(node))), "a counter", label, Divergence.BATCH_INDEX)
    )


def note_rank_decides(m: Evaluator, values: Values) -> None:
    """Each rank puts other items into these lists, as `files[rank::world]` does."""
    for value in values:
        if isinstance(value, ListOf):
            m.set_flag(value, ContainerState.by_rank)


def item(m: Evaluator, value: Value, index: Values, node: ast.AST) -> Values:
    """`value[index]`: what another index gives on each rank is another thing on each rank."""
    found = _item_at(m, value, index, node)
    # `chunks[rank]` hands each rank a part of its own.
    if not any(each.divergence & Divergence.RANK for each in index.restrict(m.path)):
        return found
    note_rank_decides(m, found)
    for told in HOOKS.cut_by_rank:
        told(m, found, m.place(node))
    return found.map(_by_rank)


def _by_rank(value: Value) -> Value:
    if isinstance(value, (Unknown, Tensor)):
        return replace(value, dependence=value.dependence | Divergence.RANK)
    return replace(value, sharded=True) if isinstance(value, (Dataset, Loader)) else value


def _sliced(m: Evaluator, value: TupleOf | ListOf, part: Slice, node: ast.AST) -> Values:
    """`value[start:stop:step]`: the items where all of it is known, else some of them."""
    known = known_items(m, value)
    bounds = [Const(None) if each is None else each.single for each in (part.start, part.stop, part.step)]
    numbers = [each.value for each in bounds if isinstance(each, Const) and isinstance(each.value, (int, type(None)))]
    # `files[rank::world_size]`: bounds that are no numbers. Slicing with a step of 0 is an error.
    if known is None or len(numbers) < len(bounds) or numbers[2] == 0:
        return new_list(m, [_item_of(m, value, node)], node, exact=False)
    start, stop, step = numbers
    chosen = known[start:stop:step]
    return singleton(TupleOf(chosen)) if isinstance(value, TupleOf) else new_list(m, list(chosen), node)


def _item_at(m: Evaluator, value: Value, index: Values, node: ast.AST) -> Values:
    only = index.restrict(m.path).single
    if isinstance(value, (TupleOf, ListOf)) and isinstance(only, Slice):
        return _sliced(m, value, only, node)
    if isinstance(value, (TupleOf, ListOf)) and not isinstance(only, Const):
        return _item_of(m, value, node)
    if isinstance(value, (TupleOf, ListOf)) and isinstance(only, Const):
        known = known_items(m, value)
        # Out of range is an IndexError; what would follow is not ours to judge.
        if known is not None and isinstance(only.value, int) and -len(known) <= only.value < len(known):
            return known[only.value]
        return _item_of(m, value, node)
    if isinstance(value, DictOf):
        return entry(m, value, only, node)
    answer = HOOKS.items.get(type(value))
    if answer is not None:
        return answer(m, value, only.value if isinstance(only, Const) else None, node)
    return library.library_item(m, value, index, node)


def entry(m: Evaluator, value: DictOf, key: Value | None, node: ast.AST) -> Values:
    """The value under a key, or all that it may be."""
    known = possible_pairs(m, value)
    if isinstance(key, Const):
        for each, found in known:
            if each.single == key:
                return found
    extra = m.state(value, ContainerState.more)
    candidates = [extra] if extra is not None else []
    if not isinstance(key, Const):
        candidates += _picked(m, key, known, node) if extra is None else [found for _, found in known]
    # `defaultdict(list)[key]` makes what is not there yet.
    factory = m.state(value, ContainerState.factory)
    if factory is not None and not candidates:
        made = m.call(factory, NO_ARGUMENTS, node)
        set_item(m, value, singleton(key) if key is not None else m.unknown(node, "a key"), made, node)
        return made
    return union(candidates) if candidates else m.unknown(node, "no such key is known")


def _picked(m: Evaluator, key: Value | None, known: list[tuple[Values, Values]], node: ast.AST) -> Iterator[Values]:
    """`MODELS[args.arch]` asks what a chain of `elif` over the keys asks."""
    among = key.among if isinstance(key, Unknown) else ()
    # What cannot be asked for is left out, as long as something is left.
    known = [(each, found) for each, found in known if not among or each.single in (None, *among)] or known
    plain = isinstance(key, Unknown) and not key.divergence and 1 < len(known) <= MAX_VALUES
    names = [each.single for each, _ in known]
    # Another value for each key: the last one is what is left.
    if not plain or key is None or not all(isinstance(each, Const) for each in names):
        yield from (found for _, found in known)
        return
    others = type(m.path)()
    for name, (_, found) in zip(names, known, strict=True):
        text = f"{getattr(key, 'label', '')} == {name!r}"
        test = compare(ast.Eq(), key, name or key, text, m.place(node))
        literal = test.literal if isinstance(test, Truth) and name != names[-1] else None
        yield found.guarded_by(others if literal is None else others.conjoined_with(literal))
        others = others if literal is None else others.conjoined_with(literal.negated())


def set_item(m: Evaluator, value: Value, index: Values, new: Values, node: ast.AST) -> None:
    """`value[index] = new`."""
    told = HOOKS.item_set.get(type(value))
    if told is not None:
        told(m, value, new)
    only = index.restrict(m.path).single
    if isinstance(value, DictOf):
        known = possible_pairs(m, value)
        # Each entry that is put in makes the table anew.
        if isinstance(only, Const) and len(known) < MAX_ENTRIES:
            _set_entries(m, value, {**dict(known), singleton(only): new})
        else:
            _add_more(m, value, new)
    elif isinstance(value, ListOf):
        items = known_items(m, value)
        if (
            items is not None
            and isinstance(only, Const)
            and isinstance(only.value, int)
            and 0 <= only.value < len(items)
        ):
            m.set_state(
                value, ContainerState.items, singleton(TupleOf((*items[: only.value], new, *items[only.value + 1 :])))
            )
        else:
            _add_more(m, value, new)


def _add_more(m: Evaluator, value: ListOf | DictOf, new: Values) -> None:
    old = m.state(value, ContainerState.more)
    m.set_state(value, ContainerState.more, union([old, new]) if old is not None else new)


def extend(m: Evaluator, value: ListOf, new: list[Values], exact: bool) -> None:
    """Items come to a list."""
    if m.path.divergence & Divergence.RANK and m.flag(value, ContainerState.made_by_some_ranks) is NO:
        note_rank_decides(m, singleton(value))
    items = known_items(m, value)
    # The body is followed twice, so a list that grows in a loop has no known length.
    in_loop = any(loop.event.times != 1 for loop in m.open_loops)
    if items is not None and exact and len(items) + len(new) <= MAX_ITEMS and not (in_loop and len(items) > 8):
        m.set_state(value, ContainerState.items, singleton(TupleOf((*items, *new))))
        return
    for each in new:
        _add_more(m, value, each)


def concatenate(m: Evaluator, left: Value, right: Value, node: ast.AST) -> Values:
    """`left + right` of two sequences."""
    first, second = known_items(m, left), known_items(m, right)
    if first is not None and second is not None:
        if isinstance(left, TupleOf):
            return new_tuple(m, [*first, *second], node)
        return new_list(m, [*first, *second], node)
    # An empty one adds nothing: `groups = []`, then `groups += ...` in a loop.
    sides = [side for side, known in ((left, first), (right, second)) if known is None or known]
    return new_list(m, [_item_of(m, side, node) for side in sides], node, exact=False)


def unpack(m: Evaluator, values: Values, count: int, star: int | None, node: ast.AST) -> list[Values]:
    """One set of values for each of `count` targets."""
    columns: list[list[Values]] = [[] for _ in range(count)]
    for binding in values.restrict(m.path).bindings:
        parts = _parts(m, binding.value, count, star, node)
        for column, part in zip(columns, parts, strict=True):
            column.append(part.guarded_by(binding.condition))
    return [union(column) if column else m.unknown(node, "nothing to unpack") for column in columns]


def _parts(m: Evaluator, value: Value, count: int, star: int | None, node: ast.AST) -> list[Values]:
    known = known_items(m, value)
    if known is not None and star is None and len(known) == count:
        return list(known)
    if known is not None and star is not None and len(known) >= count - 1:
        tail = len(known) - (count - star - 1)
        middle = new_list(m, list(known[star:tail]), node)
        return [*known[:star], middle, *known[tail:]]
    answer = HOOKS.items.get(type(value))
    if answer is not None:
        return [answer(m, value, index if star is None else None, node) for index in range(count)]
    if isinstance(value, Unknown):
        return [singleton(_nth(value, index)) for index in range(count)]
    if isinstance(value, Text):
        return [singleton(value)] * count
    single = _item_of(m, value, node)
    return [single] * count


def _nth(value: Unknown, index: int) -> Unknown:
    return Unknown(
        Item(value, Const(index)),
        value.why,
        value.label,
        value.dependence,
        value.config,
        value.shards,
        value.escaped_from,
    )
