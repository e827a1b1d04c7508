"""Conditions over a few atoms, and every way in which those atoms can come out."""

from collections.abc import Iterable
from itertools import product

from gpudoctor.lint.flow.condition import ALWAYS, Atom, Condition, Literal
from gpudoctor.lint.flow.valueset import Binding, ValueSet

ATOMS = tuple(Atom(name, text=name) for name in "abc")
A, B, C = (Literal(atom, True) for atom in ATOMS)
BOTH = Literal(Atom("a and b", text="a and b", every=(A, B)), True)
EITHER = Literal(Atom("a or b", text="a or b", none=(A, B)), True)

Row = dict[Atom, bool]
"""One way in which all atoms come out."""


def _row(answers: tuple[bool, ...]) -> Row:
    row = dict(zip(ATOMS, answers, strict=True))
    row[BOTH.atom] = answers[0] and answers[1]
    row[EITHER.atom] = answers[0] or answers[1]
    return row


ROWS = [_row(answers) for answers in product((True, False), repeat=len(ATOMS))]


def holds(condition: Condition, row: Row) -> bool:
    """The condition is met where the atoms come out like this."""
    return all(row[literal.atom] is literal.holds for literal in condition)


def all_of(*literals: Literal) -> Condition:
    """The condition that asks all of these."""
    condition = ALWAYS
    for literal in literals:
        condition = condition.conjoined_with(literal)
    return condition


def conditions(literals: Iterable[Literal] = (A, B, C)) -> list[Condition]:
    """Every condition that asks each of these, asks its opposite, or does not care."""
    choices = [(None, literal, literal.negated()) for literal in literals]
    return [all_of(*(each for each in chosen if each is not None)) for chosen in product(*choices)]


def in_row(values: ValueSet[str], row: Row) -> set[str]:
    """The values that are possible where the atoms come out like this."""
    return {binding.value for binding in values.bindings if holds(binding.condition, row)}


def sets() -> list[ValueSet[str]]:
    """Sets of one and of two values, under conditions of every kind."""
    single = [Binding(value, when) for value in "xy" for when in conditions((A, B))]
    return [ValueSet(chosen) for count in (1, 2) for chosen in product(single, repeat=count)]
