"""Truth: what a value says when an `if` asks it, and the tests that `and` and `or` build."""

from __future__ import annotations

import ast
from collections.abc import Callable

from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.container import DictOf, Enumerated, ListOf
from gpudoctor.lint.domain.function import Library, Method
from gpudoctor.lint.domain.rank import Rank
from gpudoctor.lint.domain.symbols import AllOf, AnyOf, Attribute, Compares, IsTrue, OneOf
from gpudoctor.lint.domain.tensor import TensorOrigin
from gpudoctor.lint.domain.value import (
    FALSE,
    NONE,
    TRUE,
    Anonymous,
    Const,
    Truth,
    Unknown,
    Value,
    Values,
    singleton,
)
from gpudoctor.lint.flow.condition import ALWAYS, Atom, Condition, Divergence, Equality, Inequality, Literal
from gpudoctor.lint.flow.store import Delta
from gpudoctor.lint.flow.valueset import union
from gpudoctor.lint.interface.contents import known_items, known_keys, may_have_more, pairs, possible_pairs
from gpudoctor.lint.interp.evaluator import Evaluator
from gpudoctor.lint.interp.narrowing import held_by, tell_apart
from gpudoctor.lint.interp.operators import (
    bound_in,
    compare,
    conjunction,
    contains,
    counted_by,
    disjunction,
    negate,
    open_test,
)
from gpudoctor.lint.interp.position import PathExit
from gpudoctor.lint.interp.special_methods import compared_by_class
from gpudoctor.lint.library.library_names import is_harmless
from gpudoctor.lint.library.register import HOOKS
from gpudoctor.record import replace

Answer = tuple[Condition, "bool | Literal"]
"""What one of several values says, and the condition under which it is the one."""


