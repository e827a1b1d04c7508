"""Expressions: syntax to values."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Hashable, Sequence
from functools import cache, lru_cache, partial
from typing import Any

from gpudoctor.lint.domain.arguments import Arguments
from gpudoctor.lint.domain.constant_folding import fits, formatted, joined, negative, operated
from gpudoctor.lint.domain.container import DictOf, ListOf, Slice, TupleOf
from gpudoctor.lint.domain.data import Loader
from gpudoctor.lint.domain.function import Generator, LazyImport, Library
from gpudoctor.lint.domain.module import Module
from gpudoctor.lint.domain.rank import Rank, Size
from gpudoctor.lint.domain.symbols import Operation
from gpudoctor.lint.domain.value import (
    FALSE,
    NONE,
    SEPARATOR,
    UNBOUND,
    Anonymous,
    Const,
    Text,
    Unknown,
    Value,
    Values,
    singleton,
    text_of,
)
from gpudoctor.lint.flow.condition import ALWAYS, Condition, Divergence, Literal, whole
from gpudoctor.lint.flow.valueset import Binding, ValueSet, union
from gpudoctor.lint.interface.contents import (
    MAX_ITEMS,
    as_written_by_itself,
    in_a_set,
    known_items,
    new_dict,
    new_list,
    new_tuple,
    note_chosen_file,
    note_grown,
    note_rank_decides,
    possible_pairs,
)
from gpudoctor.lint.interp import imports, library, truthiness
from gpudoctor.lint.interp.assignment import assign, hint
from gpudoctor.lint.interp.attributes import attribute
from gpudoctor.lint.interp.calls import call_node, run_body
from gpudoctor.lint.interp.definitions import define_lambda
from gpudoctor.lint.interp.evaluator import Evaluator
from gpudoctor.lint.interp.items import concatenate, item_at, items_of, repeat
from gpudoctor.lint.interp.limits import A_FEW
from gpudoctor.lint.interp.narrowing import as_told
from gpudoctor.lint.interp.operators import OPERATORS, conjunction, negate, rank_arithmetic, scaled_by
from gpudoctor.lint.interp.position import NONE_SET, PathExit
from gpudoctor.lint.interp.special_methods import operated_by_class, signed_by_class
from gpudoctor.lint.interp.truthiness import as_value, bool_op, compare_values, truth
from gpudoctor.lint.library.register import HOOKS

IN_NOTEBOOKS = {"display": "IPython.display.display", "get_ipython": "IPython.get_ipython"}
"""What a notebook's kernel adds to Python's own names."""
BUILTINS = frozenset(dir(__builtins__) if not isinstance(__builtins__, dict) else __builtins__)


def _constant(m: Evaluator, node: ast.Constant) -> Values:
    if isinstance(node.value, int) and not fits(node.value):
        return m.unknown(node, "a very large number")
    return _constant_set(node.value)


@lru_cache(maxsize=1024, typed=True)
def _constant_set(value: Any) -> Values:
    return singleton(Const(value))


def _name(m: Evaluator, node: ast.Name) -> Values:
    # `lookup` would do the same; a third of all expressions are names, and nearly all of those hold one value.
    name, now = node.id, m.store.now
    for scope in m.frames[-1].scopes:
        key = scope, name
        m.reads.append(key)
        found = now.get(key)
        if found is not None:
            if found.is_definite:
                value: Any = found.single
                if value is not UNBOUND and type(value) is not LazyImport:
                    return as_told(m, found, node) if value.is_tested else found
            return as_told(m, lookup(m, name, node), node)
    return elsewhere(m, name, node)


def _attribute(m: Evaluator, node: ast.Attribute) -> Values:
    owner = m.evaluate(node.value)
    if type(node.value) is ast.Call:
        for told in HOOKS.part_taken:
            told(m, node.value, owner, node.attr)
    # `each` would do the same.
    if owner.is_definite:
        held = attribute(m, owner.bindings[0].value, node.attr, node, asked=True)
        return held if held.is_definite and not held.bindings[0].value.is_tested else as_told(m, held, node)
    if any([each.value == NONE for each in owner.bindings]):  # noqa: C419, as above
        _note_none(m, owner, node)
        owner = _without_none(m, owner, node)
    owner = _those_that_have(owner, node.attr)
    ended: list[Value] = []

    def ask(value: Value) -> Values:
        found = attribute(m, value, node.attr, node, asked=True)
        if m.unreachable:
            ended.append(value)
        return found

    found = m.for_each_value(owner, ask, node)
    if ended and not m.unreachable:
        _forget(m, node.value, ended)
    return found


def _those_that_have(owner: Values, name: str) -> Values:
    """`parts[f"optimizer_{i}"].step()`: of several things that no test tells apart, one that has it is meant."""
    asked = [each for each in owner.bindings if type(each.value) in HOOKS.attributes]
    kept = [each for each in owner.bindings if each not in asked and not isinstance(each.value, (Module, Unknown))]
    beside = [each for each in asked if any(each.condition == other.condition for other in kept)]
    lacking = [each for each in beside if HOOKS.attributes[type(each.value)](each.value, name) is False]
    return ValueSet([each for each in owner.bindings if each not in lacking]) if lacking else owner


def _without_none(m: Evaluator, owner: Values, node: ast.Attribute) -> Values:
    """Whoever gets on has no None, where that is no matter of the rank, and is taken for one of the others there."""
    some = [each for each in owner.bindings if each.value != NONE]
    if not some or hasattr(None, node.attr) or any(each.condition.divergence for each in owner.bindings):
        return owner
    others = union([owner.map(lambda each: some[0].value if each == NONE else each)])
    if isinstance(node.value, ast.Name) and m.store.get((m.frame.scope, node.value.id)) is not None:
        m.bind(node.value.id, others)
    return others


def _forget(m: Evaluator, node: ast.expr, ended: list[Value]) -> None:
    """Whoever gets on has none of these."""
    held = m.store.get((m.frame.scope, node.id)) if isinstance(node, ast.Name) else None
    kept = [each for each in held.bindings if each.value not in ended] if held is not None else []
    if isinstance(node, ast.Name) and kept:
        m.bind(node.id, ValueSet(kept))


def _subscript(m: Evaluator, node: ast.Subscript) -> Values:
    owner, index = m.evaluate(node.value), m.evaluate(node.slice)
    end = index.single.stop if isinstance(index.single, Slice) else None
    if end is not None and not end.are(Const):
        for told in HOOKS.cut_off:
            told(m, owner, end, m.place(node))
    return as_told(m, m.for_each_value(owner, lambda value: item_at(m, value, index, node), node), node)


def _binary(m: Evaluator, node: ast.BinOp) -> Values:
    left, right = m.evaluate(node.left), m.evaluate(node.right)
    if m.listener is not None:
        m.listener.calculated(node.op, left, right)
    return binary(m, left, node.op, right, node)


def binary(m: Evaluator, left: Values, op: ast.operator, right: Values, node: ast.AST) -> Values:
    """An operator on what two expressions may be."""
    if left.is_definite and right.is_definite:
        value = _operate(m, op, left.bindings[0].value, right.bindings[0].value, node)
        if isinstance(op, ast.Div):
            for told in HOOKS.divided:
                told(m, left.bindings[0].value, right.bindings[0].value, node)
        return value if len(value.bindings) == 1 else m.widen_if_large(union([value]), node)
    results: list[Values] = []
    for first in _operands(left.restrict(m.path)):
        for second in _operands(right.restrict(m.path)):
            # What cannot be there at the same time is never combined.
            if not first.condition.excludes(second.condition):
                when = first.condition.and_(second.condition)
                with m.on_path(m.path.and_(when)):
                    value = _operate(m, op, first.value, second.value, node)
                results.append(value.guarded_by(when))
    return m.widen_if_large(union(results), node)


def _operands(values: Values) -> Sequence[Binding[Value]]:
    """Those with which one can calculate."""
    # `if isinstance(batch, list): return batch`: what comes back so is no tensor.
    return [each for each in values.bindings if not each.value.is_plain(each.condition.kinds)] or values.bindings


def _operate(m: Evaluator, op: ast.operator, left: Value, right: Value, node: ast.AST) -> Values:
    if isinstance(left, Const) and isinstance(right, Const):
        # `WORLD = 2 * 4` and `"a" + "b"` decide tests further on.
        folded = operated(op, left, right)
        if folded is not None:
            return singleton(folded)
    # Before text: `%` of a tensor is arithmetic. That of a text puts the tensor's number into it.
    own = operated_by_class(m, op, left, right, node)
    if own is not None:
        return own
    answer = HOOKS.operations.get(type(left)) or (None if left.is_text else HOOKS.operations.get(type(right)))
    if answer is not None:
        return answer(m, [left, right], node)
    for first, second in ((left, right), (right, left)):
        if (
            isinstance(first, (Rank, Size))
            # `os.environ["RANK"] + 1` is a TypeError; `"out" + os.environ["RANK"]` is not.
            and first.as_text
            and isinstance(second, (Const, Size, Rank))
            and not (second.is_text or second.as_text)
        ):
            m.note_text_used(first, type(op).__name__, node)
    joined = _join_text(m, op, left, right)
    if joined is not None:
        return singleton(joined)
    # `rank % torch.cuda.device_count()` is the usual local rank.
    ranked = rank_arithmetic(op, left, right)
    if ranked is not None:
        return singleton(ranked)
    if isinstance(op, ast.Add) and isinstance(left, (TupleOf, ListOf)) and isinstance(right, (TupleOf, ListOf)):
        return concatenate(m, left, right, node)
    # `DEFAULTS | given` holds what `{**DEFAULTS, **given}` does.
    if isinstance(op, ast.BitOr) and isinstance(left, DictOf):
        return new_dict(m, [(None, singleton(left)), (None, singleton(right))], node)
    if isinstance(left, ListOf) and isinstance(right, ListOf) and (method := _ON_SETS.get(type(op))) is not None:
        return m.call(m.attribute(left, method, node), Arguments((singleton(right),)), node)
    if isinstance(op, ast.Mult):
        for sequence, times in ((left, right), (right, left)):
            if isinstance(sequence, (TupleOf, ListOf)) and not times.divergence:
                return repeat(m, sequence, times, node)
    if isinstance(op, ast.Sub):
        for told in HOOKS.subtracted:
            told(m, left, right, node)
    # `step % ACCUMULATE == 0` with ACCUMULATE = 1 holds in each round.
    if isinstance(op, ast.Mod) and right == Const(1) and left.divergence & Divergence.BATCH_INDEX:
        return singleton(Const(0))
    return singleton(_mixed(op, left, right, m.text(node, 40)))


_ON_SETS: dict[type[ast.operator], str] = {
    ast.BitOr: "union", ast.BitAnd: "intersection", ast.BitXor: "symmetric_difference", ast.Sub: "difference"
}  # fmt: skip


def _mixed(op: ast.operator, left: Value, right: Value, label: str) -> Value:
    """An unknown number that inherits what its operands depend on."""
    config = all(isinstance(v, (Const, Size)) or v.config for v in (left, right))
    shards = frozenset().union(left.shards, right.shards)
    made = Unknown(
        Operation(OPERATORS[type(op)], left, right), "computed", label, left.divergence | right.divergence, config,
        frozenset(shards), times=scaled_by(op, left, right),
    )  # fmt: skip
    return HOOKS.computed[0](op, right, made) if shards or isinstance(op, ast.Div) else made


_FIELD = r"%([-#0 +]*[0-9]*(?:\.[0-9]+)?)([diouxXeEfFgGcrsa%])"


def _filled_in(m: Evaluator, text: str, held: Sequence[Values]) -> Value | None:
    """`"%s/%03d.pt" % (folder, epoch)`; None where its fields and what it is given do not fit."""
    given, end, parts = iter(held), 0, list[Value]()
    for field in re.finditer(_FIELD, text):
        parts += [Const(text[end : field.start()])] if field.start() > end else []
        (spec, kind), end = field.groups(), field.end()
        values = next(given, None) if kind != "%" else singleton(Const("%"))
        if values is None:
            return None
        only = values.restrict(m.path).single
        how = ("r" if kind == "r" else "", spec if kind in "rsa%" else spec + kind)
        parts += formatted(only, *how) if only is not None else HOOKS.text_parts[0](m, values)
    parts += [Const(text[end:])] if text[end:] else []
    return _put_together(parts) if next(given, None) is None else None


def _join_text(m: Evaluator, op: ast.operator, left: Value, right: Value) -> Value | None:
    # `/` joins paths, `%` formats. Of what is not known only a path can be divided by a text.
    divided = isinstance(op, ast.Div) and isinstance(left, Unknown)
    if not isinstance(op, (ast.Add, ast.Mod, ast.Div)) or not (
        left.is_text or (right.is_text and (divided or isinstance(op, ast.Add)))
    ):
        return None
    if isinstance(op, ast.Mod) and (text := text_of(left)) is not None and not isinstance(right, DictOf):
        filled = _filled_in(m, text, right.items if isinstance(right, TupleOf) else [singleton(right)])
        if filled is not None:
            return filled
    parts: list[Value] = []
    for value in (left, *((SEPARATOR, right) if isinstance(op, ast.Div) else (right,))):
        if isinstance(value, Text):
            parts.extend(value.parts)
        elif isinstance(value, TupleOf):
            parts.extend(each for item in value.items for each in HOOKS.text_parts[0](m, item))
        elif isinstance(value, DictOf) and isinstance(op, ast.Mod):
            parts.extend(each for _, item in possible_pairs(m, value) for each in HOOKS.text_parts[0](m, item))
        else:
            parts.append(value)
    return Text(tuple(parts))


def _unary(m: Evaluator, node: ast.UnaryOp) -> Values:
    values = m.evaluate(node.operand)
    if isinstance(node.op, ast.Not):
        answer = truth(m, values, node.operand)
        return singleton(negate(as_value(answer)))

    def change(value: Value) -> Values:
        folded = negative(value) if isinstance(node.op, ast.USub) and isinstance(value, Const) else None
        return signed_by_class(m, node.op, value, node) or singleton(value if folded is None else folded)

    return m.for_each_value(values, change, node)


def _compare(m: Evaluator, node: ast.Compare) -> Values:
    left = m.evaluate(node.left)
    result: Values | None = None
    for op, operand in zip(node.ops, node.comparators, strict=True):
        right = m.evaluate(operand)
        part = compare_values(m, op, left, right, node)
        left = right
        result = part if result is None else _both(m, result, part, node)
    assert result is not None
    return result


def _both(m: Evaluator, first: Values, second: Values, node: ast.AST) -> Values:
    left, right = truth(m, first, node), truth(m, second, node)
    if left is False or right is False:
        return singleton(FALSE)
    # `0 <= rank < 1`: the half that is decided adds nothing.
    if isinstance(left, bool):
        return second
    if isinstance(right, bool):
        return first
    return singleton(conjunction([left, right], m.text(node), m.place(node)))


def _conditional(m: Evaluator, node: ast.IfExp) -> Values:
    answer = truthiness.ask(m, node.test)
    if m.unreachable:
        return NONE_SET
    if isinstance(answer, bool):
        return m.evaluate(node.body if answer else node.orelse)
    results: list[Values] = []
    base, aborted = m.path, False
    sides: list[PathExit] = []
    for literal, branch in ((answer, node.body), (answer.negated(), node.orelse)):

        def body(branch: ast.expr = branch, literal: Literal = literal) -> None:
            values = m.evaluate(branch)
            if m.unreachable:
                return
            # `model.module if wrapped else model` keeps which one it is, and when.
            results.append(values.guarded_by(base.conjoined_with(literal).difference(base)))

        m.choices.open.append((base, literal is answer, (), None))
        side = m.run_branch(base, literal, body)
        m.choices.open.pop()
        aborted = aborted or side.job_aborted
        if side.end is not None:
            sides.append(side.end)
    m.join(base, sides)
    if aborted and sides:
        m.path = base
    m.end_choice()
    return union(results)


def _tuple(m: Evaluator, node: ast.Tuple) -> Values:
    items, exact = _elements(m, node.elts)
    # Behind `*args` of unknown length, any of them may be at any position.
    return new_tuple(m, items, node) if exact else new_list(m, items, node, exact=False)


def _elements(m: Evaluator, elements: list[ast.expr]) -> tuple[list[Values], bool]:
    """What is written between the brackets, and whether it is known where each of it stands."""
    items: list[Values] = []
    exact = True
    for element in elements:
        if isinstance(element, ast.Starred):
            inner = m.evaluate(element.value)
            known = known_items(m, inner.single)
            exact = exact and known is not None
            items.extend(known if known is not None else [items_of(m, inner, element)])
        else:
            items.append(m.evaluate(element))
    return items, exact


def _list(m: Evaluator, node: ast.List | ast.Set) -> Values:
    items, exact = _elements(m, node.elts)
    if isinstance(node, ast.Set):
        items, distinct = in_a_set(items)
        exact = exact and distinct
    made = new_list(m, items, node, exact, "set" if isinstance(node, ast.Set) else "list")
    if isinstance(node, ast.Set):
        for told in HOOKS.sets_made:
            told(m, made, items)
    return made


def _dict(m: Evaluator, node: ast.Dict) -> Values:
    entries: list[tuple[Values | None, Values]] = []
    for key, value in zip(node.keys, node.values, strict=True):
        entries.append((m.evaluate(key) if key is not None else None, m.evaluate(value)))
    return new_dict(m, entries, node)


def _comprehension(m: Evaluator, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Values:
    """The element is evaluated for each known item, or once for an unknown one."""
    element = node.value if isinstance(node, ast.DictComp) else node.elt
    found: list[Values] = []
    keys: list[Values] = []
    filters: list[Literal] = []
    sources: list[Value | None] = []
    # As behind a loop: what was learnt about one item does not hold behind all of them, of which there may be none.
    with m.on_path(m.path):
        collect = partial(_collect, m, node, element, keys, found, m.path)
        # Model lists of a dozen blocks are followed one by one, hundreds of files are not; settings are copied.
        most = MAX_ITEMS if isinstance(node, ast.DictComp) else 16
        exact = _follow(m, node.generators, filters, sources, collect, most)
    m.unreachable = m.unreachable and exact
    if isinstance(node, ast.DictComp):
        entries: list[tuple[Values | None, Values]] = list(zip(keys, found, strict=True))
        made = new_dict(m, entries, node, exact=exact)
        note_chosen_file(m, made.single, sources)
        return made
    if isinstance(node, ast.SetComp):
        found, distinct = in_a_set(found)
        exact = exact and distinct
    made = new_list(m, found, node, exact, "set" if isinstance(node, ast.SetComp) else "list")
    note_grown(m, made, sources)
    if isinstance(node, ast.SetComp):
        for told in HOOKS.sets_made:
            told(m, made, found)
    # `[f for i, f in enumerate(files) if i % world == rank]` shards by hand.
    if any(literal.atom.divergence & Divergence.RANK for literal in filters):
        note_rank_decides(m, made)
    return made


def _collect(
    m: Evaluator, node: ast.expr, element: ast.expr, keys: list[Values], found: list[Values], base: Condition
) -> None:
    if isinstance(node, ast.DictComp):
        keys.append(m.evaluate(node.key))
    values, asked = m.evaluate(element), m.path.difference(base)
    if asked and not values.is_definite:
        # It is there because of what was asked of it, which nobody asks of the whole.
        here = values.restrict(m.path).bindings
        values = union([singleton(each.value, each.condition.difference(asked)) for each in here])
    found.append(values)


def _follow(
    m: Evaluator,
    generators: list[ast.comprehension],
    filters: list[Literal],
    sources: list[Value | None],
    then: Callable[[], None],
    most: int,
    room: int = MAX_ITEMS,
) -> bool:
    """Evaluate the element, item by item where no more than `most` are gone through, and no more than `room` come
    together, each `for` multiplying them."""
    if not generators:
        then()
        return True
    first, rest = generators[0], generators[1:]
    iterable = m.evaluate(first.iter)
    if m.unreachable:
        return True
    sources.append(iterable.single)
    known = known_items(m, iterable.single)
    exact = known is not None and len(known) <= min(most, room)
    rounds = known if known is not None and exact else (items_of(m, iterable, first.iter),)
    for values in rounds:
        assign(m, first.target, values)
        with m.on_path(m.path):
            undecided = len(filters)
            if all(_passes(m, test, filters) for test in first.ifs):
                exact = _follow(m, rest, filters, sources, then, most, room // max(1, len(rounds))) and exact
            exact = exact and len(filters) == undecided
    return exact


def _passes(m: Evaluator, test: ast.expr, filters: list[Literal]) -> bool:
    """An item may come through a condition, behind which that holds."""
    answer = truthiness.ask(m, test)
    if isinstance(answer, Literal):
        filters.append(answer)
        m.path = m.path.conjoined_with(answer)
    return answer is not False


def _joined_string(m: Evaluator, node: ast.JoinedStr) -> Values:
    parts: list[Value] = []
    # One that is a text or another, as `"cuda"` where there is a GPU: so is the whole.
    either: tuple[int, Values] | None = None
    for piece in node.values:
        if isinstance(piece, ast.Constant):
            parts.append(Const(piece.value))
        elif isinstance(piece, ast.FormattedValue):
            values = m.evaluate(piece.value)
            if piece.format_spec is None:
                values = as_written_by_itself(m, values, piece.value)
            # `f"{loss:.3f}"` copies the tensor to the host, wherever the text goes.
            for told in HOOKS.printed:
                told(m, values, m.place(node))
            only = values.restrict(m.path).single
            if only is not None:
                parts += formatted(only, *_format_of(m, piece))
            elif either is None and len(values) <= A_FEW and values.all(_is_text):
                either = len(parts), values
            else:
                parts.extend(HOOKS.text_parts[0](m, values))
    if either is None:
        return singleton(_put_together(parts))
    at, texts = either
    return texts.map(lambda each: _put_together([*parts[:at], *each.in_text, *parts[at:]]))


def _format_of(m: Evaluator, piece: ast.FormattedValue) -> tuple[str, str | None]:
    """The conversion, and what stands behind the colon; None where that is not known."""
    spec = text_of(m.evaluate(piece.format_spec).single) if piece.format_spec is not None else ""
    return chr(piece.conversion) if piece.conversion > 0 else "", spec


def _is_text(value: Value) -> bool:
    return text_of(value.in_text[0]) is not None


def _put_together(parts: Sequence[Value]) -> Value:
    """A text of these parts, the same however they were cut."""
    found: list[Value] = []
    for part in parts:
        last = found[-1] if found else None
        both = joined([last, part]) if isinstance(last, Const) and isinstance(part, Const) else None
        found[-1:] = [both] if both is not None else [*found[-1:], part]
    only = found[0] if len(found) == 1 else Const("") if not found else None
    whole = joined([only]) if isinstance(only, Const) else None
    return Text(tuple(found)) if whole is None else whole


def _inner(m: Evaluator, node: ast.Await | ast.FormattedValue | ast.Starred) -> Values:
    return m.evaluate(node.value)


def _walrus(m: Evaluator, node: ast.NamedExpr) -> Values:
    hint(m, node.target, node.value)
    values = m.evaluate(node.value)
    assign(m, node.target, values)
    return values


def _yield(m: Evaluator, node: ast.Yield) -> Values:
    values = m.evaluate(node.value) if node.value is not None else NONE_SET
    m.yielded(values, node)
    # Nobody trains through `send`.
    return m.unknown(node, "what a generator is sent")


_EACH = "def each(source):\n    for item in source:\n        yield item"


def _yield_from(m: Evaluator, node: ast.YieldFrom) -> Values:
    source = m.evaluate(node.value)
    if source.has(Loader) and m.frame.on_yield is not None:
        # Whoever goes over this generator goes over the batches of that loader.
        source = m.call(singleton(m.function_at(_EACH, node)), Arguments((source,)), node)
    if isinstance(source.single, Generator) and m.frame.on_yield is not None:
        # Whoever goes over this generator goes over the loops of that one.
        return run_body(m, source.single, m.frame.on_yield, node)
    if m.listener is not None:
        m.listener.hands_on(source)
    m.yielded(items_of(m, source, node), node)
    return NONE_SET


def _slice(m: Evaluator, node: ast.Slice) -> Values:
    start, stop, step = (None if part is None else m.evaluate(part) for part in (node.lower, node.upper, node.step))
    if m.listener is not None:
        m.listener.sliced(start)
    return singleton(Slice(start, stop, step))


_Evaluate = Callable[["Evaluator", Any], Values]


def _not_followed(m: Evaluator, node: ast.expr) -> Values:
    return m.unknown(node, f"{type(node).__name__} is not followed")


class _Evaluators(dict[type[ast.expr], _Evaluate]):
    def __missing__(self, kind: type[ast.expr]) -> _Evaluate:
        # Newer syntax must not end the execution.
        return _not_followed


EVALUATORS = _Evaluators(
    {
        ast.Constant: _constant,
        ast.Name: _name,
        ast.Attribute: _attribute,
        ast.Subscript: _subscript,
        ast.Call: call_node,
        ast.BinOp: _binary,
        ast.UnaryOp: _unary,
        ast.BoolOp: bool_op,
        ast.Compare: _compare,
        ast.IfExp: _conditional,
        ast.Tuple: _tuple,
        ast.List: _list,
        ast.Set: _list,
        ast.Dict: _dict,
        ast.ListComp: _comprehension,
        ast.SetComp: _comprehension,
        ast.GeneratorExp: _comprehension,
        ast.DictComp: _comprehension,
        ast.JoinedStr: _joined_string,
        ast.FormattedValue: _inner,
        ast.Lambda: define_lambda,
        ast.Starred: _inner,
        ast.NamedExpr: _walrus,
        ast.Await: _inner,
        ast.Yield: _yield,
        ast.YieldFrom: _yield_from,
        ast.Slice: _slice,
    }
)


@cache
def _builtin(name: str) -> Values:
    return singleton(Library(f"builtins.{name}"))


def lookup(m: Evaluator, name: str, node: ast.AST) -> Values:
    """What a name holds here."""
    for scope in m.frame.scopes:
        found = m.read((scope, name))
        if found is None:
            continue
        bound = [b for b in found.bindings if b.value is not UNBOUND]
        if bound:
            known = found if len(bound) == len(found.bindings) else _bound(m, scope, name, found, node)
            return imports.resolved(m, known, node)
        if found.bindings and _is_surely_unbound(m, scope, name, found):
            error = "UnboundLocalError" if m.frame.function is not None else "NameError"
            m.abort(name, m.place(node), error, "is not bound there")
            return m.unknown(node, "a name that is not bound")
    return elsewhere(m, name, node)


def _is_surely_unbound(m: Evaluator, scope: Hashable, name: str, found: Values) -> bool:
    # Imported late, as below: most programs bind each name on all paths that ask for it.
    from gpudoctor.lint.interp.unbound_names import is_surely_unbound

    return is_surely_unbound(m, scope, name, found)


def _note_none(m: Evaluator, owner: Values, node: ast.Attribute) -> None:
    from gpudoctor.lint.interp.unbound_names import note_none

    note_none(m, owner, node)


def _bound(m: Evaluator, scope: Hashable, name: str, found: Values, node: ast.AST) -> Values:
    """A path on which the name is unbound ends in an error: whoever gets on has a value, and took no such path."""
    from gpudoctor.lint.interp.unbound_names import is_surely_unbound, note_missing

    left = ValueSet([binding for binding in found.bindings if binding.value is not UNBOUND])
    note_missing(m, scope, name, found, node)
    for binding in found.bindings:
        missed = whole(binding.condition.difference(m.path)) if binding.value is UNBOUND else None
        if missed is not None and is_surely_unbound(m, scope, name, ValueSet([binding])):
            m.settle(missed.negated())
            left = left.restrict(ALWAYS.conjoined_with(missed.negated()))
    return left


def elsewhere(m: Evaluator, name: str, node: ast.AST) -> Values:
    """What a name means that the program does not bind: Python's own, or one of a star import."""
    stars = m.frame_star_libraries
    origins = [o for scope in m.frame.scopes for o in stars.get(scope, ())] if stars else []
    for origin in origins:
        # `from torch import *` must not make `print` a name of torch.
        if library.is_known(f"{origin}.{name}", exactly=name in BUILTINS):
            return m.library_name(f"{origin}.{name}", node)
    if name in BUILTINS:
        return _builtin(name)
    if name in IN_NOTEBOOKS and m.frame.file.source.cells is not None:
        return m.library_name(IN_NOTEBOOKS[name], node)
    # A star import of what was not read is the likeliest source.
    if origins:
        return m.library_name(f"{origins[-1]}.{name}", node)
    m.record_imprecision(f"`{name}` is not defined in what was read", m.place(node))
    return singleton(Unknown(Anonymous("name", (m.frame.scopes[-1], name)), "a name that is not defined", name))
