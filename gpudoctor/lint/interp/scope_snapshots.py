"""What the program calls its objects at chosen places: kept for those who want to write code there.

Nothing is kept unless a place is asked for, and then the program is executed once more.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.value import UNBOUND, Values
from gpudoctor.lint.flow.valueset import ValueSet
from gpudoctor.lint.interp.evaluator import Evaluator
from gpudoctor.lint.source.syntax_walk import walk

Names = dict[str, Values]
"""What each name holds: `rank`, `self.device`, `args.local_rank`."""
_MOST_VISITS = 8
"""Of one place; a loop in a loop comes by more often, and tells nothing new."""
_MOST_EVALUATIONS = 40_000
"""Of all places together, to look up what is written around them. Real programs take a tenth of it; then names alone
are noted. Counted, so that a busy machine offers the same fixes."""


class ScopeSnapshots:
    """Notes the names around the statements at some places, before and after each time they are executed."""

    def __init__(self, places: frozenset[Location]) -> None:
        self._places = places
        self.before: dict[Location, list[Names]] = {}
        self.after: dict[Location, list[Names]] = {}
        self.chains: dict[ast.AST, dict[str, ast.expr]] = {}
        self._evaluations = 0

    def note(self, m: Evaluator, statement: ast.stmt, done: bool) -> None:
        """Write down what is in sight of the statement now, where it is one of those that were asked for."""
        place = m.place(statement)
        book = self.after if done else self.before
        if place in self._places and len(book.setdefault(place, [])) < _MOST_VISITS:
            begun, few = m.evaluations, self._evaluations < _MOST_EVALUATIONS
            book[place].append(_in_sight(m, _written_around(self, m) if few else {}))
            self._evaluations += m.evaluations - begun


def _written_around(snapshots: ScopeSnapshots, m: Evaluator) -> dict[str, ast.expr]:
    """The attributes and entries that the function uses, by their text: looked up once for all places."""
    around = m.frame.function.node if m.frame.function is not None else m.frame.file.source.tree
    if around not in snapshots.chains:
        chains: dict[str, ast.expr] = {}
        for node in _chains(m, around):
            chains.setdefault(_written(m, node), node)
        snapshots.chains[around] = {text: node for text, node in chains.items() if text}
    return snapshots.chains[around]


def _in_sight(m: Evaluator, chains: dict[str, ast.expr]) -> Names:
    found: Names = {}
    # Outermost first, so that what is nearer wins.
    for scope in reversed(m.frame.scopes):
        for name in m.store.names(scope):
            values = m.store.get((scope, name))
            if values is not None and name.isidentifier():
                found[name] = _bound(values).restrict(m.path)
    found |= _of_receiver(m)
    # Looking must leave nothing behind: a property is code, too.
    with m.events_suppressed():
        for text, node in chains.items():
            if text not in found:
                with m.fork(m.path):
                    found[text] = m.evaluate(node).restrict(m.path)
    return found


def _of_receiver(m: Evaluator) -> Names:
    """The attributes of the object whose method this is."""
    function, receiver = m.frame.function, m.frame.receiver
    if function is None or receiver is None:
        return {}
    name = function.node.args.args[0].arg if function.node.args.args else ""
    held = {each: m.store.get((receiver, each)) for each in m.store.names(receiver) if name and each.isidentifier()}
    return {f"{name}.{each}": _bound(values).restrict(m.path) for each, values in held.items() if values is not None}


def _bound(values: Values) -> Values:
    """Without the paths on which it is unbound."""
    return ValueSet([each for each in values.bindings if each.value is not UNBOUND])


def _chains(m: Evaluator, around: ast.AST) -> Iterator[ast.expr]:
    """The attributes and entries of names that code reads or writes: `args.gpu`, `parts["loader"]`."""
    for node in walk(around):
        if isinstance(node, (ast.Attribute, ast.Subscript)) and _is_plain(node):
            yield node if isinstance(node.ctx, ast.Load) else m.as_read(node)


def _written(m: Evaluator, node: ast.expr) -> str:
    """The text of a node as it stands there, with the quotes that the user likes; none where it goes over lines."""
    at = m.place(node)
    return m.frame.file.source.lines[at.line - 1][at.column - 1 : at.end_column - 1] if at.line == at.end_line else ""


def _is_plain(node: ast.expr) -> bool:
    """A name, or attributes of one, or entries that are called by a text."""
    while isinstance(node, ast.Attribute) or (isinstance(node, ast.Subscript) and _is_text(node.slice)):
        node = node.value
    return isinstance(node, ast.Name)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
