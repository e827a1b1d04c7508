"""Why an execution begins again: what it may take for granted of the settings, once they were asked about."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from gpudoctor.lint.domain.symbols import OneOf
from gpudoctor.lint.domain.value import Const, Truth
from gpudoctor.lint.flow.condition import Inequality, Literal
from gpudoctor.lint.flow.valueset import ValueSet

if TYPE_CHECKING:
    from gpudoctor.lint.domain.rank import RankKind
    from gpudoctor.lint.domain.value import Term

_ONE = (("==", 1, True), (">", 1, False), ("<", 2, True))


class RefineAndRestart(Exception):
    """A switch was learnt: the execution begins again with it decided."""


class NeedsWorld(Exception):
    """The program launches its processes itself: it must be executed in another world."""


def asks_for_one(literal: Literal) -> bool:
    """It holds where there is one of something: `processes == 1`, `not processes > 1`, whichever of two settings says
    how many processes there are."""
    key, bound = literal.atom.key, literal.atom.bound
    if isinstance(key, OneOf):
        return all(
            isinstance(each, Truth) and asks_for_one(each.literal if literal.holds else each.literal.negated())
            for each in key.values
        )
    return isinstance(bound, Inequality) and (bound.kind, bound.number, literal.holds) in _ONE


def is_one(number: object) -> bool:
    """These values are the number one."""
    return isinstance(number, ValueSet) and number.single == Const(1)


def rank_of(setting: Term, kind: RankKind) -> Hashable:
    """The key of the assumption that a setting is a rank."""
    return kind, setting
