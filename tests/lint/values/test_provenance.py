"""What values were computed from."""

from __future__ import annotations

from gpudoctor.lint.values.base import Const, Unknown
from gpudoctor.lint.values.making import made_of


def test_parts_that_are_reached_on_many_ways_come_once():
    value = start = Unknown("start", config=True)
    for _ in range(200):
        value = Unknown(("Add", value, value))
    parts = list(made_of((value, Const(1))))
    assert parts.count(start) == 1
    assert len(parts) < 1000
