"""What classes do to the classes below them: metaclasses, and `__init_subclass__`."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from gpudoctor.lint.domain.abstract_state import ClassState
from gpudoctor.lint.domain.arguments import Arguments
from gpudoctor.lint.domain.container import TupleOf, items_held
from gpudoctor.lint.domain.function import Class
from gpudoctor.lint.domain.value import NONE, Const, Value, Values, single_of, singleton
from gpudoctor.lint.interface.contents import find_in_class, find_method, new_dict
from gpudoctor.lint.interp.evaluator import Evaluator


def metaclass_of(given: Values | None, bases: Iterable[Value]) -> Class | None:
    """The class of the project that makes a class: the one that it names, or that of a base."""
    if given is not None:
        return single_of(given, Class)
    return next((base.metaclass for base in bases if isinstance(base, Class) and base.metaclass is not None), None)


def tell_those_above(m: Evaluator, cls: Class, keywords: Mapping[str, Values], node: ast.ClassDef) -> None:
    """A class is made: its metaclass makes it, and its bases are told. Both may write it into a table."""
    for base in cls.own_bases:
        below = items_held(m.state(base, ClassState.subclasses))
        m.set_state(base, ClassState.subclasses, singleton(TupleOf((*below, singleton(cls)))))
    for name in m.names_of(cls.scope):
        held = m.read((cls.scope, name))
        setter = find_method(m, held.single, "__set_name__") if held is not None and held.single is not None else None
        if setter is not None:
            m.call(setter, Arguments((singleton(cls), singleton(Const(name)))), node)
    if cls.metaclass is not None:
        _make(m, cls, cls.metaclass, keywords, node)
    hook = find_in_class(m, cls, "__init_subclass__", after=cls)
    if hook is not None:
        m.call(hook, Arguments((singleton(cls),), dict(keywords)), node)


def _make(m: Evaluator, cls: Class, metaclass: Class, keywords: Mapping[str, Values], node: ast.ClassDef) -> None:
    names = m.names_of(cls.scope)
    body = new_dict(m, [(singleton(Const(name)), m.read((cls.scope, name)) or singleton(NONE)) for name in names], node)
    given = (singleton(Const(cls.label)), singleton(TupleOf(tuple(map(singleton, cls.bases)))), body)
    m.set_state(metaclass, ClassState.makes, singleton(cls))
    for name, first in (("__new__", metaclass), ("__init__", cls)):
        found = find_in_class(m, metaclass, name)
        if found is not None and not m.unreachable:
            m.call(found, Arguments((singleton(first), *given), dict(keywords)), node)
