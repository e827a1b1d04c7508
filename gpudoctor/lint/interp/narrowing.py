"""Narrowing: what a test says about the values that it asks. A branch keeps those for which it can come out so.

What an `if` joined, or a loop, is held without a condition that tells its values apart. Once a test does, each value
is kept under the answer that it gives: then every branch reads the right ones, whatever asks, and so does what comes
behind an early exit.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Iterator
from itertools import islice

from gpudoctor.lint.domain.abstract_state import ContainerState
from gpudoctor.lint.domain.arguments import Arguments
from gpudoctor.lint.domain.constant_folding import compared
from gpudoctor.lint.domain.container import DictOf, TupleOf
from gpudoctor.lint.domain.function import Class, Function, Library, library_name_of
from gpudoctor.lint.domain.symbols import Widened
from gpudoctor.lint.domain.value import NONE, Const, Truth, Unknown, Value, Values, single_of
from gpudoctor.lint.flow.condition import ALWAYS, Condition, Literal
from gpudoctor.lint.flow.valueset import Binding, ValueSet
from gpudoctor.lint.interface.contents import ancestry
from gpudoctor.lint.interface.hooks import HOOKS
from gpudoctor.lint.interp.evaluator import Evaluator
from gpudoctor.lint.interp.limits import MAX_TOGETHER
from gpudoctor.lint.interp.widening import all_as_one, most
from gpudoctor.record import dataclass, replace

_OPERATORS = (ast.Is, ast.IsNot, ast.Eq, ast.NotEq)
Ask = Callable[[Value], "bool | None"]
"""What a test says of one value alone; None where that is open."""
Parts = list[tuple[Binding[Value], "bool | None"]]


@dataclass(frozen=True)
class Held:
    """Where what a test asks is kept, and what is kept there."""

    key: Hashable
    values: Values
    entries: TupleOf | None = None
    position: int = 0
    """Of an entry of a dictionary: all entries, and which one it is."""


def tell_apart(m: Evaluator, test: ast.expr, answer: Literal) -> bool | Literal:
    """The answer, with each value of what is asked kept under the one that it gives; decided where all give one."""
    test, holds = bare(test)
    held = _held(m, subject_of(test))
    if held is not None and (below := _some_class_below(m, test, held.values)) is not None:
        literal = answer if holds else answer.negated()
        kept = [each for each in held.values.bindings if not each.condition.excludes(m.path)]
        told = Binding(below, m.path.conjoined_with(literal))
        _keep(m, held, ValueSet([told, *(_under(each, literal.negated()) for each in kept)]))
        return answer
    if held is None or not _are_several(held.values):
        return answer
    parts = _answers(m, test, held)
    here = {said for each, said in parts if not each.condition.excludes(m.path)}
    if here in ({True}, {False}):
        return (True in here) is holds
    if len({said for _, said in parts}) < 2:
        return answer
    literal = answer if holds else answer.negated()
    for known, part in ((True, literal), (False, literal.negated())):
        parts = [(_under(each, part) if said is known else each, said) for each, said in parts]
    _keep(m, held, _few(held.key, parts))
    return answer


def as_told(m: Evaluator, values: Values, node: ast.expr) -> Values:
    """The values as tests on the way here have told of what kind they are."""
    for binding in values.bindings:
        # Asked of each name and attribute: only of an unknown value and the like a test tells anything.
        if binding.value.is_tested and ((path := m.path).kinds or binding.condition.kinds):
            where = m.text(node) if isinstance(node, (ast.Attribute, ast.Subscript)) else ""
            return ValueSet([_told(each, path.and_(each.condition), where) for each in values.bindings])
    return values


def _told(binding: Binding[Value], path: Condition, where: str) -> Binding[Value]:
    value = binding.value
    return Binding(value.as_plain(), binding.condition) if value.is_plain(path.kinds, where) else binding


def bare(test: ast.expr) -> tuple[ast.expr, bool]:
    """A test without `not`, and whether it holds where the whole does."""
    holds = True
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, holds = test.operand, not holds
    return test, holds


def subject_of(test: ast.expr) -> ast.expr | None:
    """What is asked: `model` of `model`, `model is None`, `isinstance(model, DDP)` and `mode == "fit"`."""
    match test:
        case ast.Name() | ast.Attribute() | ast.Subscript():
            return test
        case ast.Compare(left, [op], [ast.Constant() | ast.Name()]) if isinstance(op, _OPERATORS):
            return left
        case ast.Call(ast.Name() | ast.Attribute(ast.Name()), [first, *rest], []):
            plain = not any(isinstance(each, ast.Starred) for each in (first, *rest))
            return first if plain else None
    return None


def held_by(m: Evaluator, test: ast.expr) -> Values | None:
    """What is kept where a test asks, if that is one place."""
    held = _held(m, subject_of(bare(test)[0]))
    return held.values if held is not None else None


def _held(m: Evaluator, node: ast.expr | None) -> Held | None:
    """Only what is found without a call: a property would run again."""
    if isinstance(node, ast.Subscript):
        return _entry(m, node)
    key = _key(m, node)
    values = m.store.get(key) if key is not None else None
    return Held(key, values) if values is not None else None


def _key(m: Evaluator, node: ast.expr | None) -> Hashable:
    match node:
        case ast.Name(name):
            # What other functions have bound is theirs.
            return (m.frame.scope, name) if m.store.get((m.frame.scope, name)) is not None else None
        case ast.Attribute(of, name):
            owner = _only(m, of)
            # Another file's names, and what all objects of a class share, are not told apart for all of them.
            return (owner, name) if owner is not None and owner.keeper is owner else None
    return None


def _only(m: Evaluator, node: ast.expr) -> Value | None:
    held = _held(m, node)
    return held.values.restrict(m.path).single if held is not None else None


def _entry(m: Evaluator, node: ast.Subscript) -> Held | None:
    owner = _only(m, node.value)
    if not isinstance(owner, DictOf) or not isinstance(node.slice, ast.Constant):
        return None
    key = owner, ContainerState.entries
    entries = single_of(m.store.get(key))
    if not isinstance(entries, TupleOf):
        return None
    for index in range(0, len(entries.items), 2):
        if entries.items[index].single == Const(node.slice.value):
            return Held(key, entries.items[index + 1], entries, index + 1)
    return None


def _are_several(values: Values) -> bool:
    if len(values.bindings) == 1:
        return isinstance(values.bindings[0].value.term, Widened)
    return len(values.bindings) <= MAX_TOGETHER


def _each(values: Values, when: Condition = ALWAYS) -> Iterator[Binding[Value]]:
    """One by one, also those that were too many to be kept so."""
    for binding in values.bindings:
        value, under = binding.value, binding.condition.and_(when)
        if isinstance(value.term, Widened):
            yield from _each(value.term.values, under)
        else:
            yield Binding(value, under)


def _some_class_below(m: Evaluator, test: ast.expr, values: Values) -> Value | None:
    """`assert issubclass(found, Trainer)`: of a class that was looked up by a name it is known what it has from there,
    where that is a class that can do without those below."""
    if not isinstance(test, ast.Call) or len(test.args) != 2:
        return None
    if not values.restrict(m.path).are(Unknown):
        return None
    with m.events_suppressed():
        asks, above = m.evaluate(test.func).single, m.evaluate(test.args[1]).single
    if asks != Library("builtins.issubclass") or not isinstance(above, Class) or _is_abstract(m, above):
        return None
    site = ("below", above.identity, m.place(test))
    return replace(above, identity=site, scope=site, bases=(above,))


def _is_abstract(m: Evaluator, cls: Class) -> bool:
    """It leaves a method to the classes below: one that is marked so, or does nothing but raise an error."""
    found: dict[str, Values | None] = {}
    for each in ancestry(cls):
        for name in each.methods:
            found.setdefault(name, m.own_attribute(each.keeper, name))
    return any(values is not None and values.any(_is_left_open) for values in found.values())


def _is_left_open(method: Value) -> bool:
    if not isinstance(method, Function) or isinstance(method.node, ast.Lambda):
        return False
    body = method.node.body
    does = body[1:] if ast.get_docstring(method.node, clean=False) is not None else body
    return "abc.abstractmethod" in method.decorators or (bool(does) and isinstance(does[0], ast.Raise))


def _answers(m: Evaluator, test: ast.expr, held: Held) -> Parts:
    # Of loops in loops each holds what the one before held: all of it would be more than there is room for.
    each = list(islice(_each(held.values), MAX_TOGETHER + 1))
    if len(each) > MAX_TOGETHER:
        return []
    with m.events_suppressed():
        ask = _asker(m, test)
        return [(binding, ask(binding.value) if ask is not None else None) for binding in each]


def _asker(m: Evaluator, test: ast.expr) -> Ask | None:
    if isinstance(test, ast.Compare):
        op, other = test.ops[0], test.comparators[0]
        with_ = m.evaluate(other).restrict(m.path).single
        return (lambda value: _compared(m, op, value, with_, test)) if isinstance(with_, Const) else None
    if not isinstance(test, ast.Call):
        return lambda value: None if value.is_mutable else _said(m, ValueSet.of(value), value, test)
    function, rest = m.evaluate(test.func), test.args[1:]
    if library_name_of(function.single) not in HOOKS.tells_kind:
        return None
    others = [m.evaluate(each) for each in rest]
    return lambda value: _said(m, m.call(function, Arguments((ValueSet.of(value), *others)), test), value, test)


def _said(m: Evaluator, answers: Values, value: Value, test: ast.expr) -> bool | None:
    # What is not known, and what other tests decide, is said of the path and not of the value.
    if isinstance(value, (Truth, Unknown)):
        return None
    found = m.truth(answers, test)
    return found if isinstance(found, bool) else None


def _compared(m: Evaluator, op: ast.cmpop, value: Value, other: Const, test: ast.expr) -> bool | None:
    same: bool | None
    if other == NONE:
        # What a loader yields may be None as well.
        same = None if value.is_open or isinstance(value, Truth) else value == NONE
    else:
        same = compared(ast.Eq(), value, other) if isinstance(value, Const) else None
    return same if same is None or isinstance(op, (ast.Is, ast.Eq)) else not same


def _under(binding: Binding[Value], literal: Literal) -> Binding[Value]:
    return Binding(binding.value, binding.condition.conjoined_with(literal))


def _few(key: Hashable, parts: Parts) -> Values:
    """As many values as may be kept: of too many, those are joined that give one answer."""
    groups = [[each for each, said in parts if said is answer] for answer in (True, False, None)]
    groups = sorted(filter(None, groups), key=len)
    while sum(map(len, groups)) > most(ValueSet([each for group in groups for each in group])) and len(groups[-1]) > 1:
        last = groups.pop()
        common = last[0].condition
        for each in last[1:]:
            common = common.intersection(each.condition)
        alone = ValueSet([Binding(each.value, each.condition.difference(common)) for each in last])
        one = all_as_one((key, common), alone)
        groups = sorted([*groups, [Binding(one, common)]], key=len)
    return ValueSet([each for group in groups for each in group])


def _keep(m: Evaluator, held: Held, values: Values) -> None:
    if held.entries is not None:
        items = list(held.entries.items)
        items[held.position] = values
        values = ValueSet.of(TupleOf(tuple(items)))
    # Nothing has changed for the program: this is no write of the function that asks.
    m.store.set(held.key, values, m.age(held.key))
