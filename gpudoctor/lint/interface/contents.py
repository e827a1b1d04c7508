"""What tuples, lists and dictionaries hold, and what classes of the project have.

Asked by models and by the evaluation of Python alike."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from gpudoctor.lint.domain.abstract_state import (
    NO,
    PROCESS,
    ContainerState,
    Flag,
    ObjectState,
    ProcessState,
    SettingState,
    ValueCell,
)
from gpudoctor.lint.domain.arguments import NO_ARGUMENTS
from gpudoctor.lint.domain.container import DictOf, Enumerated, ListOf, Slice, TupleOf, items_held
from gpudoctor.lint.domain.function import BoundMethod, Class, Function, Generator, Instance, Library, class_of
from gpudoctor.lint.domain.rank import Rank
from gpudoctor.lint.domain.symbols import Attribute, CallResult, EntriesOf, Item, Setting, Widened, entry_left_out
from gpudoctor.lint.domain.tensor import Tensor
from gpudoctor.lint.domain.value import (
    FALSE,
    TRUE,
    UNBOUND,
    Anonymous,
    Const,
    Text,
    Truth,
    Unknown,
    Value,
    Values,
    int_of,
    single_of,
    text_of,
)
from gpudoctor.lint.flow.condition import MAYBE_BY_RANK, Condition, Divergence
from gpudoctor.lint.flow.valueset import ValueSet, union
from gpudoctor.lint.interface.hooks import HOOKS
from gpudoctor.record import replace

if TYPE_CHECKING:
    from typing import TypeGuard

    from gpudoctor.lint.interface.library_context import LibraryContext

singleton = ValueSet.of
MAX_ITEMS = 64
MAX_TUPLE = 256
MAX_ENTRIES = 500
NESTED = 4
"""So many levels deep a part is known to lie in what holds it."""

# The contents of a list or dictionary stand in the store under (object, name):
#   "items"  a TupleOf with the items, as far as they are known one by one
#   "more"   what further items may be
#   "entries"  for a dictionary: a TupleOf with each key and what stands under it, by turns


def new_list(do: LibraryContext, items: list[Values], node: ast.AST, exact: bool = True, kind: str = "list") -> Values:
    """A list with these items; not `exact` where there may be others of the same kind."""
    place = do.place(node)
    made = ListOf(do.allocation_site(place), place, do.result_name(node) or "a list", kind)
    # Made under a rank guard: that it is filled there too gives no rank another share.
    if do.path.divergence & Divergence.RANK:
        do.set_flag(made, ContainerState.made_by_some_ranks)
    # One by one as long as it pays: layer lists matter, word lists do not.
    if exact and len(items) <= MAX_ITEMS:
        do.set_state(made, ContainerState.items, singleton(TupleOf(tuple(items))))
    elif items:
        do.set_state(made, ContainerState.more, union(items))
    else:
        do.set_state(made, ContainerState.more, _an_item(do, node))
    return singleton(made)


def new_tuple(do: LibraryContext, items: list[Values], node: ast.AST) -> Values:
    """A tuple with these items, as long as they are few: `x = (*x, *x)` doubles with each line."""
    return singleton(TupleOf(tuple(items))) if len(items) <= MAX_TUPLE else new_list(do, items, node, kind="tuple")


def in_a_set(items: list[Values]) -> tuple[list[Values], bool]:
    """The items of a set, and whether it is known how many there are: those that are equal are one."""
    distinct = list(dict.fromkeys(items))
    return distinct, len(distinct) <= 1 or all(isinstance(each.single, Const) for each in distinct)


def new_dict(
    do: LibraryContext, entries: list[tuple[Values | None, Values]], node: ast.AST, exact: bool = True
) -> Values:
    """A dictionary; an entry without a key is another dictionary merged in."""
    place = do.place(node)
    made = DictOf(do.allocation_site(place), place, do.result_name(node) or "a dictionary")
    # As in Python, later entries win, in the place of the first.
    known: dict[Values, Values] = {}
    more: list[Values] = []
    for key, value in entries:
        only = single_of(key)
        if key is None:
            known = _merge(do, made, value, known, more, node)
        # A key that is computed may replace any of the others.
        elif isinstance(only, Const) and exact:
            known[key] = value
        else:
            more.append(value)
            _note_key(do, made, key)
    _set_entries(do, made, known)
    if more:
        do.set_state(made, ContainerState.more, union(more))
    return singleton(made)


def _merge(
    do: LibraryContext, made: DictOf, other: Values, known: dict[Values, Values], more: list[Values], node: ast.AST
) -> dict[Values, Values]:
    """The known entries once those of another dictionary have come; further ones are put into `more`."""
    only = other.single
    entries = pairs(do, only) if isinstance(only, DictOf) else None
    if entries is not None and isinstance(only, DictOf):
        extra = do.state(only, ContainerState.more)
        if extra is not None:
            more.append(extra)
            # Any of those that stand before it may be among them.
            _set_entries(do, made, known)
            note_any_name(do, made, extra, extra, node)
            known = dict(possible_pairs(do, made))
        known.update(entries)
        note_chosen_file(do, made, [only])
        return known
    found = entries_of(do, other, node)
    more.append(found)
    # Those that stand before it may be replaced.
    _set_entries(do, made, known)
    note_any_name(do, made, found, found, node)
    return dict(possible_pairs(do, made))


def entries_of(do: LibraryContext, other: Values, node: ast.AST) -> Values:
    """What the entries of another dictionary are: parts of it, where that is a batch or what a model returned."""
    if other.are(Tensor):
        return do.items_of(other, node)
    of = Unknown(Anonymous("merged", None)) if other.single is None else other.single
    return singleton(Unknown(EntriesOf(of), "entries of another dictionary"))


def under_a_key(entries: Values, key: Value, label: str) -> Values:
    """What stands under a key among such entries: `{**given}["lr"]` and `{**given}["name"]` are two values."""
    return entries.map(
        lambda each: (
            Unknown(Item(each.term.of, key), each.why, label, each.divergence)
            if isinstance(each, Unknown) and isinstance(each.term, EntriesOf)
            else each
        )
    )


def _set_entries(do: LibraryContext, made: DictOf | Tensor, known: dict[Values, Values]) -> None:
    do.set_state(
        made, ContainerState.entries, singleton(TupleOf(tuple(each for pair in known.items() for each in pair)))
    )


def pairs(do: LibraryContext, value: Value | None) -> list[tuple[Values, Values]] | None:
    """The known entries; None where a dictionary is known only in part on this path, and for what is none."""
    if not isinstance(value, DictOf):
        return None
    entries = do.state(value, ContainerState.entries)
    return _by_two(entries.single) if entries is not None and isinstance(entries.single, TupleOf) else None


def possible_pairs(do: LibraryContext, value: Value) -> list[tuple[Values, Values]]:
    """The entries that it has on some path: a loop that fills it may have run or not. Of a batch, those that were put
    into it; what is none has none."""
    entries = do.state(value, ContainerState.entries) if isinstance(value, (DictOf, Tensor)) else None
    if entries is None:
        return []
    if isinstance(entries.single, TupleOf):
        return _by_two(entries.single)
    found: dict[Values, list[tuple[Values, Condition]]] = {}
    for binding in entries.bindings:
        for key, held in _by_two(binding.value) if isinstance(binding.value, TupleOf) else ():
            found.setdefault(key, []).append((held, binding.condition))
    return [(key, _on_all_paths(held, len(entries.bindings))) for key, held in found.items()]


def _on_all_paths(held: list[tuple[Values, Condition]], paths: int) -> Values:
    """What an entry holds on some of so many paths: one that all have alike was there before they parted."""
    first = held[0][0]
    if len(held) == paths and all(each == first for each, _ in held):
        return first
    return union(each.guarded_by(when) for each, when in held)


def names_known(do: LibraryContext, value: DictOf) -> bool:
    """Every entry that it has on some path has a name that is known."""
    named = all(isinstance(key.single, Const) for key, _ in possible_pairs(do, value))
    return named and do.state(value, ContainerState.more) is None


def _by_two(entries: TupleOf) -> list[tuple[Values, Values]]:
    return list(zip(entries.items[::2], entries.items[1::2], strict=True))


def known_items(do: LibraryContext, value: Value | None) -> tuple[Values, ...] | None:
    """The items one by one, None where they are not known so."""
    if type(value) is TupleOf:
        return value.items
    if type(value) is ListOf:
        only = single_of(do.state(value, ContainerState.items))
        return only.items if isinstance(only, TupleOf) and do.state(value, ContainerState.more) is None else None
    if type(value) is DictOf:
        known = pairs(do, value)
        if known is None or do.state(value, ContainerState.more) is not None:
            return None
        return tuple([key for key, _ in known])
    if type(value) is Enumerated:
        return _known_enumerated(do, value)
    # `for name in self.__dict__`
    owner = described_by(value) if type(value) is Unknown else None
    named = [each for each in do.names_of(owner) if each != "__dict__"] if isinstance(owner, Instance) else []
    return tuple([singleton(Const(each)) for each in named]) or None


WITH_ITEMS = frozenset((TupleOf, ListOf, DictOf, Enumerated))
"""Kinds of what holds other values. Told by type, since most values are of none of them."""


def _known_enumerated(do: LibraryContext, value: Enumerated) -> tuple[Values, ...] | None:
    columns = [known_items(do, item.single) for item in value.items]
    if any(column is None for column in columns) or not columns or value.open_ended:
        return None
    if value.kind == "enumerate":
        return tuple(singleton(TupleOf((singleton(Const(i)), item))) for i, item in enumerate(columns[0] or ()))
    # As short as the shortest column, as in Python.
    if value.kind == "zip":
        return tuple(singleton(TupleOf(row)) for row in zip(*(column or () for column in columns), strict=False))
    if value.kind == "chain":
        return tuple([item for column in columns for item in column or ()])
    if value.kind == "sorted":
        return in_order(columns[0] or (), {})
    if value.kind == "reversed":
        return (columns[0] or ())[::-1]
    return columns[0] if value.kind == "tqdm" else None


def in_order(items: tuple[Values, ...], given: Mapping[str, Values]) -> tuple[Values, ...]:
    """As `sort` puts them with these keywords: where that is not known, each may come to stand anywhere."""
    backwards = given.get("reverse", singleton(FALSE)).single
    plain = [each.single.value for each in items if isinstance(each.single, Const)]
    # Numbers among themselves, or texts: others have no order, or one of their own.
    kinds = {str if isinstance(each, str) else float if isinstance(each, (int, float)) else None for each in plain}
    comparable = len(plain) == len(items) and kinds in ({str}, {float})
    if comparable and len(given) == ("reverse" in given) and backwards in (TRUE, FALSE):
        return tuple([singleton(Const(each)) for each in sorted(plain, reverse=backwards == TRUE)])  # type: ignore[type-var]
    return (union(items),) * len(items) if len(items) > 1 else items


def known_keys(do: LibraryContext, value: DictOf) -> list[Value] | None:
    """The keys, None where others may be there."""
    known = known_items(do, value)
    return [key.single for key in known if key.single is not None] if known is not None else None


def note_rank_decides(do: LibraryContext, values: Values) -> None:
    """Each rank puts other items into these lists, as `files[rank::world]` does."""
    for value in values:
        if isinstance(value, ListOf):
            do.set_flag(value, ContainerState.by_rank)


def is_key(value: Value | None) -> TypeGuard[Value]:
    """It is known well enough as a key: two such are the same one, or different."""
    if isinstance(value, TupleOf):
        return all(is_key(each.single) for each in value.items)
    return isinstance(value, (Const, Class, Function, Library))


def set_item(do: LibraryContext, value: Value, index: Values, new: Values, node: ast.AST) -> None:
    """`value[index] = new`."""
    told = HOOKS.item_set.get(type(value))
    if told is not None:
        told(do, value, index, new)
    only = index.restrict(do.path).single
    described = described_by(value)
    # `self.__dict__["model"] = model`, `vars(args)["distributed"] = True`
    if described is not None and (name := text_of(only)) is not None:
        do.set_own_attribute(described, name, new)
    if isinstance(value, DictOf) and _is_own_name(do, value, only) and new.are(Const, Rank, Text, Truth, Unknown):
        # `for name in settings: settings[name] = converted(settings[name])`: each is still what its name says.
        if said := [each for each in new.bindings if isinstance(each.value, Const)]:
            put_entries(do, value, {key: union([held, ValueSet(said)]) for key, held in possible_pairs(do, value)})
        return
    if not is_key(only) and not isinstance(value, ListOf):
        note_any_name(do, value, index, new, node)
    if isinstance(value, DictOf):
        known = possible_pairs(do, value)
        # Each entry that is put in makes the table anew.
        if is_key(only) and len(known) < MAX_ENTRIES:
            _set_entries(do, value, {**dict(known), singleton(only): new})
            # `for key in loaded: config[key] = loaded[key]`
            note_chosen_file(do, value, [loop.source.single for loop in do.execution.open_loops[-1:]])
        elif not known and only == key_of(do, value):
            # `for name in sums: sums[name] = reduce(sums[name])`: what is done with that key is done with all.
            do.set_state(value, ContainerState.more, new)
        else:
            add_more(do, value, new)
            _note_key(do, value, index)
    elif isinstance(value, ListOf):
        items = known_items(do, value)
        if (
            items is not None
            and isinstance(only, Const)
            and isinstance(only.value, int)
            and 0 <= only.value < len(items)
        ):
            do.set_state(
                value, ContainerState.items, singleton(TupleOf((*items[: only.value], new, *items[only.value + 1 :])))
            )
        else:
            add_more(do, value, new)


def _is_own_name(do: LibraryContext, value: DictOf, key: Value | None) -> bool:
    """One of several names that it surely has, as a loop over it gets them."""
    if not isinstance(key, Unknown) or not isinstance(key.term, Widened):
        return False
    names = [name.single for name, _ in possible_pairs(do, value)]
    return all(each in names for each in key.term.values)


def described_by(value: Value) -> Value | None:
    """The object whose attributes `vars(owner)` or `owner.__dict__` is; None where it is something else."""
    match value.term:
        case CallResult("builtins.vars", (ValueSet() as given, *_)):
            return given.single
        case Attribute(Value() as owner, "__dict__"):
            return owner
    return None


def key_of(do: LibraryContext, value: DictOf) -> Unknown:
    """What a loop over a dictionary gets that is filled under names of which nothing is known."""
    of_rank = do.flag(value, ContainerState.by_rank) is not NO
    return Unknown(Anonymous("key of", value), "a key", dependence=Divergence.RANK if of_rank else Divergence.NONE)


def _note_key(do: LibraryContext, value: DictOf, key: Values) -> None:
    """`{case: load(case) for case in cases[rank::world]}`: each rank has other entries."""
    if key.any(lambda each: bool(each.divergence & Divergence.RANK)):
        do.set_flag(value, ContainerState.by_rank)


def note_any_name(do: LibraryContext, owner: Value, name: Values, new: Values, node: ast.AST) -> None:
    """Something is written into `owner`, and whoever reads the source cannot tell under which name."""
    for told in HOOKS.written_under_any_name:
        told(do, owner, name, new, node)


def put_entries(do: LibraryContext, value: DictOf | Tensor, new: dict[Values, Values]) -> None:
    """Write several entries of a dictionary."""
    if new:
        _set_entries(do, value, {**dict(possible_pairs(do, value)), **new})


def add_more(do: LibraryContext, value: ListOf | DictOf, new: Values) -> None:
    """It may hold these besides, wherever."""
    old = do.state(value, ContainerState.more)
    do.set_state(value, ContainerState.more, union([old, new]) if old is not None else new)


def is_grown(do: LibraryContext, value: Value | None) -> bool:
    """How many items it has is not known, even where each that was seen is."""
    if isinstance(value, Enumerated):
        return any(is_grown(do, column.single) for column in value.items)
    return isinstance(value, ListOf) and do.flag(value, ContainerState.grown) is not NO


def note_grown(do: LibraryContext, made: Values, sources: Iterable[Value | None]) -> Values:
    """A list that was made of the items of these: where nobody knows how many there are, nor of this one."""
    if isinstance(made.single, ListOf) and any(is_grown(do, each) for each in sources):
        do.set_flag(made.single, ContainerState.grown)
    return made


def default_of(do: LibraryContext, value: Value | None) -> Value | None:
    """What a setting is where the user says nothing about it."""
    if not isinstance(value, Unknown):
        return None
    if isinstance(value.term, Setting):
        found = do.entry(PROCESS, ProcessState.defaults, value.term.name)
    else:
        found = do.state(value, SettingState.left_out)
    # `config.get("optimizer", "Adam")`
    return single_of(found) if found is not None else entry_left_out(value)


def may_have_more(do: LibraryContext, value: Value | None) -> bool:
    """Another settings file may have more in it than the one that was read."""
    return isinstance(value, (DictOf, ListOf)) and do.flag(value, SettingState.chosen_file) is not NO


def note_chosen_file(do: LibraryContext, made: Value | None, sources: Iterable[Value | None]) -> None:
    """What was made of the entries of these has more in it where they have."""
    if isinstance(made, (DictOf, ListOf)) and any(may_have_more(do, each) for each in sources):
        do.set_flag(made, SettingState.chosen_file)


def show_entries(do: LibraryContext, values: Values) -> None:
    """The entries of these dictionaries, and of those in them, are their attributes, too."""
    for each in values:
        if isinstance(each, DictOf) and not is_shown(do, each):
            do.set_own_attribute(each, "__dict__", singleton(each))
            for _, held in possible_pairs(do, each):
                show_entries(do, held)


def is_shown(do: LibraryContext, held: DictOf) -> bool:
    """The entries of a dictionary are its attributes."""
    shown = do.own_attribute(held, "__dict__")
    return shown is not None and shown.single is held


def extend(do: LibraryContext, value: Value, new: list[Values], exact: bool = True) -> None:
    """Items come to a list."""
    if not isinstance(value, ListOf):
        return
    if do.path.divergence & Divergence.RANK and do.flag(value, ContainerState.made_by_some_ranks) is NO:
        note_rank_decides(do, singleton(value))
    if do.execution.outlives_round(value):
        do.set_flag(value, ContainerState.grown)
    items = known_items(do, value)
    # The body is followed twice, so a list that grows in a loop has no known length.
    in_loop = any(loop.event.times != 1 for loop in do.execution.open_loops)
    if items is not None and exact and len(items) + len(new) <= MAX_ITEMS and not (in_loop and len(items) > 8):
        do.set_state(value, ContainerState.items, singleton(TupleOf((*items, *new))))
        return
    for each in new:
        add_more(do, value, each)


_ITEMS: ValueCell[Any] = ContainerState.items
_ENTRIES: ValueCell[Any] = ContainerState.entries
_MORE: ValueCell[Any] = ContainerState.more
_FACTORY: ValueCell[Any] = ContainerState.factory
_TOLD_OF_CONTENTS: tuple[Flag[Any], ...] = (
    ContainerState.grown,
    ContainerState.by_rank,
    ContainerState.unordered,
    ObjectState.of_settings,
    ObjectState.opened,
    SettingState.chosen_file,
    SettingState.hides_rank,
)


C = TypeVar("C", bound=ListOf | DictOf | Instance)


def copy_of(do: LibraryContext, value: C, node: ast.AST) -> C:
    """Another list, dictionary or object with the same contents."""
    place = do.place(node)
    made = replace(value, identity=do.allocation_site(place), place=place, label=do.result_name(node) or value.label)
    for cell in (_ITEMS, _ENTRIES, _MORE, _FACTORY):
        held = do.state(value, cell)
        if held is not None:
            do.set_state(made, cell, held)
    for flag in _TOLD_OF_CONTENTS:
        if do.flag(value, flag) is not NO:
            do.set_flag(made, flag)
    for name in do.names_of(value):
        values = do.own_attribute(value, name)
        if values is not None:
            do.set_own_attribute(made, name, values)
    return made


def change_contents(do: LibraryContext, owner: Value, change: Callable[[Values], Values]) -> None:
    """Put something else in the place of each thing that a list, a dictionary or an object holds."""
    for cell in (_ITEMS, _ENTRIES):
        held = do.state(owner, cell)
        if held is not None:
            do.set_state(owner, cell, held.map(lambda each: _changed(each, change)))
    more = do.state(owner, _MORE)
    if more is not None:
        do.set_state(owner, _MORE, change(more))
    for name in do.names_of(owner):
        values = do.own_attribute(owner, name)
        if values is not None:
            do.set_own_attribute(owner, name, change(values))


def _changed(held: Value, change: Callable[[Values], Values]) -> Value:
    return TupleOf(tuple(map(change, held.items))) if isinstance(held, TupleOf) else held


def empty(do: LibraryContext, value: ListOf | DictOf) -> None:
    """Take all out of it."""
    if isinstance(value, ListOf):
        set_items(do, value, ())
    else:
        _set_entries(do, value, {})
    if do.state(value, ContainerState.more) is not None:
        do.set_state(value, ContainerState.more, singleton(UNBOUND))


def begin_iteration(do: LibraryContext, values: Values, node: ast.AST) -> Values:
    """What a loop goes over, or `iter` returns: the `__iter__` of an object of the project is called once, before the
    first item."""
    return values.map(lambda value: _begun(do, value, node)) if values.any(_may_begin) else values


def _may_begin(value: Value) -> bool:
    return isinstance(value, (Instance, Enumerated))


def _begun(do: LibraryContext, value: Value, node: ast.AST) -> Value:
    if isinstance(value, Enumerated):
        items = tuple([begin_iteration(do, each, node) for each in value.items])
        return value if items == value.items else replace(value, items=items)
    own = find_method(do, value, "__iter__") if isinstance(value, Instance) else None
    only = do.call(own, NO_ARGUMENTS, node).single if own is not None else None
    if only == value and isinstance(value, Instance):
        do.set_flag(value, ObjectState.begun)
    # A generator is followed where the loop is.
    return value if only is None or isinstance(only, Generator) else only


def set_items(do: LibraryContext, value: ListOf, items: Iterable[Values]) -> None:
    """It holds these and nothing else, as far as it is known one by one."""
    do.set_state(value, ContainerState.items, singleton(TupleOf(tuple(items))))


def loosen(do: LibraryContext, value: ListOf | DictOf) -> None:
    """Some of what is in it may be gone, and in any order: what is left is among what was there."""
    if isinstance(value, DictOf):
        found = [held for _, held in possible_pairs(do, value)]
    else:
        items = do.state(value, ContainerState.items)
        found = [each for b in items.bindings for each in items_held(singleton(b.value))] if items is not None else []
    if found:
        add_more(do, value, union(found))
        do.set_state(value, _ENTRIES if isinstance(value, DictOf) else _ITEMS, singleton(UNBOUND))


def take_out(do: LibraryContext, value: ListOf, index: int) -> Values | None:
    """The item that stands there, which is gone from it; None where it is not known."""
    items = known_items(do, value)
    if items is None or not -len(items) <= index < len(items) or is_grown(do, value):
        loosen(do, value)
        return None
    # Each round of a loop takes out another one.
    if do.execution.outlives_round(value):
        loosen(do, value)
        return None
    at = index % len(items)
    set_items(do, value, (*items[:at], *items[at + 1 :]))
    return items[at]


def delete_item(do: LibraryContext, value: Value, index: Value | None) -> None:
    """`del value[index]`."""
    if isinstance(value, DictOf) and index is not None:
        forget_entry(do, value, index)
    elif isinstance(value, ListOf) and isinstance(index, Slice) and not (index.start or index.stop or index.step):
        empty(do, value)
    elif isinstance(value, ListOf) and (at := int_of(index)) is not None:
        take_out(do, value, at)
    elif isinstance(value, ListOf):
        loosen(do, value)


def forget_entry(do: LibraryContext, value: DictOf, key: Value) -> None:
    """What is popped must not be found again when the rest is passed on as `**kwargs`."""
    kept = {each: held for each, held in pairs(do, value) or () if each.single != key}
    if pairs(do, value) is not None:
        _set_entries(do, value, kept)


def _an_item(do: LibraryContext, node: ast.AST) -> Values:
    return singleton(Unknown(Anonymous("", do.allocation_site(do.place(node))), "an item", do.text(node, 40)))


def ancestry(cls: Class) -> Iterator[Class]:
    """The class and its project bases in the order in which Python looks a name up in them, each once."""
    bases = cls.own_bases
    while len(bases) == 1:
        yield cls
        (cls,) = bases
        bases = cls.own_bases
    yield cls
    yield from _merged([*(list(ancestry(base)) for base in bases), list(bases)])


def _merged(orders: list[list[Class]]) -> Iterator[Class]:
    """Several orders as one that agrees with each (C3, https://www.python.org/download/releases/2.3/mro/)."""
    while orders := [order for order in orders if order]:
        later = {cls for order in orders for cls in order[1:]}
        # What agrees with no order cannot be made by Python either.
        first = next((order[0] for order in orders if order[0] not in later), orders[0][0])
        yield first
        orders = [[cls for cls in order if cls != first] for order in orders]


def find_in_class(do: LibraryContext, cls: Class, name: str, after: Value | None = None) -> Values | None:
    """What a class or its bases bind a name to; the search begins behind `after` where that is given."""
    skipping = after is not None
    for each in ancestry(cls):
        if skipping:
            skipping = each != after
            continue
        found = do.own_attribute(each.scope, name)
        if found is not None:
            return found
    return None


def annotated_with(annotation: ast.expr) -> str:
    """`Type` of `typing.Type[Net]`."""
    node = annotation.value if isinstance(annotation, ast.Subscript) else annotation
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def fields_of(cls: Class) -> Iterator[str]:
    """The annotated names of a class and its bases, those of the bases first."""
    for each in reversed(list(ancestry(cls))):
        for statement in each.node.body:
            match statement:
                case ast.AnnAssign(ast.Name(name), annotation) if annotated_with(annotation) != "ClassVar":
                    yield name


def find_method(do: LibraryContext, value: Value, name: str) -> Values | None:
    """A method that the project's class of this object has."""
    cls = class_of(value)
    found = find_in_class(do, cls, name) if cls is not None else None
    if found is None:
        return None
    return found.map(lambda each: BoundMethod(value, each, name) if isinstance(each, Function) else each)


def as_written_by_itself(do: LibraryContext, values: Values, node: ast.AST) -> Values:
    """What becomes text: objects of the program say by a method of their own what that is."""
    own = [(each, _writes_itself(do, each.value)) for each in values.bindings]
    if all(method is None for _, method in own):
        return values
    return union(
        [
            ValueSet([each]) if method is None else do.call(method, NO_ARGUMENTS, node).guarded_by(each.condition)
            for each, method in own
        ]
    )


def _writes_itself(do: LibraryContext, value: Value) -> Values | None:
    if not isinstance(value, Instance):
        return None
    return find_method(do, value, "__str__") or find_method(do, value, "__repr__")


def hidden_in(do: LibraryContext, owner: Value) -> Divergence:
    """What an entry of it that nobody was seen to set may come from: the rank, where that was put somewhere there."""
    at: Value | None = owner
    for _ in range(NESTED):
        if at is None:
            break
        if do.flag(at, SettingState.hides_rank) is not NO:
            return MAYBE_BY_RANK
        at = at.term.of if isinstance(at.term, (Attribute, Item)) else None
    return Divergence.NONE
