"""Comments that silence findings: which they are, which lines they hold for, and what is said of those in vain."""

import re

import pytest

from gpudoctor.lint.source.file import SourceFile, parse_text
from gpudoctor.lint.suppression.directives import Suppressions

EPOCH = ("GPU302", "missing-set-epoch")
SHUFFLE = ("GPU303", "shuffle-with-sampler")
METRIC = ("GPU312", "metric-of-one-shard")
GUARD = ("GPU405", "spawn-without-main-guard")
RULES = [EPOCH, SHUFFLE, GUARD]


def comments(text: str) -> Suppressions:
    source = parse_text(text.encode(), "/project/train.py", "train.py")
    assert isinstance(source, SourceFile), source
    return Suppressions.of(source)


def silenced(text: str, lines: int = 0) -> list[tuple[int, str]]:
    """Every line and rule that is silenced."""
    found = comments(text)
    return [
        (line, code)
        for line in range(1, (lines or text.count("\n")) + 1)
        for code, name in RULES
        if found.silences(line, code, name)
    ]


EVERY = ["GPU302", "GPU303", "GPU405"]


@pytest.mark.parametrize(
    ("comment", "codes"),
    [
        ("# gpudoctor: ignore[GPU302]", ["GPU302"]),
        ("#gpudoctor:ignore[GPU302]", ["GPU302"]),
        ("# gpudoctor: ignore[missing-set-epoch]", ["GPU302"]),
        ("# gpudoctor: ignore[gpu302, Spawn-Without-Main-Guard]", ["GPU302", "GPU405"]),
        ("# gpudoctor: ignore[GPU302 GPU303]", ["GPU302", "GPU303"]),
        ("# gpudoctor: ignore [GPU302,GPU303,]", ["GPU302", "GPU303"]),
        ("# gpudoctor: ignore[GPU3]", ["GPU302", "GPU303"]),
        ("# gpudoctor: ignore['GPU302']", ["GPU302"]),
        ("# gpudoctor: ignore[GPU302", ["GPU302"]),
        ("# gpudoctor: ignore[GPU302] the order is meant to stay", ["GPU302"]),
        ("# gpudoctor: ignore", EVERY),
        ("# gpudoctor: ignore because the order is meant to stay", EVERY),
        ("# gpudoctor : Ignore", EVERY),
        ("# gpudoctor: ignore[]", []),
        ("# gpudoctor: ignore[E501]", []),
        ("# gpudoctor: ignored[GPU302]", []),
        ("# gpudoctor: see the page", []),
        ("# gpudoctor", []),
        ("# noqa", EVERY),
        ("# NOQA", EVERY),
        ("#noqa", EVERY),
        ("# noqa because", EVERY),
        ("# noqa: see below", EVERY),
        ("# noqa: GPU302", ["GPU302"]),
        ("# noqa:GPU302,E501", ["GPU302"]),
        ("# noqa: E501, GPU302 GPU405", ["GPU302", "GPU405"]),
        ("# noqa : GPU302", ["GPU302"]),
        ("# noqa: GPU302 since the order is meant to stay", ["GPU302"]),
        ("# noqa: E501", []),
        ("# flake8: noqa", []),
        ("# ruff: noqa: GPU302", []),
        ("# noqa-free", []),
        ("# type: ignore[misc]  # noqa: GPU303", ["GPU303"]),
        ("# noqa: E501  # gpudoctor: ignore[GPU303]", ["GPU303"]),
        ("# pylint: disable=all # gpudoctor: ignore[GPU405] # noqa: GPU302", ["GPU302", "GPU405"]),
    ],
)
def test_what_a_comment_silences(comment: str, codes: list[str]) -> None:
    assert silenced(f"x = 1\ny = 2  {comment}\nz = 3\n") == [(2, code) for code in codes]


def test_strings_are_no_comments() -> None:
    assert silenced('x = "# noqa"\ny = """\n# gpudoctor: ignore\n"""\nz = f"# noqa {x}"\n') == []


def lines_of(text: str) -> list[int]:
    return [line for line, code in silenced(text) if code == "GPU302"]


