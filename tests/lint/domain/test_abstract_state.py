"""What is known of objects: how a branch joins, and that each cell is described, written and read."""

import ast
import inspect
from collections.abc import Iterator

import pytest

from gpudoctor.lint.domain import abstract_state
from gpudoctor.lint.domain.abstract_state import (
    MAYBE,
    NO,
    YES,
    Flag,
    Ternary,
    ValueCell,
    ValueTable,
    known_of,
    written_of,
)
from gpudoctor.lint.domain.value import FALSE, TRUE, UNBOUND, Anonymous, Const, Unknown, Value, Values
from gpudoctor.lint.flow.condition import ALWAYS, Condition
from gpudoctor.lint.flow.store import Store
from tests.support.sources import sources
from tests.support.truth_tables import A, all_of

NOT_A = A.negated()
ONE, TWO = Values.of(Const(1)), Values.of(Const(2))
KINDS = (Flag, ValueCell, ValueTable)
RECORDS = [each for name, each in vars(abstract_state).items() if name.endswith("State")]
CELLS = [(record.__name__, name) for record in RECORDS for name, own in vars(record).items() if isinstance(own, KINDS)]


def after_branch(before: Values | None, then: Values | None, otherwise: Values | None) -> Values:
    """What the store holds behind `if A: ... else: ...`, of which a side writes what is not None."""
    store: Store[Value] = Store()
    if before is not None:
        store.set("cell", before)
    sides = []
    for literal, written in ((A, then), (NOT_A, otherwise)):
        with store.delta() as layer:
            if written is not None:
                store.set("cell", written)
        sides.append((all_of(literal), layer))
    store.merge(sides, Values.of(UNBOUND), lambda key, values: values)
    found = store.get("cell")
    assert found is not None
    return found


YES_SET, NO_SET = Values.of(TRUE), Values.of(FALSE)


@pytest.mark.parametrize(
    ("before", "then", "otherwise", "joined", "where_a", "where_not_a"),
    [
        (None, YES_SET, None, MAYBE, YES, NO),
        (None, YES_SET, YES_SET, YES, YES, YES),
        (None, YES_SET, NO_SET, MAYBE, YES, NO),
        (None, NO_SET, None, NO, NO, NO),
        (YES_SET, NO_SET, None, MAYBE, NO, YES),
        (YES_SET, NO_SET, NO_SET, NO, NO, NO),
        (None, Values.of(Unknown(Anonymous("widened"))), None, MAYBE, MAYBE, NO),
    ],
)
def test_a_flag_joins_to_maybe_and_is_definite_where_the_test_is_decided(
    before: Values | None,
    then: Values | None,
    otherwise: Values | None,
    joined: Ternary,
    where_a: Ternary,
    where_not_a: Ternary,
):
    found = after_branch(before, then, otherwise)
    assert known_of(found, ALWAYS) is joined
    assert known_of(found, all_of(A)) is where_a
    assert known_of(found, all_of(NOT_A)) is where_not_a


def values(found: Values | None) -> list[Value] | None:
    return None if found is None else list(found)


@pytest.mark.parametrize(
    ("path", "either", "collected"),
    [
        (ALWAYS, [Const(1), UNBOUND], [Const(1)]),
        (all_of(A), [Const(1)], [Const(1)]),
        # Nobody has written it on the way here, whatever happened on another one.
        (all_of(NOT_A), None, None),
    ],
)
def test_a_cell_says_where_it_was_not_written_and_one_that_collects_does_not(
    path: Condition, either: list[Value] | None, collected: list[Value] | None
):
    found = after_branch(None, ONE, None)
    assert values(written_of(found, path, collects=False)) == either
    assert values(written_of(found, path, collects=True)) == collected


def test_a_cell_keeps_what_both_sides_wrote():
    found = after_branch(None, ONE, TWO)
    assert values(written_of(found, ALWAYS, collects=False)) == [Const(1), Const(2)]
    assert values(written_of(found, all_of(NOT_A), collects=False)) == [Const(2)]


def test_each_cell_is_described():
    tree = ast.parse(inspect.getsource(abstract_state))
    bare = []
    for record in (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name.endswith("State")):
        for cell, behind in zip(record.body, [*record.body[1:], None], strict=True):
            described = isinstance(behind, ast.Expr) and isinstance(behind.value, ast.Constant)
            if isinstance(cell, ast.AnnAssign) and not described:
                bare.append(f"{record.name}.{ast.unparse(cell.target)}")
    assert not bare
    assert len(CELLS) > 80


def test_a_cell_shows_itself_by_its_name():
    assert repr(abstract_state.ModuleState.device) == "ModuleState.device"


# Sets have another order in each process, and the workers of pytest-xdist must name a test alike.
@pytest.mark.parametrize(
    "names", [{"set_state", "set_flag", "set_entry"}, {"state", "flag", "entry"}], ids=["written", "read"]
)
def test_somebody_writes_and_somebody_reads_each_cell(names: set[str]):
    used: set[tuple[str, str]] = set()
    # A cell may be chosen, or be one of several in a loop: then its name stands near the call.
    for function in _functions_with_cells():
        attributes = [node for node in ast.walk(function) if isinstance(node, ast.Attribute)]
        if names & {node.attr for node in attributes}:
            used.update((node.value.id, node.attr) for node in attributes if isinstance(node.value, ast.Name))
    assert not set(CELLS) - used


def _functions_with_cells() -> Iterator[ast.FunctionDef]:
    for source in sources().values():
        if "abstract_state import" in source.text:
            yield from (node for node in source.tree.body if isinstance(node, ast.FunctionDef))
            classes = [node for node in source.tree.body if isinstance(node, ast.ClassDef)]
            yield from (node for each in classes for node in each.body if isinstance(node, ast.FunctionDef))
