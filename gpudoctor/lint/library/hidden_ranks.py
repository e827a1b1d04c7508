"""Ranks that lie somewhere in what is read as a setting: put there under a name that is not known, or by code that was
not read. What is asked of it may be the rank, and tells ranks apart, or none."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterable, Iterator

from gpudoctor.lint.domain.abstract_state import NO, SettingState
from gpudoctor.lint.domain.container import DictOf, ListOf, TupleOf, items_held
from gpudoctor.lint.domain.function import Instance, Namespace
from gpudoctor.lint.domain.symbols import CallResult
from gpudoctor.lint.domain.value import Anonymous, Const, Text, Unknown, Value, Values, text_of
from gpudoctor.lint.flow.condition import MAYBE_BY_RANK, Divergence
from gpudoctor.lint.flow.valueset import ValueSet
from gpudoctor.lint.interface.contents import known_items, possible_pairs, put_entries
from gpudoctor.lint.interface.hooks import HOOKS, told
from gpudoctor.lint.interface.library_call import LibraryContext, singleton

DEPTH = 4
"""So many levels deep what holds others is looked into."""


@told(HOOKS.written_under_any_name)
def _hide(do: LibraryContext, owner: Value, key: Values, new: Values, node: ast.AST) -> None:
    """`config[name] = rank`, and `reduce(getitem, path, config)[name] = rank`, which is done to a part of `config`."""
    # `config.update(vars(args))` is asked for its options by their names.
    if new.any(_are_attributes) or not hide_rank(do, owner, (new,)):
        return
    for each in _made_of(owner):
        _mark(do, each)
    if isinstance(owner, DictOf):
        # It may have taken the place of a default.
        perhaps = singleton(Unknown(Anonymous("perhaps", new), "one of several", "", MAYBE_BY_RANK))
        known = possible_pairs(do, owner)
        plain = {name: perhaps for name, held in known if held.are(Const)}
        put_entries(do, owner, plain)


def _are_attributes(value: Value) -> bool:
    return isinstance(value.term, CallResult) and value.term.function == "builtins.vars"


def hide_rank(do: LibraryContext, owner: Value, given: Iterable[Values]) -> bool:
    """These were put into it, nobody knows under which name: where the rank is among them, it may be whatever is read
    there. Whether it is."""
    found = any(holds_rank(do, values) for values in given)
    if found:
        _mark(do, owner)
    return found


def _mark(do: LibraryContext, value: Value) -> None:
    if not isinstance(value, (Const, Text)):
        do.set_flag(value, SettingState.hides_rank)


def holds_rank(do: LibraryContext, values: Values) -> bool:
    """One of these comes from the rank, or holds what does."""
    seen: set[Value] = set()
    todo = [*values]
    for _ in range(DEPTH):
        todo = [each for each in dict.fromkeys(todo) if each not in seen]
        if any(each.divergence & Divergence.RANK or do.flag(each, SettingState.hides_rank) is not NO for each in todo):
            return True
        seen.update(todo)
        todo = [each for value in todo for held in _held_by(do, value) for each in held]
    return False


def _held_by(do: LibraryContext, value: Value) -> list[Values]:
    """What is known to be in a container or an object."""
    match value:
        case DictOf():
            return [item for _, item in possible_pairs(do, value)]
        case TupleOf() | ListOf():
            return list(known_items(do, value) or ())
        case Instance() | Namespace():
            held = [do.own_attribute(value, name) for name in do.names_of(value)]
            if isinstance(value, Namespace):
                options = [text_of(each.single) for each in items_held(do.state(value, SettingState.option_names))]
                held += [do.entry(value, SettingState.declared, each) for each in options if each is not None]
            return [each for each in held if each is not None]
    return []


def _made_of(value: Value) -> Iterator[Value]:
    """The values that a term speaks of."""
    todo: list[Hashable] = [*value.term.parts] if value.term is not None else []
    for _ in range(DEPTH):
        inner: list[Hashable] = []
        for each in todo:
            match each:
                case tuple() | ValueSet():
                    inner += each
                case Value():
                    yield each
                    inner += each.term.parts if each.term is not None else ()
        todo = inner