def test_the_end_of_a_statement_counts_for_all_of_it() -> None:
    call = "before = 1\nloader = DataLoader(\n    data,\n    shuffle=True,\n)  # noqa: GPU302\nafter = 1\n"
    assert lines_of(call) == [2, 3, 4, 5]
    assert lines_of('x = """\ntext\n"""  # noqa: GPU302\n') == [1, 2, 3]
    assert lines_of("x = 1 + \\\n    2  # noqa: GPU302\n") == [1, 2]


def test_inside_a_statement_only_the_line_counts() -> None:
    text = "x = f(  # noqa: GPU302\n    1,\n    2,  # gpudoctor: ignore[GPU302]\n    # noqa\n)\n"
    assert lines_of(text) == [1, 3, 4]


def test_a_header_is_a_statement_and_its_body_is_not() -> None:
    assert lines_of("for x in f(\n    1\n):  # noqa: GPU302\n    a = 1\n    b = 2\n") == [1, 2, 3]
    assert lines_of("@wrap\ndef f(\n    a,\n):  # noqa: GPU302\n    return a\n") == [2, 3, 4]
    assert lines_of("if x:\n    a = 1\n    b = 2  # noqa: GPU302\n") == [3]
    assert lines_of("if x: a = 1  # noqa: GPU302\n") == [1]


def test_a_comment_of_its_own_belongs_to_no_statement() -> None:
    assert lines_of("# noqa: GPU302\nx = f(\n    1)\n# noqa: GPU302\n") == [1, 4]
    assert lines_of("if x:\n    # noqa: GPU302\n    a = 1\n") == [2]


@pytest.mark.parametrize("place", ["{}\nx = 1\ny = 2\n", "x = 1  {}\ny = 2\n", "x = 1\ny = 2\n{}"])
def test_whole_file(place: str) -> None:
    found = comments(place.format("# gpudoctor: ignore-file[GPU302]"))
    assert found.silences(99, *EPOCH)
    assert not found.silences(1, *SHUFFLE)
    assert comments(place.format("# gpudoctor: ignore-file")).silences(99, *GUARD)


def test_lines_are_those_of_the_parser() -> None:
    assert lines_of("a = '\x0b\x0c\u2028'\nb = 1  # noqa: GPU302\n") == [2]
    source = parse_text(b"a = 1\r\nb = 2  # noqa: GPU302\r\n", "/x.py", "x.py")
    assert isinstance(source, SourceFile)
    assert Suppressions.of(source).silences(2, *EPOCH)


def test_no_newline_at_the_end() -> None:
    assert silenced("x = 1  # noqa: GPU302", lines=1) == [(1, "GPU302")]


def unused(text: str, used: tuple[int, tuple[str, str]] | None = None, **rules: list[tuple[str, str]]) -> list[str]:
    found = comments(text)
    if used:
        assert found.silences(used[0], *used[1])
    return [each.text for each in found.unused(**rules)]


def test_unused() -> None:
    text = "x = 1  # gpudoctor: ignore[GPU302, shuffle-with-sampler]\n"
    assert unused(text) == ["GPU302", "shuffle-with-sampler"]
    assert unused(text, (1, EPOCH)) == ["shuffle-with-sampler"]
    assert unused("x = 1  # gpudoctor: ignore\n") == [""]
    assert unused("x = 1  # gpudoctor: ignore\n", (1, EPOCH)) == []
    assert unused("# gpudoctor: ignore-file[GPU302]\nx = 1\n", (2, EPOCH)) == []


def test_comments_for_other_linters_are_never_unused() -> None:
    assert unused("x = 1  # noqa\ny = 2  # noqa: E501,F401\nz = 3  # noqa: GPU302, E501\n") == ["GPU302"]


