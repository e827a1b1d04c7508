"""Deep calls in a block of the stack that is large enough for them."""

import pytest

from gpudoctor.lint.source.process_state import with_room


def _depth(left: int) -> int:
    return 0 if left == 0 else 1 + _depth(left - 1)


@with_room
def _roomy_depth(left: int) -> int:
    return _depth(left)


def test_hands_on_what_was_found() -> None:
    assert _roomy_depth(700) == 700


def test_hands_on_errors() -> None:
    with pytest.raises(RecursionError):
        _roomy_depth(10_000)


def test_takes_place_inside_itself() -> None:
    @with_room
    def outer() -> int:
        return _roomy_depth(100)

    assert outer() == 100
