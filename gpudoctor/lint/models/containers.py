"""Lists, tuples, sets and dictionaries: what makes them, and their methods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.lint.flow.valueset import union
from gpudoctor.lint.models.api import MODELS, Call, Interpreter, flat, one
from gpudoctor.lint.models.builtin import unknown
from gpudoctor.lint.models.tensors import surely_has_graph
from gpudoctor.lint.values.base import NONE, TRUE, Const, Unknown, Value, Values
from gpudoctor.lint.values.container import DictOf, ListOf, Range, TupleOf
from gpudoctor.lint.values.event import Accumulated
from gpudoctor.lint.values.optim import Parameters
from gpudoctor.lint.values.tensor import Tensor

if TYPE_CHECKING:
    from gpudoctor.lint.flow.condition import Condition


@MODELS.callable("builtins.list", "builtins.tuple", "builtins.set", "builtins.frozenset")
def _sequence(call: Call) -> Values:
    if not call.args:
        return call.do.new_list([], call.node)
    given = call.args[0].only
    # `list(model.parameters())` keeps its owners for the optimizer; the generator itself is used up once.
    if isinstance(given, Parameters):
        return one(given)
    # `range(rank, n, world_size)`: indices that differ between ranks, a hand-made shard.
    if isinstance(given, Range) and given.depends:
        return call.do.new_list([unknown(call, "a number", [given])], call.node, exact=False)
    items = call.do.known_items(given) if given is not None else None
    if items is not None and call.name.endswith("tuple"):
        return one(TupleOf(items))
    known = list(items) if items is not None else [call.do.items_of(call.args[0], call.node)]
    made = call.do.new_list(known, call.node, exact=items is not None)
    return as_set(call.do, made, known) if call.name.endswith("set") else made


def as_set(do: Interpreter, made: Values, items: list[Values]) -> Values:
    """The list stands for a set. Texts lie in it in an order that each process chooses for itself, by its hash seed."""
    if made.only is not None and any(
        isinstance(value, Const) and isinstance(value.value, str) for value in flat_of(items)
    ):
        do.set_fact(made.only, "unordered", one(TRUE))
    return made


def flat_of(items: list[Values]) -> list[Value]:
    """All that may be among some items."""
    return [value for values in items for value in values]


@MODELS.callable("builtins.dict", "collections.OrderedDict", "collections.defaultdict")
def _dict(call: Call) -> Values:
    entries: list[tuple[Values | None, Values]] = [
        # The factory that `defaultdict` takes first is no dictionary.
        (None, given)
        for given in call.args
        if isinstance(given.only, DictOf)
    ]
    entries += [(one(Const(name)), values) for name, values in call.keywords.items()]
    made = call.do.new_dict(entries, call.node, exact=not call.open_ended)
    factory = call.arg(0, "default_factory") if call.name.endswith("defaultdict") else None
    if factory is not None and made.only is not None:
        call.do.set_fact(made.only, "factory", factory)
    return made


@MODELS.method(TupleOf)
def _tuple_method(call: Call) -> Values:
    return unknown(call, "a count")


@MODELS.method(ListOf, "append", "add", "insert")
def _append(call: Call) -> Values:
    assert call.receiver is not None
    given = call.args[-1:] if call.args else ()
    call.do.add_items(call.receiver, list(given))
    for value in [value for values in given for value in values] if call.name == "append" else ():
        # `losses.append(loss)` keeps every graph alive; memory grows each iteration.
        if isinstance(value, Tensor) and value.graph is True and surely_has_graph(call.do, value):
            kept = [each for each in flat(call.do, [call.receiver]) if isinstance(each, Tensor) and each.graph is True]
            held = frozenset().union(*(each.forwards for each in (value, *kept)))
            call.emit(Accumulated, tensor=value, into=getattr(call.receiver, "label", "a list"), held=held)
    return one(NONE)


@MODELS.method(ListOf, "extend", "update")
def _extend(call: Call) -> Values:
    assert call.receiver is not None
    known = call.do.known_items(call.args[0].only) if call.args and call.args[0].only is not None else None
    if known is not None:
        call.do.add_items(call.receiver, list(known))
    elif call.args:
        call.do.add_items(call.receiver, [call.do.items_of(call.args[0], call.node)], exact=False)
    # What each rank has chosen for itself stays so among others.
    for other in call.args[0] if call.args else ():
        chosen = call.do.fact(other, "by rank") if isinstance(other, ListOf) else None
        if chosen is not None and TRUE in tuple(chosen):
            call.do.set_fact(call.receiver, "by rank", one(TRUE))
    return one(NONE)


@MODELS.method(ListOf, "pop", "copy", "__getitem__")
def _pop(call: Call) -> Values:
    assert call.receiver is not None
    return one(call.receiver) if call.name == "copy" else call.do.items_of(one(call.receiver), call.node)


@MODELS.method(ListOf)
def _list_method(call: Call) -> Values:
    return one(NONE) if call.name in ("sort", "reverse", "clear", "remove") else unknown(call, "a number")


@MODELS.method(DictOf, "items", "keys", "values")
def _dict_view(call: Call) -> Values:
    assert isinstance(call.receiver, DictOf)
    more = call.do.fact(call.receiver, "more")
    rows = [_row(call.name, key, value) for key, value in call.do.possible_pairs(call.receiver)]
    # Entries under computed keys come on top of those that are known.
    if more is not None:
        rows.append(_row(call.name, one(Unknown(("key of", call.receiver), "a key")), more))
    # Those that are there on some path only are met one by one as well: where they are absent, nobody asks for them.
    return call.do.new_list(rows, call.node, exact=more is None)


def _row(name: str, key: Values, value: Values) -> Values:
    return one(TupleOf((key, value))) if name == "items" else (key if name == "keys" else value)


@MODELS.method(DictOf, "get", "pop", "setdefault")
def _dict_get(call: Call) -> Values:
    assert isinstance(call.receiver, DictOf)
    key = call.args[0].only if call.args else None
    entries = call.do.pairs(call.receiver) or []
    for each, value in entries:
        if key is not None and each.only == key:
            # A popped key must not be found again when the rest is passed on as `**kwargs`.
            if call.name == "pop":
                _forget(call.do, call.receiver, each)
            return value
    default = call.arg(1, "default") or one(NONE)
    if call.name == "setdefault" and call.args:
        call.do.put_item(call.receiver, call.args[0], default, call.node)
    more = call.do.fact(call.receiver, "more")
    # Absent so far is not absent for good where unknown entries may have come.
    candidates = [more] if more is not None else []
    if not isinstance(key, Const):
        candidates += [value for _, value in entries]
    return union([*candidates, default])


def _forget(do: Interpreter, value: DictOf, key: Values) -> None:
    kept = [pair for pair in do.pairs(value) or [] if pair[0] != key]
    do.set_fact(value, "entries", one(TupleOf(tuple(each for pair in kept for each in pair))))


@MODELS.method(DictOf, "update")
def _dict_update(call: Call) -> Values:
    assert isinstance(call.receiver, DictOf)
    for binding in call.args[0].given(call.do.path).bindings if call.args else ():
        _take_in(call, call.receiver, binding.value, binding.when)
    for name, values in call.keywords.items():
        call.do.put_item(call.receiver, one(Const(name)), values, call.node)
    return one(NONE)


def _take_in(call: Call, receiver: DictOf, given: Value, when: Condition) -> None:
    """The entries of another dictionary, or of one that it may be, come on top of those that are there."""
    if not isinstance(given, DictOf):
        # `config.update(loaded)`: any setting may have been replaced.
        call.do.put_item(receiver, one(given), one(Unknown(("updated", given), "entries of something")), call.node)
        return
    there = {key.only: values for key, values in call.do.possible_pairs(receiver)}
    for key, values in call.do.possible_pairs(given):
        before = there.get(key.only) if when.literals else None
        new = values.under(when)
        call.do.put_item(receiver, key, union([before, new]) if before is not None else new, call.node)
    more = call.do.fact(given, "more")
    if more is not None:
        call.do.put_item(receiver, one(Unknown(("key of", given), "a key")), more, call.node)


@MODELS.method(DictOf)
def _dict_method(call: Call) -> Values:
    return one(call.receiver) if call.name == "copy" and call.receiver else unknown(call, "part of a dictionary")
