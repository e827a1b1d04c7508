"""`match`: whether a pattern fits what is asked about, and to which parts of it the pattern gives names."""

from __future__ import annotations

import ast

from gpudoctor.lint.domain.arguments import Arguments
from gpudoctor.lint.domain.container import DictOf, ListOf, TupleOf
from gpudoctor.lint.domain.function import Class, Instance, Library
from gpudoctor.lint.domain.value import Anonymous, Const, Value, Values, divergence_of, singleton
from gpudoctor.lint.flow.condition import Atom, Literal
from gpudoctor.lint.interface.contents import (
    fields_of,
    is_grown,
    known_items,
    known_keys,
    may_have_more,
    new_dict,
    new_list,
    pairs,
)
from gpudoctor.lint.interp.evaluator import Evaluator
from gpudoctor.lint.interp.operators import conjunction, disjunction
from gpudoctor.lint.interp.truthiness import compare_values, truth
from gpudoctor.lint.source.syntax_walk import walk

Pairs = list[tuple[Values, ast.pattern]]


def fits(m: Evaluator, subject: Values, case: ast.pattern) -> bool | Literal:
    """Whether a pattern fits."""
    match case:
        case ast.MatchAs(inner, name):
            # `case _` and `case name` fit everything.
            answer = True if inner is None else fits(m, subject, inner)
            if name:
                m.bind(name, subject)
            return answer
        case ast.MatchValue(wanted):
            return truth(m, compare_values(m, ast.Eq(), subject, m.evaluate(wanted), wanted), wanted)
        case ast.MatchSingleton(value):
            return truth(m, compare_values(m, ast.Is(), subject, singleton(Const(value)), case), case)
        case ast.MatchOr(patterns):
            return _together(m, [fits(m, subject, each) for each in patterns], case, decides=True)
    only = subject.restrict(m.path).single
    if isinstance(case, ast.MatchClass) and only is not None:
        return _fits_class(m, only, case)
    parts = _parts(m, only, case)
    if isinstance(parts, bool):
        return parts
    return (
        _may_fit(m, subject, case)
        if parts is None
        else _together(m, [fits(m, *each) for each in parts], case, decides=False)
    )


def _parts(m: Evaluator, value: Value | None, case: ast.pattern) -> Pairs | bool | None:
    """What each pattern inside is asked of; False where it cannot fit, None where that is not known."""
    match value, case:
        case ((TupleOf() | ListOf()), ast.MatchSequence(patterns)):
            items = None if is_grown(m, value) else known_items(m, value)
            return None if items is None else _of_items(m, list(items), patterns, case)
        case DictOf(), ast.MatchMapping(keys, patterns, rest):
            known, held = known_keys(m, value), pairs(m, value)
            asked = [m.evaluate(key).single for key in keys]
            if known is None or held is None or None in asked or may_have_more(m, value):
                return None
            if rest:
                left: list[tuple[Values | None, Values]] = [each for each in held if each[0].single not in asked]
                m.bind(rest, new_dict(m, left, case))
            found = {key.single: values for key, values in held}
            return all(each in known for each in asked) and [
                (found[key], each) for key, each in zip(asked, patterns, strict=True)
            ]
        case Instance(cls=cls), (ast.MatchSequence() | ast.MatchMapping()) if not cls.library_bases:
            return False
        case ((Const() | DictOf()), ast.MatchSequence()):
            return False
        case ((Const() | TupleOf() | ListOf()), ast.MatchMapping()):
            return False
    return None


def _of_items(m: Evaluator, items: list[Values], patterns: list[ast.pattern], case: ast.pattern) -> Pairs | bool:
    starred = [at for at, each in enumerate(patterns) if isinstance(each, ast.MatchStar)]
    if len(items) < len(patterns) - 1 if starred else len(items) != len(patterns):
        return False
    if starred:
        begin, end = starred[0], starred[0] + 1 + len(items) - len(patterns)
        rest = patterns[begin]
        if isinstance(rest, ast.MatchStar) and rest.name:
            m.bind(rest.name, new_list(m, items[begin:end], case))
        items, patterns = items[:begin] + items[end:], patterns[:begin] + patterns[begin + 1 :]
    return list(zip(items, patterns, strict=True))


def _fits_class(m: Evaluator, value: Value, case: ast.MatchClass) -> bool | Literal:
    """`case Settings(mode="ddp")`, `case int(number)`."""
    cls = m.evaluate(case.cls)
    kind = truth(m, m.call(singleton(Library("builtins.isinstance")), Arguments((singleton(value), cls)), case), case)
    only, names = cls.single, list(case.kwd_attrs)
    if kind is False or (isinstance(only, Class) and not only.library_bases and _is_plain(value)):
        return False
    if isinstance(only, Class):
        names[:0] = list(fields_of(only))[: len(case.patterns)]
        held = [m.attribute(value, name, case) for name in names]
    else:
        held = [singleton(value)] * len(case.patterns)
    answers = [fits(m, *each) for each in zip(held, (*case.patterns, *case.kwd_patterns), strict=False)]
    return (
        _together(m, [kind, *answers], case, decides=False)
        if len(answers) == len(case.patterns) + len(case.kwd_patterns)
        else kind
    )


def _is_plain(value: Value) -> bool:
    return isinstance(value, (Const, TupleOf, ListOf, DictOf))


def _together(m: Evaluator, answers: list[bool | Literal], case: ast.pattern, *, decides: bool) -> bool | Literal:
    """Whether all of several patterns fit, of which a False decides; or any of them, of which a True does."""
    open_ = [each for each in answers if isinstance(each, Literal)]
    if decides in answers:
        return decides
    join = disjunction if decides else conjunction
    return truth(m, singleton(join(open_, _text(m, case), m.place(case))), case) if open_ else not decides


def _may_fit(m: Evaluator, subject: Values, case: ast.pattern) -> Literal:
    for name in [each.name for each in walk(case) if isinstance(each, (ast.MatchAs, ast.MatchStar)) and each.name]:
        m.bind(name, m.unknown(case, "part of a matched pattern"))
    asked = Anonymous("case", (tuple(subject), m.place(case)))
    return Literal(Atom(asked, divergence_of(subject), _text(m, case), m.place(case)), True)


def _text(m: Evaluator, case: ast.pattern) -> str:
    return f"case {m.text(case)}"