def ask(m: Evaluator, node: ast.expr) -> bool | Literal:
    """What a test comes to. Here `a or b` is a question about two answers; elsewhere it is one of two values."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        answer = ask(m, node.operand)
        return answer.negated() if isinstance(answer, Literal) else not answer
    if isinstance(node, ast.BoolOp):
        return _ask_each(m, node)
    return _asked(m, node, m.evaluate(node))


def _asked(m: Evaluator, node: ast.expr, values: Values) -> bool | Literal:
    """What a test comes to, whose values are told apart by it."""
    answer = truth(m, values, node)
    if not isinstance(answer, Literal):
        return answer
    key = answer.atom.key
    asked = held_by(m, node) if isinstance(node, (ast.Call, ast.Compare)) and isinstance(key, OneOf) else None
    if asked is not None and isinstance(key, OneOf) and key.asked is None and _are_answers(key.values):
        # Of two names that are each asked whether they are None, one may be and the other not. Under which tests it
        # holds a value is said in more words where paths have met.
        answer = Literal(replace(answer.atom, key=OneOf(key.values, (frozenset(asked), m.text(node)))), answer.holds)
        decided = _decide(m, answer)
        if isinstance(decided, bool):
            return decided
    return tell_apart(m, node, answer)


def _ask_each(m: Evaluator, node: ast.BoolOp) -> bool | Literal:
    """Each operand where those before it leave the answer open."""
    stop = isinstance(node.op, ast.Or)
    parts: list[Literal] = []
    left: list[Condition] = []
    answer: bool | Literal = not stop
    with m.on_path(m.path):
        for operand in node.values:
            with m.store.delta() as done:
                answer = ask(m, operand)
            _note_done(m, done, left)
            # `use_it and config.lacks_it`: whoever gets on was not asked the second.
            if m.unreachable and parts:
                m.unreachable, answer = False, stop
            if answer is stop or m.unreachable:
                break
            if isinstance(answer, Literal):
                parts.append(answer)
                left.append(m.path.conjoined_with(answer if stop else answer.negated()))
                # In `is_dist() and rank == 0` the rank is asked only where there is a group.
                m.path = m.path.conjoined_with(answer.negated() if stop else answer)
    if answer is stop or not parts:
        return answer is True
    if len(parts) == 1:
        return parts[0]
    build = disjunction if stop else conjunction
    return _decide(m, build(parts, m.text(node), m.place(node)).literal)


def _note_done(m: Evaluator, done: Delta[Value], left: list[Condition]) -> None:
    """What an operand has done, which those who have `left` before have not: in `rank == 0 and self.counts()` rank 0
    alone has counted."""
    if not left:
        m.store.apply(done)
    # Who has met an error there does not go on.
    elif done and not m.unreachable:
        inside = m.path
        with m.on_path(inside):
            m.join(inside, [PathExit(done, inside), *(PathExit({}, each) for each in left)])


def truth(m: Evaluator, values: Values, node: ast.AST) -> bool | Literal:
    """What a test of these values comes to on this path: decided, or open."""
    here = _whichever(m, values.restrict(m.path))
    if here.single is not None:
        return _decide(m, _truth_of(m, here.single, node))
    or_none = any([b.value == NONE for b in here.bindings])  # noqa: C419, a list is quicker here
    answers = [
        (b.condition, (or_none and _is_there(b.value)) or _decide(m, _truth_of(m, b.value, node)))
        for b in here.bindings
    ]
    if not answers:
        return False
    first = answers[0][1]
    # Whatever it holds, it says the same.
    if all(answer == first for _, answer in answers):
        return first
    answers = [(when, _decide_under(when, answer)) for when, answer in answers]
    if all(answer is answers[0][1] for _, answer in answers):
        return answers[0][1]
    if all(isinstance(answer, bool) for _, answer in answers):
        # `is_main = True; if dist: is_main = rank == 0`: the flag stands for the test.
        told = _told_apart(answers)
        if told is not None:
            return told
    composed = _composed(m, here, answers, node)
    return _one_of(m, here, answers, node) if composed is None else composed


def _whichever(m: Evaluator, values: Values) -> Values:
    """One for all, where a collective has made them the same: which of them it was says nothing any more."""
    if len(values.bindings) > 1 and all(_is_agreed(m, value) for value in values):
        return singleton(values.bindings[0].value)
    return values


def _is_agreed(m: Evaluator, value: Value) -> bool:
    ask = HOOKS.agreed.get(type(value))
    return ask is not None and ask(m, value)


def _decide_under(when: Condition, answer: bool | Literal) -> bool | Literal:
    """The answer of a value that is there only under a condition, which may say it already."""
    known = when.answer(answer) if isinstance(answer, Literal) else None
    return answer if known is None else known


def _composed(m: Evaluator, values: Values, answers: list[Answer], node: ast.AST) -> bool | Literal | None:
    """`a or b`, `a and b` that were kept as a value: decided where the one holds, open where it does not."""
    for decided in (True, False):
        sure = [when for when, answer in answers if answer is decided]
        left = [(when, answer) for when, answer in answers if answer is not decided]
        literal = _in_all(sure, [when for when, _ in left])
        if literal is None:
            continue
        first = left[0][1]
        alike = isinstance(first, Literal) and all(answer == first for _, answer in left)
        rest = first if alike else _one_of(m, values.restrict(ALWAYS.conjoined_with(literal.negated())), left, node)
        assert isinstance(rest, Literal)
        build = disjunction if decided else conjunction
        parts = [literal if decided else literal.negated(), rest]
        return _decide(m, build(parts, m.text(node), m.place(node)).literal)
    return None


def _one_of(m: Evaluator, values: Values, answers: list[Answer], node: ast.AST) -> Literal:
    """A test that no literal stands for: which of the values it is decides, or what that value says."""
    divergence, switch = Divergence.RANK if _ranks_disagree(answers) else Divergence.NONE, True
    for when, answer in answers:
        divergence |= when.divergence & ~Divergence.RANK
        literals = [*when, answer] if isinstance(answer, Literal) else [*when]
        switch = switch and all(literal.atom.switch for literal in literals)
        if isinstance(answer, Literal):
            divergence |= answer.atom.divergence
    # What ranks may disagree about is never taken for a setting.
    switch = switch and divergence is Divergence.NONE
    return Literal(Atom(OneOf(values), divergence, m.text(node), m.place(node), switch=switch), True)


def _ranks_disagree(answers: list[Answer]) -> bool:
    """It is true on some ranks and false on others. Values that differ are not enough: the answer may be the same."""
    true = [when for when, answer in answers if answer is True]
    false = [when for when, answer in answers if answer is False]
    return any(
        Literal(atom, not holds) in other.literals
        for when in true
        for atom, holds in when.depending_on(Divergence.RANK)
        for other in false
    )


def _told_apart(answers: list[Answer]) -> Literal | None:
    """Values, true and false, that one literal tells apart: the test is that literal."""
    return _in_all(
        [when for when, answer in answers if answer is True], [when for when, answer in answers if answer is False]
    )


def _in_all(some: list[Condition], others: list[Condition]) -> Literal | None:
    """A literal that holds in all of some conditions, and in none of the others."""
    for literal in some[0] if some else ():
        if all(literal in when.literals for when in some) and all(
            literal.negated() in when.literals for when in others
        ):
            return literal
    return None


def _is_there(value: Value) -> bool:
    """`if extra:`, which is None or has come out of a model: whether it is there is asked, and not for its number."""
    return value.origin in _NOT_MADE_HERE and value.extent is None


_NOT_MADE_HERE = (TensorOrigin.OUTPUT, TensorOrigin.BATCH)


def _decide(m: Evaluator, answer: bool | Literal) -> bool | Literal:
    if isinstance(answer, bool):
        return answer
    m.asked.add(answer.atom.key)
    if m.notes is not None:
        m.notes.asked.append(answer)
    counted = m.counted(answer.atom.key)
    if counted is not None:
        return counted is answer.holds
    known = m.path.answer(answer)
    if known is None and m.settled:
        known = m.settled.leaves_open(answer, m.path)
    if known is not None:
        return known
    # Learnt in an earlier run: the switch that turns distribution on.
    assumed = m.assumptions.get(answer.atom.key)
    if assumed is not None:
        return assumed is answer.holds
    for literal in (answer, answer.negated()):
        if _is_ruled_out(m, literal):
            return literal is not answer
    match answer.atom.key:
        case Compares("==", Value() as value, Const(nothing)) if not nothing and _holds(m, IsTrue(value)):
            return not answer.holds
        case IsTrue(value):
            return _counted(m, answer, Inequality(value, "==", 0))
    if answer.atom.bound is not None:
        return _compared(m, answer, answer.atom.bound)
    if answer.atom.every or answer.atom.none:
        return _decide_parts(m, answer)
    return answer


def _is_ruled_out(m: Evaluator, literal: Literal) -> bool:
    """With it, a switch made of several tests could not be what was learnt: where one of `ddp` and `fsdp` is on."""
    for key, holds in m.assumptions.items():
        if isinstance(key, AnyOf if holds else AllOf):
            wanted = not holds
            if all(_given(m, literal, part) is wanted for part in key.literals):
                return True
    return False


def _given(m: Evaluator, literal: Literal, part: Literal) -> bool | None:
    """What a test comes to where the literal holds, as far as is known."""
    if part.atom == literal.atom:
        return part.holds is literal.holds
    bound, other = literal.atom.bound, part.atom.bound
    told = bound.settles(literal.holds, other) if bound is not None and other is not None else None
    told = m.assumptions.get(part.atom.key) if told is None else told
    return None if told is None else told is part.holds


def _compared(m: Evaluator, answer: Literal, bound: Inequality | Equality) -> bool | Literal:
    """A comparison with a number or a text, of which a switch that was learnt may know: behind `gpus > 1`, `gpus == 1`
    fails."""
    for key, holds in m.assumptions.items():
        known = bound_in(key)
        told = known.settles(holds, bound) if known is not None else None
        if told is not None:
            return told is answer.holds
    return answer


def _holds(m: Evaluator, key: IsTrue) -> bool:
    """It is known to be something: then it is neither None nor False."""
    return m.path.answer(Literal(Atom(key), True)) is True or m.assumptions.get(key) is True


def _counted(m: Evaluator, answer: Literal, nothing: Inequality) -> bool | Literal:
    """`if gpus:` behind `gpus > 1`."""
    for each in m.path.bounded:
        told = each.atom.bound.settles(each.holds, nothing) if each.atom.bound is not None else None
        if told is not None:
            return told is not answer.holds
    known = _compared(m, answer.negated(), nothing) if m.assumptions else answer
    return known if isinstance(known, bool) else answer


def _decide_parts(m: Evaluator, answer: Literal) -> bool | Literal:
    """A conjunction or disjunction of which some parts are known by now."""
    atom = answer.atom
    parts = [_decide(m, part) for part in atom.every or atom.none]
    decisive = bool(atom.none)
    if decisive in parts:
        return decisive is answer.holds
    left = [part for part in parts if isinstance(part, Literal)]
    if not left:
        return (not decisive) is answer.holds
    # The rest is known, so a rank test is seen bare: `distributed and rank == 0`.
    if len(left) == 1:
        return left[0] if answer.holds else left[0].negated()
    return answer


def _truth_of(m: Evaluator, value: Value, node: ast.AST) -> bool | Literal:
    known = value.truth
    if known is not None:
        return known
    if isinstance(value, Truth):
        return value.literal
    if isinstance(value, Rank):
        # `if not rank:` and `if rank:` are how terse programs test for rank 0.
        result = negate(compare(ast.Eq(), value, Const(0), m.text(node), m.place(node)))
        return result.literal if isinstance(result, Truth) else result == TRUE
    # A name that was imported from code we do not have may hold anything, a rank flag too.
    if isinstance(value, Library) and not is_harmless(value.name):
        value = Unknown(Anonymous("library", value.name), "a name of a library", value.name, Divergence.UNREAD)
    # An attribute of which nothing is known: whoever asks it is no method.
    if isinstance(value, Method):
        term = Attribute(value.receiver, value.name)
        value = Unknown(term, "an attribute that is not known", m.text(node), Divergence.UNREAD)
    asked = HOOKS.tests.get(type(value))
    if asked is not None:
        value = asked(m, value, m.place(node))
    if value.is_open:
        return open_test(IsTrue(counted_by(value) or value), m.text(node), m.place(node)).literal
    # `sorted(found)` is a list, too; a `zip` is something, whatever it goes over.
    if value.is_mutable or (isinstance(value, Enumerated) and value.kind == "sorted"):
        items = known_items(m, value)
        if items is not None:
            return bool(items)
        return open_test(IsTrue(value), m.text(node), m.place(node)).literal
    return True


def as_value(answer: bool | Literal) -> Value:
    """A decided or open answer as a value."""
    if isinstance(answer, bool):
        return TRUE if answer else FALSE
    return Truth(answer)


def bool_op(m: Evaluator, node: ast.BoolOp) -> Values:
    """`and` and `or`, which evaluate the right side only where the left leaves it open."""
    stop = isinstance(node.op, ast.Or)
    values = m.evaluate(node.values[0])
    for index, operand in enumerate(node.values[1:], 1):
        answer = _asked(m, node.values[0], values) if index == 1 else truth(m, values, node)
        if answer is stop or m.unreachable:
            return values
        if isinstance(answer, bool):
            values = m.evaluate(operand)
            continue
        values = _combine(m, node, values, answer, operand, stop)
    return values


def _combine(m: Evaluator, node: ast.BoolOp, left: Values, answer: Literal, operand: ast.expr, stop: bool) -> Values:
    way_on = answer.negated() if stop else answer
    base = m.path
    inside, outside = base.conjoined_with(way_on), base.conjoined_with(way_on.negated())
    with m.store.delta() as done, m.on_path(inside):
        right = m.evaluate(operand)
    if m.unreachable:
        # An error ends the way on to the right side: who gets on has taken the left one.
        m.unreachable = False
        return left.guarded_by(outside.difference(base))
    with m.on_path(inside):
        _note_done(m, done, [outside])
    if not (_are_answers(right) or (_are_answers(left) and _is_switch(right))):
        whole = singleton(TRUE if stop else FALSE) if all(value in (TRUE, FALSE) for value in left) else left
        from_left = whole.guarded_by(outside.difference(base))
        if not stop:
            # What failed is known to have failed, whatever it was.
            from_left = from_left.map(lambda value: FALSE if isinstance(value, (Truth, Unknown)) else value)
        return union([from_left, right.guarded_by(inside.difference(base))])
    second = truth(m, right, operand)
    if isinstance(second, bool):
        return singleton(as_value(answer if second is not stop else stop))
    build = disjunction if stop else conjunction
    return singleton(build([answer, second], m.text(node), m.place(node)))


def _are_answers(values: Values) -> bool:
    return all(isinstance(value, Truth) or value in (TRUE, FALSE) for value in values)


def _is_switch(values: Values) -> bool:
    """A setting beside answers is one too: `args.world_size > 1 or args.distributed`."""
    only = values.single
    return only is not None and only.config


def compare_values(m: Evaluator, op: ast.cmpop, left: Values, right: Values, node: ast.AST) -> Values:
    """A comparison of what two expressions may be."""
    results: list[Values] = []
    for first in _whichever(m, left.restrict(m.path)).bindings:
        for second in _whichever(m, right.restrict(m.path)).bindings:
            if first.condition.excludes(second.condition):
                continue
            m.note_rank_text(op, first.value, second.value, node)
            when = first.condition.and_(second.condition)
            found = compared_by_class(m, op, first.value, second.value, node)
            answer = _by_item(op, first.value, second.value) if found is None else None
            if answer is not None:
                found = answer(m, [first.value, second.value], node)
            elif found is not None and isinstance(op, (ast.NotEq, ast.NotIn)):
                found = singleton(negate(as_value(truth(m, found, node))))
            if found is not None:
                results.append(found.guarded_by(when))
            else:
                results.append(singleton(_compare(m, op, first.value, second.value, node), when))
    return union(results)


def _by_item(
    op: ast.cmpop, left: Value, right: Value
) -> Callable[[Evaluator, list[Value], ast.AST], Values | None] | None:
    """Who answers where `predicted == labels` is a tensor of answers."""
    # These give one answer also for tensors.
    if isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) or NONE in (left, right):
        return None
    told = HOOKS.comparisons.get(type(left)) or HOOKS.comparisons.get(type(right))
    if told is None and isinstance(left, Unknown) and (left.shards or (isinstance(right, Unknown) and right.shards)):
        return HOOKS.arrays_compared[0]
    return told


def _compare(m: Evaluator, op: ast.cmpop, left: Value, right: Value, node: ast.AST) -> Value:
    # `settings != {}` asks whether there are any.
    if isinstance(op, (ast.Eq, ast.NotEq)) and type(left) is type(right) and _is_empty(m, right):
        filled = as_value(_truth_of(m, left, node))
        return filled if isinstance(op, ast.NotEq) else negate(filled)
    text, place = m.text(node), m.place(node)
    if isinstance(op, (ast.In, ast.NotIn)):
        result = _member(m, left, right, text, place)
        return negate(result) if isinstance(op, ast.NotIn) else result
    return compare(op, left, right, text, place)


def _is_empty(m: Evaluator, value: Value) -> bool:
    return value.is_mutable and known_items(m, value) == ()


def _is_handed_on(m: Evaluator, key: Value) -> bool:
    """`for key in defaults: if key not in loaded`: nobody asks for this entry by its name."""
    sources = (each for loop in m.open_loops if isinstance(each := loop.source.single, (DictOf, Unknown)))
    return any(key == name.single for each in sources for name in known_items(m, each) or ())


def _member(m: Evaluator, left: Value, right: Value, text: str, place: Location) -> Value:
    # `"RANK" in os.environ` tells which launcher started the program.
    ask = HOOKS.memberships.get(type(right))
    answer = ask(m, left, right) if ask is not None else None
    if answer is not None:
        return answer
    if isinstance(right, DictOf):
        m.complete(right, left)
        keys = known_keys(m, right)
        # Another settings file may have what is not in this one.
        if may_have_more(m, right) and (keys is None or left not in keys):
            keys = [each.single or NONE for each, _ in possible_pairs(m, right)] if _is_handed_on(m, left) else None
        # Whatever else came to it took none of these away.
        if keys is None and any(key.single == left for key, _ in pairs(m, right) or ()):
            return TRUE
        if keys is not None:
            return contains(list(keys), left, text, place)
        return open_test(Compares("in", left, right), text, place)
    items = known_items(m, right)
    if items is not None and all(item.single is not None for item in items):
        return contains([item.single for item in items if item.single is not None], left, text, place)
    if isinstance(right, ListOf) and m.open_loops:
        # `for ranks in node_ranks`: another list in each round, of which one stands for all.
        right = replace(right, identity=(right.identity, m.open_loops[-1].event.pass_))
    # Which names the entries of a batch have, its collation says: the same on all ranks.
    if right.has_names_for(left):
        return open_test(Compares("in", left, right), text, place, apart_from=right.divergence & ~left.divergence)
    return compare(ast.In(), left, right, text, place)
