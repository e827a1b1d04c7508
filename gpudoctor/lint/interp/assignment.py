"""Assignment: where values go, and the names that made objects get from it."""

from __future__ import annotations

import ast
from typing import TypeGuard

from gpudoctor.lint.domain.function import Instance
from gpudoctor.lint.domain.value import Anonymous, Unknown, Value, Values, shards_of, text_of
from gpudoctor.lint.interface.contents import delete_item, set_item
from gpudoctor.lint.interp import attributes, library
from gpudoctor.lint.interp.evaluator import Evaluator
from gpudoctor.lint.interp.execution_state import UNBOUND_SET
from gpudoctor.lint.interp.items import unpack
from gpudoctor.lint.interp.position import NONE_SET
from gpudoctor.record import replace

MAX_NAME = 1_000


def assign(m: Evaluator, target: ast.expr, values: Values) -> None:
    """Bind a target: a name, an attribute, an item, or several at once."""
    if m.unreachable:
        return
    match target:
        case ast.Name():
            m.bind(target.id, _called(values, target.id))
        case ast.Attribute():
            attributes.set_attribute(m, target, values)
        case ast.Subscript():
            _set_item(m, target, values)
        case ast.Starred():
            assign(m, target.value, values)
        case ast.Tuple() | ast.List():
            _unpack(m, target, values)


def _called(values: Values, name: str) -> Values:
    """What a loader yields is called by the name that it gets, which is how a reader knows it."""
    for binding in values.bindings:
        if binding.value.bound_to(name) is not binding.value:
            return values.map(lambda value: value.bound_to(name))
    return values


def _unpack(m: Evaluator, target: ast.Tuple | ast.List, values: Values) -> None:
    count = len(target.elts)
    star = next((i for i, each in enumerate(target.elts) if isinstance(each, ast.Starred)), None)
    columns = unpack(m, values, count, star, target)
    for each, column in zip(target.elts, columns, strict=True):
        assign(m, each, column)


def unbind(m: Evaluator, target: ast.expr) -> None:
    """`del name`, `del owner.name`, `del owner[index]`."""
    match target:
        case ast.Name():
            m.bind(target.id, UNBOUND_SET)
        case ast.Attribute():
            for owner in m.evaluate(target.value).restrict(m.path):
                held = m.own_attribute(owner, target.attr)
                # `del self.layers`: a list of layers that was only needed to make something of.
                if held is not None and held.all(lambda value: value.is_mutable):
                    m.set_own_attribute(owner, target.attr, NONE_SET)
        case ast.Subscript():
            index = m.evaluate(target.slice).restrict(m.path)
            for owner in m.evaluate(target.value).restrict(m.path):
                delete_item(m, owner, index.single)


def hint(m: Evaluator, target: ast.expr, value: ast.expr) -> None:
    """Calls whose result goes to a target name what they make after it."""
    if type(value) not in _NAMED_BY_TARGET:
        return
    function = m.frames[-1].function
    # What a library calls it, no reader knows.
    if function is not None and function.kind == "library":
        return
    match target, value:
        case ast.Name(), _:
            hint_as(m, target.id, value)
        case ast.Attribute(), _:
            hint_as(m, m.text(target, MAX_NAME), value)
        # `models[i] = DDP(models[i])`.
        case ast.Subscript(), _:
            hint_as(m, m.text(target, 30), value)
        case ast.Tuple(targets), ast.Tuple(parts) if len(targets) == len(parts):
            for one_target, one_value in zip(targets, parts, strict=True):
                hint(m, one_target, one_value)


_NAMED_BY_TARGET = frozenset({ast.Call, ast.IfExp, ast.List, ast.ListComp, ast.Tuple})


def hint_as(m: Evaluator, name: str, value: ast.expr) -> None:
    """Calls in an expression name what they make after `name`."""
    while True:
        match value:
            # `model = Net().to(device)`: the object is made at the start of the chain.
            case ast.Call(ast.Attribute(inner)):
                m.hints[id(value)] = name
                value = inner
            case ast.IfExp():
                hint_as(m, name, value.body)
                value = value.orelse
            case ast.Call() | ast.List() | ast.ListComp():
                m.hints[id(value)] = name
                return
            case _:
                return


def _set_item(m: Evaluator, target: ast.Subscript, values: Values) -> None:
    if isinstance(target.value, ast.Attribute) and target.value.attr == "__dict__":
        of, name = m.evaluate(target.value.value).single, text_of(m.evaluate(target.slice).single)
        # Under a name that is known it is an attribute like others.
        if name is not None and isinstance(of, Instance) and m.own_attribute(of, "__dict__") is None:
            m.set_own_attribute(of, name, values)
            return
    owner, index = m.evaluate(target.value), m.evaluate(target.slice)
    for value in owner.restrict(m.path):
        # `os.environ["X"] = …` is a write to the environment, not to a dictionary.
        if not library.set_library_item(m, value, index, values, target):
            set_item(m, value, index, values, target)
    # `scores[i] = loss.item()` of NumPy: what is made of the array is made of the same share of the data.
    shards = shards_of(values)
    if shards and isinstance(target.value, (ast.Name, ast.Attribute)):
        assign(m, target.value, owner.map(lambda each: _filled(each, shards) if _is_array(each) else each))


def _filled(array: Unknown, shards: frozenset[Value]) -> Unknown:
    """The array with something in it that was computed from these shares of the data."""
    if shards <= array.shards:
        return array
    return replace(array, term=Anonymous("filled", array), shards=array.shards | shards)


def _is_array(value: Value) -> TypeGuard[Unknown]:
    return isinstance(value, Unknown) and value.escaped_from.startswith("numpy.")
