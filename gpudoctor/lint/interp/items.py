"""Items: which one `value[index]` is, what a loop gets, and what is unpacked."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.abstract_state import ContainerState
from gpudoctor.lint.domain.arguments import NO_ARGUMENTS
from gpudoctor.lint.domain.container import DictOf, Enumerated, ListOf, Range, Slice, TupleOf
from gpudoctor.lint.domain.function import Generator
from gpudoctor.lint.domain.provenance import provenance_of
from gpudoctor.lint.domain.rank import Rank, RankKind, RankSource
from gpudoctor.lint.domain.symbols import EachOf, Item, from_settings, settings_of
from gpudoctor.lint.domain.value import (
    NONE,
    Anonymous,
    Const,
    Text,
    Truth,
    Unknown,
    Value,
    Values,
    constant_of,
    divergence_of,
    int_of,
    shards_of,
    singleton,
    text_of,
)
from gpudoctor.lint.flow.condition import MAYBE_BY_RANK, Divergence, complement
from gpudoctor.lint.flow.valueset import ValueSet, union
from gpudoctor.lint.interface.contents import (
    MAX_ITEMS,
    default_of,
    find_method,
    hidden_in,
    is_key,
    key_of,
    known_items,
    may_have_more,
    new_dict,
    new_list,
    new_tuple,
    note_grown,
    note_rank_decides,
    possible_pairs,
    set_item,
    under_a_key,
)
from gpudoctor.lint.interp import library
from gpudoctor.lint.interp.evaluator import Evaluator
from gpudoctor.lint.interp.limits import LONG_DRAW, MAX_VALUES
from gpudoctor.lint.interp.operators import compare
from gpudoctor.lint.interp.position import NONE_SET
from gpudoctor.lint.interp.widening import most
from gpudoctor.lint.library.register import HOOKS
from gpudoctor.lint.source.library_roots import is_standard
from gpudoctor.record import replace


def items_of(m: Evaluator, values: Values, node: ast.AST) -> Values:
    """What a loop over these values gets in one round."""
    if len(values.bindings) > 1:
        # None has no items: where it is that, the loop never begins.
        values = ValueSet([each for each in values.bindings if each.value != NONE]) or values
    return m.for_each_value(values, lambda value: _item_of(m, value, node), node)


def _items_on_paths(held: Values) -> list[Values]:
    return [
        item.guarded_by(b.condition) for b in held.bindings if isinstance(b.value, TupleOf) for item in b.value.items
    ]


def _item_of(m: Evaluator, value: Value, node: ast.AST) -> Values:
    answer = HOOKS.iterations.get(type(value))
    if answer is not None:
        return answer(m, value, node)
    match value:
        case TupleOf(items):
            return union(items) if items else m.unknown(node, "an item")
        case ListOf():
            # On different paths different items may have been put in: any of them may come.
            held, extra = m.state(value, ContainerState.items), m.state(value, ContainerState.more)
            found = _items_on_paths(held) if held is not None else []
            found += [extra] if extra is not None else []
            return union(found) if found else m.unknown(node, "an item")
        case DictOf():
            there = possible_pairs(m, value)
            return union([key for key, _ in there]) if there else singleton(key_of(m, value))
        case Range():
            return _counted(m, value, node)
        case Enumerated():
            return _row(m, value, node)
        # Batches that go through a generator of the project are followed into it.
        case Generator():
            return _drawn(m, value, node)
        case Unknown():
            divergence = value.dependence | hidden_in(m, value)
            # What is done to the names that `os.listdir` gives asks for no rank.
            source = value.escaped_from if is_standard(value.escaped_from.partition(".")[0]) else ""
            return singleton(Unknown(EachOf(value), value.why, value.label, divergence, False, value.shards, source))
    return library.iterate_object(m, value, node)


def _counted(m: Evaluator, value: Range, node: ast.AST) -> Values:
    counted = counter(m, node, m.text(node, 40))
    # `range(rank, n, world_size)` counts other numbers on each rank.
    apart = value.divergence & (Divergence.RANK | Divergence.UNREAD)
    if apart is Divergence.RANK and _from_own_file(value):
        # `range(log.epoch.max() + 1, n)`: they may all have come as far.
        return counted.map(lambda each: replace(each, dependence=MAYBE_BY_RANK) if isinstance(each, Unknown) else each)
    return counted.map(lambda each: each.on_each_rank()) if apart is Divergence.RANK else counted


def _drawn(m: Evaluator, generator: Generator, node: ast.AST) -> Values:
    """What `next` gets: generators that go over generators take all of them for each item, and give the same again."""
    function = generator.function
    key = (getattr(function, "node", function), generator.args)
    runs, cost, found = m.drawn.get(key, (0, 0, NONE_SET))
    if runs > 1 and cost > LONG_DRAW:
        return found
    begun = m.statements
    found = m.run_generator(generator, node)
    m.drawn[key] = runs + 1, m.statements - begun, found
    return found


def _from_own_file(value: Range) -> bool:
    """What tells ranks apart in it was found under a name that holds the rank, as `log_{rank}.csv`."""
    ends = [each for values in (value.start, value.stop) for each in values if each.divergence & Divergence.RANK]
    return all(any(isinstance(part, Text) for part in provenance_of(each)) for each in ends)


def _row(m: Evaluator, value: Enumerated, node: ast.AST) -> Values:
    columns = [items_of(m, item, node) for item in value.items]
    if value.kind == "enumerate":
        # `if step % 100 == 0` is the same on all ranks: a collective there is fine.
        return singleton(TupleOf((counter(m, node, "the counter of enumerate"), *columns)))
    if value.kind == "zip":
        return new_list(m, columns, node, exact=False) if value.open_ended else singleton(TupleOf(tuple(columns)))
    return columns[0] if columns else m.unknown(node, "an item")


def counter(m: Evaluator, node: ast.AST, label: str) -> Values:
    """The number of a round: the same on all ranks, another one each time."""
    loop = m.open_loops[-1].event.identity if m.open_loops else None
    term = Anonymous("counter", (loop, m.allocation_site(m.place(node))))
    if m.assumptions and (m.counts_ranks or ("ranks", term) in m.assumptions):
        return singleton(Rank(RankKind.LOCAL, RankSource.SPAWN_INDEX, place=m.place(node)))
    return singleton(Unknown(term, "a counter", label, Divergence.BATCH_INDEX))


def item_at(m: Evaluator, value: Value, index: Values, node: ast.AST) -> Values:
    """`value[index]`: what another index gives on each rank is another thing on each rank."""
    found = _item_at(m, value, index, node)
    given = list(index.restrict(m.path))
    depends = divergence_of(given)
    if depends & Divergence.LOCAL and not depends & MAYBE_BY_RANK:
        for note in HOOKS.picked:
            note(m, value, index, m.place(node))
    # `alphabet[prediction]` says what the prediction says.
    if shards := shards_of(given):
        found = found.map(lambda value: _one_by_batch(value, m.place(node), shards))
    # `chunks[rank]` hands each rank a part of its own.
    if not depends & Divergence.RANK:
        return found
    note_rank_decides(m, found)
    for told in HOOKS.cut_by_rank:
        told(m, found, m.place(node))
    return found.map(lambda value: _one_by_rank(value, m.place(node)))


def _one_by_rank(value: Value, place: Location) -> Value:
    """One of several, which depends on the rank: as a number, a text or a counter it is no longer known."""
    if isinstance(value, (Const, Text)) or value.divergence == Divergence.BATCH_INDEX:
        return Unknown(Anonymous("item by rank", (value, place)), "an item for this rank", "", Divergence.RANK)
    return value.on_each_rank()


def _share_of(m: Evaluator, value: Value, node: ast.AST) -> Value:
    """One of those that a slice gives this rank; of a dictionary each entry is."""
    if not isinstance(value, DictOf) or value.cls is not None or may_have_more(m, value):
        return _one_by_rank(value, m.place(node))
    entries: list[tuple[Values | None, Values]] = [
        (key, held.map(lambda each: _share_of(m, each, node))) for key, held in possible_pairs(m, value)
    ]
    return new_dict(m, entries, node).single or value


def _one_by_batch(value: Value, place: Location, shards: frozenset[Value]) -> Value:
    """One of several, which depends on a batch of this rank. What is no number and no text is what it was."""
    if isinstance(value, (Const, Text)):
        term = Anonymous("item by batch", (value, place))
        return Unknown(term, "an item for this batch", "", Divergence.LOCAL, shards=shards)
    if not isinstance(value, Unknown):
        return value
    return replace(value, dependence=value.dependence | Divergence.LOCAL, shards=value.shards | shards)


def _sliced(m: Evaluator, value: TupleOf | ListOf | Enumerated, part: Slice, node: ast.AST) -> Values:
    """`value[start:stop:step]`: the items where all of it is known, else some of them."""
    known = known_items(m, value)
    bounds = [Const(None) if each is None else each.single for each in (part.start, part.stop, part.step)]
    numbers = [each.value for each in bounds if isinstance(each, Const) and isinstance(each.value, (int, type(None)))]
    # `files[rank::world_size]`: bounds that are no numbers. Slicing with a step of 0 is an error.
    if known is None or len(numbers) < len(bounds) or numbers[2] == 0:
        item = _item_of(m, value, node)
        if part.divergence & Divergence.RANK:
            item = item.map(lambda each: _share_of(m, each, node))
        return new_list(m, [item], node, exact=False)
    start, stop, step = numbers
    chosen = known[start:stop:step]
    if isinstance(value, TupleOf):
        return singleton(TupleOf(chosen))
    return note_grown(m, new_list(m, list(chosen), node), [value])


def _item_at(m: Evaluator, value: Value, index: Values, node: ast.AST) -> Values:
    index = index.restrict(m.path)
    only = index.single
    # `sorted(names)[-1]` is one of the names.
    if isinstance(value, (TupleOf, ListOf, Enumerated)):
        if isinstance(only, Slice):
            return _sliced(m, value, only, node)
        at = constant_of(only)
        known = known_items(m, value) if isinstance(at, int) else None
        # Out of range is an IndexError; what would follow is not ours to judge.
        if known is not None and isinstance(at, int) and -len(known) <= at < len(known):
            return known[at]
        return _item_of(m, value, node)
    if isinstance(value, DictOf) and (value.cls is None or find_method(m, value, "__getitem__") is None):
        # `kind: str = ""` of a table that has no such entry: who gets on has chosen another one.
        keys = [each for each in index.bindings if not _is_absent(m, value, each.value)] or index.bindings
        if len(index.bindings) > 1 and all(is_key(each.value) or _is_chosen(each.value) for each in keys):
            # `PIPELINES[kind]`: what decides the key decides the entry.
            return union([entry(m, value, each.value, node).guarded_by(each.condition) for each in keys])
        return entry(m, value, only, node)
    answer = HOOKS.items.get(type(value))
    if answer is not None:
        return answer(m, value, constant_of(only) if type(only) not in HOOKS.items else only, node)
    return library.library_item(m, value, index, node)


def _is_absent(m: Evaluator, value: DictOf, key: Value) -> bool:
    if not is_key(key) or m.state(value, ContainerState.more) is not None:
        return False
    names = [each.single for each, _ in possible_pairs(m, value)]
    return bool(names) and None not in names and key not in names


def _is_chosen(key: Value | None) -> bool:
    """What the user writes into a file of settings."""
    return key is not None and key.config and not key.among


def entry(m: Evaluator, value: DictOf, key: Value | None, node: ast.AST) -> Values:
    """The value under a key, or all that it may be."""
    m.complete(value, key)
    known = possible_pairs(m, value)
    if is_key(key):
        for each, held in known:
            if each.single == key:
                return _or_another(m, value, key, held, node)
    extra = m.state(value, ContainerState.more)
    if extra is not None and isinstance(key, Const):
        extra = _entry_of_settings(m, value, key, extra, node)
    elif isinstance(key, Const) and may_have_more(m, value):
        return _chosen(m, value, key, node)
    candidates = [extra] if extra is not None else []
    if not is_key(key):
        known, is_named = _named_in_settings(m, key, known, len(known) > MAX_VALUES or extra is not None)
        if is_named:
            candidates, extra = [], None
        candidates += _picked(m, key, known, node) if extra is None else [found for _, found in known]
    # `defaultdict(list)[key]` makes what is not there yet.
    factory = m.state(value, ContainerState.factory)
    if factory is not None and not candidates:
        made = m.call(factory, NO_ARGUMENTS, node)
        set_item(m, value, singleton(key) if key is not None else m.unknown(node, "a key"), made, node)
        return made
    return union(candidates) if candidates else m.unknown(node, "no such key is known")


def _or_another(m: Evaluator, value: DictOf, key: Value, held: Values, node: ast.AST) -> Values:
    """Put there on some paths only: on the others it is among what was there before, where something was."""
    extra = m.state(value, ContainerState.more)
    if extra is None or (len(held.bindings) == 1 and not held.bindings[0].condition.literals):
        return held
    gaps = complement(m.path, [each.condition for each in held.restrict(m.path).bindings])
    before = _entry_of_settings(m, value, key, extra, node)
    return union([held, *(before.guarded_by(gap) for gap in gaps)])


def _entry_of_settings(m: Evaluator, value: DictOf, key: Value, extra: Values, node: ast.AST) -> Values:
    """`config.update(loaded)`: each entry of the file is a setting of its own, also where those that are dictionaries
    become objects of another class."""
    read = [from_settings(each) for each in extra]
    if not any(read) or not all(known or isinstance(each, DictOf) for known, each in zip(read, extra, strict=True)):
        return under_a_key(extra, key, m.text(node, 40))
    return _chosen(m, value, key, node)


def _chosen(m: Evaluator, value: DictOf, key: Value, node: ast.AST) -> Values:
    chosen = Unknown(Item(value, key), "chosen at the start", m.text(node, 40), config=True)
    return singleton(m.setting(chosen, m.place(node)))


def _named_in_settings(
    m: Evaluator, key: Value | None, known: list[tuple[Values, Values]], of_many: bool
) -> tuple[list[tuple[Values, Values]], bool]:
    """`REGISTRY[cfg.system_type]`, a table of all the classes of a project: those that its setting files name there,
    and whether they name any."""
    if not of_many or not isinstance(key, Unknown) or not _is_chosen(key):
        return known, False
    usual = text_of(default_of(m, key))
    names = m.named_in_settings(settings_of(key), words=True) if usual is None else [usual]
    named = [(each, found) for each, found in known if text_of(each.single) in names]
    return named or known, bool(named)


def _picked(m: Evaluator, key: Value | None, known: list[tuple[Values, Values]], node: ast.AST) -> Iterator[Values]:
    """`MODELS[args.arch]` asks what a chain of `elif` over the keys asks."""
    among = key.among if key is not None else ()
    # What cannot be asked for is left out, as long as something is left.
    known = [(each, found) for each, found in known if not among or each.single in (None, *among)] or known
    plain = (
        isinstance(key, Unknown) and not key.divergence and 1 < len(known) <= most(union([found for _, found in known]))
    )
    names = [each.single for each, _ in known]
    # Another value for each key: the last one is what is left.
    if not plain or key is None or not all(isinstance(each, Const) for each in names):
        yield from (found for _, found in known)
        return
    others = type(m.path)()
    for name, (_, found) in zip(names, known, strict=True):
        text = f"{key.label} == {name!r}"
        test = compare(ast.Eq(), key, name or key, text, m.place(node))
        literal = test.literal if isinstance(test, Truth) and name != names[-1] else None
        yield found.guarded_by(others if literal is None else others.conjoined_with(literal))
        others = others if literal is None else others.conjoined_with(literal.negated())


def concatenate(m: Evaluator, left: Value, right: Value, node: ast.AST) -> Values:
    """`left + right` of two sequences."""
    first, second = known_items(m, left), known_items(m, right)
    if first is not None and second is not None:
        if isinstance(left, TupleOf):
            return new_tuple(m, [*first, *second], node)
        return note_grown(m, new_list(m, [*first, *second], node), [left, right])
    # An empty one adds nothing: `groups = []`, then `groups += ...` in a loop.
    sides = [side for side, known in ((left, first), (right, second)) if known is None or known]
    return new_list(m, [_item_of(m, side, node) for side in sides], node, exact=False)


def repeat(m: Evaluator, value: TupleOf | ListOf, times: Value, node: ast.AST) -> Values:
    """`value * times` of a sequence, as in `[0] * classes`."""
    known = known_items(m, value)
    count = int_of(times)
    if known is None or count is None or len(known) * count > MAX_ITEMS:
        return _note_repeated(m, new_list(m, [_item_of(m, value, node)], node, exact=False))
    if isinstance(value, TupleOf):
        return new_tuple(m, [*known] * count, node)
    made = note_grown(m, new_list(m, [*known] * count, node), [value])
    return _note_repeated(m, made) if count > 1 else made


def _note_repeated(m: Evaluator, made: Values) -> Values:
    if isinstance(made.single, ListOf):
        m.set_flag(made.single, ContainerState.repeated)
    return made


def unpack(m: Evaluator, values: Values, count: int, star: int | None, node: ast.AST) -> list[Values]:
    """One set of values for each of `count` targets."""
    columns: list[list[Values]] = [[] for _ in range(count)]
    bindings = values.restrict(m.path).bindings
    # Of several, those that would end in an error here are not what comes.
    fitting = [each for each in bindings if _fits(m, each.value, count, star)] if len(bindings) > 1 else bindings
    for binding in fitting or bindings:
        parts = _parts(m, binding.value, count, star, node)
        for column, part in zip(columns, parts, strict=True):
            column.append(part.guarded_by(binding.condition))
    return [union(column) if column else m.unknown(node, "nothing to unpack") for column in columns]


def _fits(m: Evaluator, value: Value, count: int, star: int | None) -> bool:
    known = known_items(m, value)
    return not value.has_many if known is None else (len(known) == count if star is None else len(known) >= count - 1)


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
