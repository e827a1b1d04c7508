"""What values were computed from."""

from gpudoctor.lint.domain.provenance import provenance_of
from gpudoctor.lint.domain.symbols import Operation, Setting
from gpudoctor.lint.domain.value import Const, Unknown


def test_parts_that_are_reached_on_many_ways_come_once():
    value = start = Unknown(Setting("start"), config=True)
    for _ in range(200):
        value = Unknown(Operation("+", value, value))
    parts = list(provenance_of((value, Const(1))))
    assert parts.count(start) == 1
    assert len(parts) < 1000
