"""Names that are surely unbound on a path, or bound to None there, so that Python ends it where they are used."""

from __future__ import annotations

import ast
import builtins
from collections import Counter
from collections.abc import Hashable, Iterator

from gpudoctor.lint.domain.abstract_state import NO, ObjectState
from gpudoctor.lint.domain.function import Instance
from gpudoctor.lint.domain.module import Module
from gpudoctor.lint.domain.symbols import AllOf
from gpudoctor.lint.domain.value import NONE, UNBOUND, Values
from gpudoctor.lint.events.process import NameMissing
from gpudoctor.lint.flow.condition import Divergence, Literal
from gpudoctor.lint.flow.interning import for_one_program
from gpudoctor.lint.flow.valueset import ValueSet
from gpudoctor.lint.interp.evaluator import Evaluator
from gpudoctor.lint.source.syntax_walk import bound_by, parts_of, walk

_NAMESPACES = frozenset({"exec", "globals", "locals", "vars"})
_TRY: tuple[type[ast.stmt], ...] = (ast.Try, ast.TryStar) if hasattr(ast, "TryStar") else (ast.Try,)
_MAY_HAVE_RUN = (ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, *_TRY)
"""What is in these has bound a name in an earlier round, or before it failed."""
_OWN_SCOPE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_APART = Divergence.RANK | Divergence.LOCAL | Divergence.BATCH_INDEX


def is_surely_unbound(m: Evaluator, scope: Hashable, name: str, missing: Values) -> bool:
    """Where a branch has left out a name, nothing else has bound it."""
    frame = m.frame
    if scope != frame.scope or frame.name == "<class>":
        return False
    # What ranks, or rounds, disagree about may be asked once more in other words.
    if any(not each.condition or each.condition.divergence & _APART for each in missing.bindings):
        return False
    if frame.function is not None:
        return name in _bound_plainly(frame.function.node)
    # In a module, Python or a star import may have the name, code that writes to its dictionary, or another cell.
    tree = frame.file.source.tree
    return (
        not frame.file.source.cells
        and not hasattr(builtins, name)
        and name in _bound_plainly(tree)
        and not _takes_names(tree)
    )


def note_missing(m: Evaluator, scope: Hashable, name: str, held: Values, node: ast.AST) -> None:
    """Log that ranks come here on which the name is not bound, where a test on the rank alone has left it out."""
    frame = m.frame
    here = held.restrict(m.path).bindings
    guard = _left_out_by(m, ValueSet([each for each in here if each.value is UNBOUND]))
    # `global logger`, in a function.
    function = frame.function if name not in frame.global_names else None
    if guard is None or not (scope == frame.scope or name in frame.global_names) or frame.name == "<class>":
        return
    tree = function.node if function is not None else frame.file.source.tree
    # What was asked before the name was bound is no question about it.
    before = (each.condition.literals for each in here if each.value is not UNBOUND)
    asked = m.path.literals.difference(frame.path.literals, *before)
    cells = frame.file.source.cells
    taken = function is None and (hasattr(builtins, name) or _takes_names(tree) or cells is not None)
    if name in _bound_plainly(tree) | _bound_once(tree) and not taken:
        error = "NameError" if function is None else "UnboundLocalError"
        m.emit(NameMissing, at=m.place(node), name=name, guard=guard, error=error, asked=asked)


def note_attribute_missing(m: Evaluator, owner: Instance | Module, held: Values, node: ast.AST) -> None:
    """Log that ranks come here on which the object has no such attribute, where a test on the rank alone has left it
    out."""
    missing = ValueSet([each for each in held.restrict(m.path).bindings if each.value is UNBOUND])
    guard = _left_out_by(m, missing)
    # `getattr(self, "log", None)` has something else then.
    plain = isinstance(node, ast.Attribute) and m.flag(owner, ObjectState.opened) is NO
    if guard is not None and plain:
        asked = m.path.literals
        m.emit(
            NameMissing, at=m.place(node), name=m.text(node, 40), guard=guard, error="AttributeError", asked=asked
        )  # fmt: skip


def note_none(m: Evaluator, owner: Values, node: ast.Attribute) -> None:
    """Log that an attribute is asked of what is None on some ranks, where a test on the rank alone has made it so."""
    here = owner.restrict(m.path).bindings
    missing = [each for each in here if each.value == NONE]
    guard = _left_out_by(m, ValueSet(missing)) if 0 < len(missing) < len(here) else None
    if guard is not None and not hasattr(None, node.attr):
        name = m.text(node.value, 40)
        asked = m.path.literals
        m.emit(
            NameMissing, at=m.place(node), name=name, guard=guard, error="AttributeError", is_none=True, asked=asked
        )  # fmt: skip


def _left_out_by(m: Evaluator, missing: Values) -> Literal | None:
    """The test on the rank alone that leads to these values."""
    conditions = [each.condition.difference(m.path).literals for each in missing.bindings]
    guards = [each for condition in conditions for each in condition if not _says_nothing(each, condition)]
    if len(conditions) != 1 or len(guards) != 1:
        return None
    (guard,) = guards
    return guard if guard.atom.ranks and guard.atom.divergence is Divergence.RANK else None


def _says_nothing(literal: Literal, beside: frozenset[Literal]) -> bool:
    """`if writer:`, which only who has one passes, was not passed by those who have none."""
    parts = literal.atom.key.literals if isinstance(literal.atom.key, AllOf) and not literal.holds else ()
    return any(each.negated() in beside for each in parts)


@for_one_program
def _bound_plainly(body: ast.AST) -> frozenset[str]:
    """The names that are bound by statements of a body under tests, or under nothing, and nowhere else."""
    plain, others = set(_bound_by(body, inside=False)), set(_bound_by(body, inside=True))
    return frozenset(plain - others)


@for_one_program
def _bound_once(body: ast.AST) -> frozenset[str]:
    """The names that one statement binds: whom a test keeps from it has none, in whichever round."""
    bindings = Counter([*_bound_by(body, inside=False), *_bound_by(body, inside=True)])
    return frozenset(name for name, times in bindings.items() if times == 1)


def _bound_by(node: ast.AST, inside: bool, within: bool = False) -> Iterator[str]:
    for each in parts_of(node):
        if isinstance(each, (ast.Global, ast.Nonlocal)) and inside:
            yield from each.names
        if within is inside and (name := bound_by(each)):
            yield name
        if not isinstance(each, _OWN_SCOPE):
            yield from _bound_by(each, inside, within or isinstance(each, _MAY_HAVE_RUN))
        elif inside:
            # They bind names of the scopes around a function.
            outer = (it for it in walk(each) if isinstance(it, (ast.Global, ast.Nonlocal)))
            yield from (name for it in outer for name in it.names)


@for_one_program
def _takes_names(tree: ast.AST) -> bool:
    """`from x import *`, `globals()["x"] = 1`, `exec(...)`."""
    for node in walk(tree):
        if isinstance(node, ast.alias) and node.name == "*":
            return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _NAMESPACES:
            return True
    return False
