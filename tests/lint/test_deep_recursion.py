"""Deep calls in a block of the stack that is large enough for them."""

from __future__ import annotations

import pytest

from gpudoctor.lint.process_state import with_room


def _depth(left: int) -> int:
    return 0 if left == 0 else 1 + _depth(left - 1)


def test_hands_on_what_was_found() -> None:
    assert with_room(lambda: _depth(700)) == 700


def test_hands_on_errors() -> None:
    with pytest.raises(RecursionError):
        with_room(lambda: _depth(10_000))


def test_takes_place_inside_itself() -> None:
    assert with_room(lambda: with_room(lambda: _depth(100))) == 100
