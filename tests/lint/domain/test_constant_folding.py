"""Computing with a program's constants: right where it is done, and never larger than its room."""

import ast
import tracemalloc
from collections.abc import Callable

import pytest

from gpudoctor.lint.domain.constant_folding import (
    MAX_BITS,
    MAX_TEXT,
    as_text,
    compared,
    converted,
    joined,
    negative,
    of_text,
    operated,
    whole_number,
)
from gpudoctor.lint.domain.value import Const

NAN = Const(float("nan"))
LONG = "a" * MAX_TEXT

COMPUTED = {
    "a sum": (lambda: operated(ast.Add(), Const(2), Const(3)), 5),
    "a path": (lambda: operated(ast.Add(), Const("out/"), Const("a.pt")), "out/a.pt"),
    "a quotient": (lambda: operated(ast.FloorDiv(), Const(9), Const(2)), 4),
    "a format": (lambda: operated(ast.Mod(), Const("epoch %03d"), Const(7)), "epoch 007"),
    "a remainder": (lambda: operated(ast.Mod(), Const(10**200), Const(7)), 10**200 % 7),
    "a sign": (lambda: negative(Const(0.5)), -0.5),
    "a number of a text": (lambda: converted("int", Const(" 12 ")), 12),
    "a float": (lambda: converted("float", Const("1e-3")), 0.001),
    "the text of a number": (lambda: as_text(Const(1.5)), "1.5"),
    "a text in pieces": (lambda: joined([Const("cuda:"), Const(0)]), "cuda:0"),
    "small letters": (lambda: of_text("NCCL", "lower", []), "nccl"),
    "a text replaced": (lambda: of_text("a.b", "replace", [Const("."), Const("/")]), "a/b"),
    "a text that grows a little": (lambda: of_text("a" * 100, "replace", [Const("a"), Const("ab")]), "ab" * 100),
}


@pytest.mark.parametrize(("fold", "expected"), COMPUTED.values(), ids=COMPUTED)
def test_constants_are_computed(fold: Callable[[], Const | None], expected: object):
    assert fold() == Const(expected)  # type: ignore[arg-type]


TOO_LARGE = {
    "a width": lambda: operated(ast.Mod(), Const("%6000000d"), Const(3)),
    "a precision": lambda: operated(ast.Mod(), Const("%.6000000f"), Const(0.1)),
    "many widths": lambda: operated(ast.Mod(), Const("%9999d" * 300), Const(3)),
    "a width of bytes": lambda: operated(ast.Mod(), Const(b"%6000000d"), Const(3)),
    "a width in an operator on texts": lambda: operated(ast.Mult(), Const("ab"), Const(10**7)),
    "a product": lambda: operated(ast.Mult(), Const(1 << MAX_BITS - 1), Const(1 << MAX_BITS - 1)),
    "two long texts": lambda: operated(ast.Add(), Const(LONG), Const(LONG)),
    "each letter replaced by a long text": lambda: of_text(LONG, "replace", [Const("a"), Const(LONG)]),
    "a long text between all letters": lambda: of_text(LONG, "replace", [Const(""), Const(LONG)]),
    "digits": lambda: converted("int", Const("9" * 5_000)),
    "a float that is a large number": lambda: converted("int", Const(1.7e308)),
    "many pieces": lambda: joined([Const(LONG)] * 1_000),
    "the text of many bytes": lambda: as_text(Const(bytes(MAX_TEXT))),
    "a whole number": lambda: whole_number("9" * 5_000),
}


@pytest.mark.parametrize("fold", TOO_LARGE.values(), ids=TOO_LARGE)
def test_what_would_be_large_is_never_made(fold: Callable[[], object]):
    tracemalloc.start()
    try:
        assert fold() is None
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


REFUSED = {
    "a text and a number": lambda: operated(ast.Add(), Const("a"), Const(1)),
    "a division by nothing": lambda: operated(ast.Div(), Const(1), Const(0)),
    "a format without its value": lambda: operated(ast.Mod(), Const("%d %d"), Const(1)),
    "infinity as a whole number": lambda: converted("int", Const(float("inf"))),
    "a number that is none": lambda: converted("int", NAN),
    "a sign of a text": lambda: negative(Const("a")),
    "an order of a text and a number": lambda: compared(ast.Lt(), Const("a"), Const(1)),
    "a text in a number": lambda: compared(ast.In(), Const("a"), Const(1)),
    "a method with the wrong arguments": lambda: of_text("a", "replace", []),
    "a method that computes nothing here": lambda: of_text("a", "ljust", [Const(10)]),
}


@pytest.mark.parametrize("fold", REFUSED.values(), ids=REFUSED)
def test_what_python_refuses_is_not_known(fold: Callable[[], object]):
    assert fold() is None


@pytest.mark.parametrize("text", ["", "-", "--5", "²", "٣", "1.0", "0x10", "1_0", " 1", "1\n"])
def test_only_plain_digits_are_a_whole_number(text: str):
    assert whole_number(text) is None


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("-1", -1), ("+12", 12), ("007", 7)])
def test_plain_digits_are_a_whole_number(text: str, number: int):
    assert whole_number(text) == number