def test_comments_about_rules_that_did_not_run_are_not_unused() -> None:
    text = "x = 1  # gpudoctor: ignore[GPU302]\ny = 1  # gpudoctor: ignore[GPU405]\n"
    assert unused(text, ran=[EPOCH]) == ["GPU302"]
    wide = "x = 1  # gpudoctor: ignore[GPU3]\ny = 1  # gpudoctor: ignore\n"
    assert unused(wide, ran=[EPOCH], not_run=[SHUFFLE, GUARD]) == []
    assert unused(wide, ran=[EPOCH, SHUFFLE], not_run=[GUARD]) == ["GPU3"]
    assert unused(wide, ran=RULES) == ["GPU3", ""]


def test_what_is_said_of_the_unused() -> None:
    lonely, inner, file = comments(
        "# gpudoctor: ignore[GPU302]\nf(\n1)  # gpudoctor: ignore[GPU302]\n# gpudoctor: ignore-file[GPU302]\n"
    ).unused()
    assert "put it at the end of the line" in lonely.remedy
    assert inner.message.endswith("on lines 2 to 3")
    assert (inner.location.line, inner.location.column, inner.location.end_column) == (3, 25, 31)
    [edit] = inner.fix.edits
    assert (edit.location.line, edit.location.column, edit.location.end_column, edit.text) == (3, 3, 32, "")
    assert file.message.endswith("in this file")
    assert "remove it" in file.remedy


ADVICE = re.compile(r"write `([^`]+)`$")


def unknown(text: str) -> list[tuple[str, str]]:
    """What is not known, and what is advised instead where one thing alone is near."""
    found = comments(text).unknown([METRIC, *RULES])
    return [(each.text, advised[1] if (advised := ADVICE.search(each.remedy)) else "") for each in found]


@pytest.mark.parametrize(
    ("comment", "expected"),
    [
        ("# gpudoctor: ignore[GPU302, GPU3, GPU, missing-set-epoch]", []),
        ("# gpudoctor: ignore[misssing-set-epoch]", [("misssing-set-epoch", "missing-set-epoch")]),
        ("# gpudoctor: ignore[missing_set_epoch]", [("missing_set_epoch", "missing-set-epoch")]),
        ("# gpudoctor: ignore[GPU3O2]", [("GPU3O2", "GPU302")]),
        ("# gpudoctor: ignore[gpu999]", [("gpu999", "")]),
        ("# gpudoctor: ignore[E501]", [("E501", "")]),
        ("# gpudoctor: ingore[GPU302]", [("ingore", "ignore")]),
        ("# gpudoctor: ignored", [("ignored", "ignore")]),
        ("# gpudoctor: ignore_file[GPU302]", [("ignore_file", "ignore-file")]),
        ("# gpudoctor: disable=GPU302", [("disable", "ignore")]),
        ("# gpudoctor: frobnicate[GPU302]", [("frobnicate", "")]),
        ("# gpudoctor: noqa", [("noqa", "ignore")]),
        ("# gpudoctor: see the page", []),
        ("# noqa: GPU302, E501, XYZ999", []),
        ("# noqa: GPU3021", [("GPU3021", "GPU302")]),
        ("# noqa", []),
    ],
)
def test_unknown(comment: str, expected: list[tuple[str, str]]) -> None:
    assert unknown(f"x = 1  {comment}\n") == expected


def test_what_is_said_of_the_unknown() -> None:
    name, code = comments("x = 1  # gpudoctor: ignore[mising-set-epoch, GPU999]\n").unknown(RULES)
    assert (name.location.line, name.location.column) == (1, 28)
    assert "`mising-set-epoch` is not a rule" in name.message
    assert name.remedy == "write `missing-set-epoch`"
    assert "gpudoctor rules" in code.remedy


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        ("GPU3021", "write `GPU302`"),
        ("GPU3O2", "write `GPU302`"),
        ("GPU304", "`gpudoctor rules` lists the codes and names"),
    ],
)
def test_other_digits_are_another_rule(code: str, remedy: str) -> None:
    (told,) = comments(f"x = 1  # gpudoctor: ignore[{code}]\n").unknown(RULES)
    assert told.remedy == remedy


def test_rules_of_other_packs() -> None:
    found = comments("x = 1  # noqa: ACME101\n")
    assert found.silences(1, "ACME101", "made-at-acme")
