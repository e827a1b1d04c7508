"""Lists, tuples, sets and dictionaries: what makes them, and their methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import chain
from operator import methodcaller

from gpudoctor.lint.domain.abstract_state import NO, ContainerState, ObjectState, SettingState
from gpudoctor.lint.domain.arguments import Arguments
from gpudoctor.lint.domain.choosing import choice_name
from gpudoctor.lint.domain.container import DictOf, Enumerated, ListOf, Range, TupleOf, items_held
from gpudoctor.lint.domain.function import Class, Instance, Library, Namespace, ProjectModule, class_of
from gpudoctor.lint.domain.optim import Parameters
from gpudoctor.lint.domain.symbols import EachOf, Item
from gpudoctor.lint.domain.tensor import Tensor
from gpudoctor.lint.domain.value import NONE, Const, Unknown, Value, Values, constant_of, int_of, single_of, text_of
from gpudoctor.lint.events.process import SettingDefault
from gpudoctor.lint.events.training_step import Accumulated
from gpudoctor.lint.flow.condition import ALWAYS, Condition
from gpudoctor.lint.flow.valueset import union
from gpudoctor.lint.interface.contents import (
    NESTED,
    copy_of,
    described_by,
    empty,
    entries_of,
    extend,
    fields_of,
    forget_entry,
    in_a_set,
    in_order,
    is_grown,
    is_key,
    key_of,
    known_items,
    loosen,
    may_have_more,
    new_dict,
    new_list,
    note_chosen_file,
    note_grown,
    pairs,
    possible_pairs,
    set_item,
    set_items,
    take_out,
)
from gpudoctor.lint.interface.hooks import HOOKS, told
from gpudoctor.lint.interface.library_call import (
    MODELS,
    NOT_ANSWERED,
    Call,
    LibraryContext,
    flatten,
    next_item,
    singleton,
)
from gpudoctor.lint.library.builtin import unknown
from gpudoctor.lint.library.tensors import surely_has_graph


@MODELS.callable("builtins.list", "builtins.tuple", "builtins.set", "builtins.frozenset")
def _sequence(call: Call) -> Values:
    if not call.args:
        return new_list(call.do, [], call.node)
    given = call.args[0].single
    # `list(model.parameters())` keeps its owners for the optimizer; the generator itself is used up once.
    if isinstance(given, Parameters):
        return singleton(given)
    # `range(rank, n, world_size)`: indices that differ between ranks, a hand-made shard.
    if isinstance(given, Range) and given.divergence:
        return new_list(call.do, [unknown(call, "a number", [given])], call.node, exact=False)
    items = known_items(call.do, given)
    if items is not None and call.name.endswith("tuple") and not is_grown(call.do, given):
        return singleton(TupleOf(items))
    known = list(items) if items is not None else [call.do.items_of(call.args[0], call.node)]
    distinct = True
    if call.name.endswith("set"):
        known, distinct = in_a_set(known)
    kind = call.name.removeprefix("builtins.")
    made = new_list(call.do, known, call.node, items is not None and distinct, kind)
    note_grown(call.do, made, [given])
    if call.name.endswith("set"):
        _note_set(call.do, made, known)
    return made


@told(HOOKS.sets_made)
def _note_set(do: LibraryContext, made: Values, items: list[Values]) -> None:
    """The list stands for a set. Texts lie in it in an order that each process chooses for itself, by its hash seed."""
    only = made.single
    texts = any(text_of(value) is not None for value in flat_of(items))
    if texts and isinstance(only, ListOf):
        do.set_flag(only, ContainerState.unordered)


def flat_of(items: list[Values]) -> list[Value]:
    """All that may be among some items."""
    return [value for values in items for value in values]


@MODELS.callable("builtins.dict", "collections.OrderedDict", "collections.defaultdict")
def _dict(call: Call) -> Values:
    # `defaultdict` takes a factory first.
    given = call.args[1:] if call.name.endswith("defaultdict") else call.args
    entries = [entry for each in given[:1] for entry in _entries_of(call, each)]
    entries += [(singleton(Const(name)), values) for name, values in call.keywords.items()]
    made = new_dict(call.do, entries, call.node, exact=not call.open_ended)
    factory = call.arg(0, "default_factory") if call.name.endswith("defaultdict") else None
    if factory is not None and isinstance(made.single, DictOf):
        call.do.set_state(made.single, ContainerState.factory, factory)
    return made


@MODELS.callable("builtins.dict.fromkeys", "collections.OrderedDict.fromkeys")
def _from_keys(call: Call) -> Values:
    """One value, the same object, under each of some keys."""
    given, value = call.args[:1], call.args[1] if len(call.args) > 1 else singleton(NONE)
    keys = known_items(call.do, given[0].single) if given else None
    if keys is None:
        return new_dict(call.do, [(unknown(call, "a key"), value)], call.node, exact=False)
    return new_dict(call.do, [(key, value) for key in keys], call.node)


@MODELS.callable("dataclasses.asdict", "attr.asdict", "attrs.asdict")
def _fields_by_name(call: Call) -> Values:
    """The fields of an object in a dictionary, and so the objects in it."""
    return (_as_dict(call, call.first, NESTED) if call.first is not None else None) or NOT_ANSWERED


@MODELS.callable("dataclasses.fields", "attr.fields", "attrs.fields")
def _fields(call: Call) -> Values:
    """What describes each field, by its name."""
    cls = call.first if call.first is None else class_of(call.first) or call.first
    if not isinstance(cls, Class):
        return NOT_ANSWERED
    described = []
    for name in dict.fromkeys(fields_of(cls)):
        field = Namespace((call.allocation_site(), name), call.place, name, "field")
        call.do.set_own_attribute(field, "name", singleton(Const(name)))
        described.append(singleton(field))
    return singleton(TupleOf(tuple(described)))


@MODELS.callable("dataclasses.replace", "copy.replace", "attr.evolve", "attrs.evolve")
def _with_other_fields(call: Call) -> Values:
    """A new object of the class, made by its constructor of the fields of the old one and of those that are given."""
    owner = call.first
    if not isinstance(owner, Instance) or call.open_ended:
        return NOT_ANSWERED
    fields = {name: call.do.own_attribute(owner, name) for name in fields_of(owner.cls)}
    held = {name: values for name, values in fields.items() if values is not None}
    return call.do.call(singleton(owner.cls), Arguments((), {**held, **call.keywords}), call.node)


def _as_dict(call: Call, owner: Value, levels: int) -> Values | None:
    names = dict.fromkeys(fields_of(owner.cls)) if isinstance(owner, Instance) else ()
    entries: list[tuple[Values | None, Values]] = []
    for name in names:
        held = call.do.own_attribute(owner, name) or unknown(call, "a field")
        inner = held.single if levels else None
        # What has no fields stays as it is.
        held = (_as_dict(call, inner, levels - 1) if inner is not None else None) or held
        entries.append((singleton(Const(name)), held))
    return new_dict(call.do, entries, call.node) if entries else None


def _entries_of(call: Call, given: Values) -> list[tuple[Values | None, Values]]:
    """Of another dictionary, which has no key here, or of pairs: `dict(zip(names, values))`."""
    only = given.single
    if only is None or isinstance(only, (DictOf, Unknown)):
        return [(None, given)]
    known = known_items(call.do, only)
    pairs_known = [row for item in known or () for row in item if isinstance(row, TupleOf) and len(row.items) == 2]
    if known is not None and len(pairs_known) == len(known):
        return [(row.items[0], row.items[1]) for row in pairs_known]
    rows = call.do.items_of(given, call.node)
    held = [row.items[1] for row in rows if isinstance(row, TupleOf) and len(row.items) == 2]
    return [(unknown(call, "a key"), union(held))] if held else [(None, given)]


MODELS.method(TupleOf)(lambda call: unknown(call, "a count"))


@MODELS.method(ListOf, "append", "add", "insert")
def _append(call: Call[ListOf]) -> Values:
    given = list(call.args[-1:])
    items, before = known_items(call.do, call.receiver), call.do.state(call.receiver, ContainerState.items)
    new, exact = given, True
    if call.name == "add" and items:
        # A set has it once, and what is not known may be what it has already.
        new = [each for each in given if each not in items or not is_key(each.single)]
        exact = all(isinstance(each.single, Const) for each in (*items, *new))
    extend(call.do, call.receiver, new, exact)
    if call.name == "insert" and len(call.args) == 2 and known_items(call.do, call.receiver) is not None:
        _move_last(call, int_of(call.first))
    for value in flat_of(given) if call.name == "append" else ():
        # `losses.append(loss)` keeps every graph alive; memory grows each iteration.
        if isinstance(value, Tensor) and value.graph is True and surely_has_graph(call.do, value):
            kept = [each for each in flatten(call.do, [call.receiver]) if each.graph is True]
            held = frozenset().union(*(each.forwards for each in (value, *kept)))
            # What was computed before there was this list is kept by something else, which may let go of it.
            own = frozenset(each for each in held if call.do.execution.is_older(call.receiver, each))
            call.emit(
                Accumulated, tensor=value, into=call.receiver.label or "a list", held=own, where=_filled_where(before)
            )
    return singleton(NONE)


def _filled_where(held: Values | None) -> Condition:
    """Under which tests there is something in a list, where it was emptied on one side of them."""
    filled = [each.condition for each in held.bindings if each.value != TupleOf(())] if held is not None else []
    return reduce(Condition.intersection, filled) if filled else ALWAYS


def _move_last(call: Call[ListOf], index: int | None) -> None:
    """To where `insert` puts it."""
    *others, new = known_items(call.do, call.receiver) or ()
    if index is None:
        return loosen(call.do, call.receiver)
    others.insert(index, new)
    return set_items(call.do, call.receiver, others)


@MODELS.method(ListOf, "extend", "update")
def _extend(call: Call[ListOf]) -> Values:
    known = known_items(call.do, call.args[0].single) if call.args and call.args[0].single is not None else None
    if known is not None:
        extend(call.do, call.receiver, list(known))
    elif call.args:
        extend(call.do, call.receiver, [call.do.items_of(call.args[0], call.node)], exact=False)
    # What each rank has chosen for itself stays so among others.
    for other in call.args[0] if call.args else ():
        if isinstance(other, ListOf) and call.do.flag(other, ContainerState.by_rank) is not NO:
            call.do.set_flag(call.receiver, ContainerState.by_rank)
    return singleton(NONE)


_OF_SETS: dict[str, Callable[..., frozenset[Values]]] = {
    "union": frozenset.union,
    "intersection": frozenset.intersection,
    "difference": frozenset.difference,
    "symmetric_difference": frozenset.symmetric_difference,
}


@MODELS.method(ListOf, *_OF_SETS)
def _of_sets(call: Call[ListOf]) -> Values:
    """`MODELS | EXPERIMENTS`, `names - {"bias"}`: a new set, where all is known of each."""
    given = [known_items(call.do, single_of(each)) for each in (singleton(call.receiver), *call.args)]
    every = [items for items in given if items is not None]
    if len(every) < len(given) or not all(is_key(each.single) for items in every for each in items):
        return NOT_ANSWERED
    kept = reduce(_OF_SETS[call.name], map(frozenset, every))
    items = [each for each in dict.fromkeys(chain(*every)) if each in kept]
    made = new_list(call.do, items, call.node, kind="set")
    _note_set(call.do, made, items)
    return made


@MODELS.method(ListOf, "pop", "remove", "discard")
def _take_out(call: Call[ListOf]) -> Values:
    items = known_items(call.do, call.receiver)
    if call.name == "pop":
        index = int_of(call.first) if call.args else -1
        what = call.do.items_of(singleton(call.receiver), call.node)
    else:
        index = _index_of(items, call.args[0]) if items is not None and call.args else None
        what = singleton(NONE)
    if index is None:
        loosen(call.do, call.receiver)
        return what
    taken = take_out(call.do, call.receiver, index)
    return what if taken is None or what.single == NONE else taken


def _index_of(items: Sequence[Values], sought: Values) -> int | None:
    """Where the first of them stands that is equal; None where that is not known."""
    for index, item in enumerate(items):
        if item == sought and item.single is not None:
            return index
        if not is_key(item.single) or not is_key(sought.single):
            return None
    return None


MODELS.method(ListOf, "__getitem__")(next_item)


@MODELS.method((ListOf, DictOf), "copy")
def _copy(call: Call[ListOf | DictOf]) -> Values:
    return singleton(copy_of(call.do, call.receiver, call.node))


@MODELS.method((ListOf, DictOf), "clear")
def _clear(call: Call[ListOf | DictOf]) -> Values:
    empty(call.do, call.receiver)
    return singleton(NONE)


@MODELS.method(ListOf, "sort", "reverse")
def _put_in_order(call: Call[ListOf]) -> Values:
    items = known_items(call.do, call.receiver)
    if items is not None and len(items) > 1:
        ordered = items[::-1] if call.name == "reverse" else in_order(items, call.keywords)
        set_items(call.do, call.receiver, ordered)
    return singleton(NONE)


@MODELS.callable("builtins.sorted")
def _sorted(call: Call) -> Values:
    items = known_items(call.do, call.first)
    if items is None or is_grown(call.do, call.first) or not all(isinstance(each.single, Const) for each in items):
        return singleton(Enumerated("sorted", call.args[:1]))
    return new_list(call.do, list(in_order(items, call.keywords)), call.node)


@MODELS.callable("builtins.reversed")
def _reversed(call: Call) -> Values:
    items = known_items(call.do, call.first)
    if items is None or is_grown(call.do, call.first):
        return singleton(Enumerated("reversed", call.args[:1]))
    return singleton(TupleOf(items[::-1]))


MODELS.method(ListOf)(lambda call: unknown(call, "a number"))


@MODELS.method(DictOf, "items", "keys", "values")
def _dict_view(call: Call[DictOf]) -> Values:
    more = call.do.state(call.receiver, ContainerState.more)
    rows = [_row(call.name, key, value) for key, value in possible_pairs(call.do, call.receiver)]
    # Entries under computed keys come on top of those that are known.
    if more is not None:
        rows.append(_row(call.name, singleton(key_of(call.do, call.receiver)), more))
    # Those that are there on some path only are met one by one as well: where they are absent, nobody asks for them.
    made = new_list(call.do, rows, call.node, exact=more is None)
    note_chosen_file(call.do, made.single, [call.receiver])
    return made


def _row(name: str, key: Values, value: Values) -> Values:
    return singleton(TupleOf((key, value))) if name == "items" else (key if name == "keys" else value)


@MODELS.method(DictOf, "__init__", "__setitem__", "__setattr__")
def _from_base(call: Call[DictOf]) -> Values:
    """What a class under `dict` has from there: `super().__init__(settings)`, `super().__setitem__(key, value)`."""
    if call.name == "__init__":
        given, cls = call.args, class_of(call.receiver)
        if given and cls is not None and "collections.defaultdict" in cls.library_bases:
            call.do.set_state(call.receiver, ContainerState.factory, given[0])
            given = given[1:]
        for values in (*given[:1], *call.rest):
            _take_all_in(call, values)
        for name, values in call.keywords.items():
            set_item(call.do, call.receiver, singleton(Const(name)), values, call.node)
    elif len(call.args) == 2 and call.name == "__setitem__":
        set_item(call.do, call.receiver, call.args[0], call.args[1], call.node)
    elif len(call.args) == 2 and (attribute := text_of(call.args[0].single)) is not None:
        call.do.set_own_attribute(call.receiver, attribute, call.args[1])
    return singleton(NONE)


@MODELS.callable("builtins.dict.__setitem__", "builtins.dict.__getitem__", "builtins.dict.get", "builtins.dict.update")
def _by_class(call: Call) -> Values:
    """`dict.__setitem__(self, key, value)`."""
    receiver, name = call.first, call.name.rpartition(".")[2]
    if not isinstance(receiver, DictOf):
        return NOT_ANSWERED
    given = call.arguments.without_first()
    model = MODELS.methods[DictOf, name]
    return model(Call(call.do, name, given, call.node, call.result_name, receiver))


@MODELS.method(DictOf, "get", "pop", "setdefault", "__getitem__", "__getattr__")
def _dict_get(call: Call[DictOf]) -> Values:
    key = call.first
    call.do.modules.complete(call.receiver, key)
    entries = pairs(call.do, call.receiver) or []
    for each, value in entries:
        if key is not None and each.single == key:
            if call.name == "pop":
                forget_entry(call.do, call.receiver, key)
            return value
    asked = call.name == "__getitem__"
    default = unknown(call, "no such key is known") if asked else call.arg(1, "default") or singleton(NONE)
    if call.name == "setdefault" and call.args:
        set_item(call.do, call.receiver, call.args[0], default, call.node)
    more = call.do.state(call.receiver, ContainerState.more)
    # Absent so far is not absent for good where unknown entries may have come.
    candidates = [more] if more is not None else []
    if not isinstance(key, Const):
        candidates += [value for _, value in entries]
    if may_have_more(call.do, call.receiver) and isinstance(key, Const) and not asked:
        return union([*candidates, _setting(call, key, default)])
    return union(candidates) if asked and candidates else union([*candidates, default])


def _setting(call: Call[DictOf], key: Const, default: Values) -> Values:
    """What another settings file may say of an entry, with what it is by default."""
    found = Unknown(Item(call.receiver, key), "chosen at the start", call.do.text(call.node, 40), config=True)
    left_out = default.single
    if isinstance(left_out, Const):
        call.do.set_state(found, SettingState.left_out, default)
        call.emit(SettingDefault, value=found, text=found.label, left_out=left_out)
        return singleton(call.do.launch.setting(found, call.place, left_out))
    return union([singleton(found), default])


@MODELS.method(DictOf, "update")
def _dict_update(call: Call[DictOf]) -> Values:
    for values in call.args[:1]:
        _take_all_in(call, values)
    for name, values in call.keywords.items():
        set_item(call.do, call.receiver, singleton(Const(name)), values, call.node)
    return singleton(NONE)


def _take_all_in(call: Call[DictOf], given: Values) -> None:
    for binding in given.restrict(call.do.path).bindings:
        _take_in(call, call.receiver, binding.value, binding.condition)


def _take_in(call: Call, receiver: DictOf, given: Value, when: Condition) -> None:
    """The entries of another dictionary, or of one that it may be, come on top of those that are there."""
    options = described_by(given)
    if isinstance(options, Namespace):
        _take_in_options(call, receiver, options, when)
        if call.do.flag(options, ObjectState.opened) is NO:
            return
    if not isinstance(given, DictOf):
        # `config.update(loaded)`: any setting may have been replaced.
        entries = entries_of(call.do, singleton(given), call.node)
        set_item(call.do, receiver, singleton(Unknown(EachOf(given), "a key")), entries, call.node)
        return
    note_chosen_file(call.do, receiver, [given])
    there = {key.single: values for key, values in possible_pairs(call.do, receiver)}
    for key, values in possible_pairs(call.do, given):
        before = there.get(key.single) if when.literals else None
        new = values.guarded_by(when)
        set_item(call.do, receiver, key, union([before, new]) if before is not None else new, call.node)
    more = call.do.state(given, ContainerState.more)
    if more is not None:
        set_item(call.do, receiver, singleton(key_of(call.do, given)), more, call.node)


def _take_in_options(call: Call, receiver: DictOf, options: Namespace, when: Condition) -> None:
    """`config.update(vars(args))`: each option under its name."""
    for name in items_held(call.do.state(options, SettingState.option_names)):
        text = str(constant_of(name.single))
        read_as = methodcaller("read_as", f"{receiver.label}[{text!r}]")
        held = call.do.attribute(options, text, call.node).guarded_by(when)
        set_item(call.do, receiver, name, held.map(read_as), call.node)


@MODELS.method(DictOf, "popitem")
def _pop_item(call: Call[DictOf]) -> Values:
    known = possible_pairs(call.do, call.receiver)
    held = [value for _, value in known]
    more = call.do.state(call.receiver, ContainerState.more)
    loosen(call.do, call.receiver)
    found = union([*held, more] if more is not None else held)
    return singleton(TupleOf((unknown(call, "a key"), found if held or more else unknown(call, "an entry"))))


MODELS.method(DictOf)(lambda call: unknown(call, "part of a dictionary"))


@MODELS.method(ProjectModule, "__getitem__")
def _named_in_module(call: Call[ProjectModule]) -> Values:
    """`vars(models)[args.arch]`."""
    # Imported late: few programs look a name up that a setting gives.
    from gpudoctor.lint.library.dynamic_import import member_named_by

    return member_named_by(call.do, call.receiver, call.first, call) or NOT_ANSWERED


@MODELS.method(ProjectModule, "items", "keys", "values")
def _members(call: Call[ProjectModule]) -> Values:
    """`vars(models).items()`: the classes and functions that it defines."""
    defined = call.do.modules.defined_in(call.receiver)
    entries: list[tuple[Values | None, Values]] = [
        (singleton(Const(choice_name(each))), singleton(each)) for each in defined
    ]
    table = new_dict(call.do, entries, call.node)
    asked = call.do.for_each_value(table, lambda each: call.do.attribute(each, call.name, call.node), call.node)
    return call.do.call(asked, call.arguments, call.node)


@MODELS.method(Library, "__getitem__")
def _module_by_name(call: Call[Library]) -> Values:
    """`sys.modules[__name__]`, which is imported already."""
    if call.receiver.name != "sys.modules":
        return NOT_ANSWERED
    return call.do.call(singleton(Library("importlib.import_module")), call.arguments, call.node)


@MODELS.method(Unknown, "__getitem__")
def _global(call: Call[Unknown]) -> Values:
    """`globals()[args.task]`."""
    if call.receiver.escaped_from != "builtins.globals":
        return NOT_ANSWERED
    from gpudoctor.lint.library.dynamic_import import member_named_by

    own, named = call.do.modules.own_module(), call.first
    if (text := text_of(named)) is not None:
        return call.do.attribute(own, text, call.node)
    return member_named_by(call.do, own, named, call) or NOT_ANSWERED
