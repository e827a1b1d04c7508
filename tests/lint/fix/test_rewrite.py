"""What changes make of a file: only they show, and what is new looks like what is there."""

import ast
from textwrap import dedent

import pytest

from gpudoctor.diagnostic import Edit, Location
from gpudoctor.lint.fix.changes import (
    Moved,
    NewArguments,
    NewDecorator,
    NewExpression,
    NewHeader,
    NewLines,
    NewName,
    NewStatement,
    NoFix,
    Removed,
    TreeChange,
    Where,
)
from gpudoctor.lint.fix.edits import apply
from gpudoctor.lint.fix.rewrite import FileRewrite, rewrite_of
from gpudoctor.lint.source.file import SourceFile, parse_text


def at(text: str, found: str) -> Location:
    """Where a part of a text stands for the first time."""
    start = text.index(found)
    return _source(text).stretch(start, start + len(found))


def changed(text: str, *changes: TreeChange) -> str:
    source = _source(text)
    spans = FileRewrite(text).spans(changes)
    after = apply(text, [Edit(source.stretch(start, end), new) for start, end, new in spans])
    ast.parse(after)
    return after


def _source(text: str) -> SourceFile:
    source = parse_text(text.encode(), "/train.py", "train.py")
    assert isinstance(source, SourceFile)
    return source


def lines(where: Where, text: str, beside: str, *new: str) -> str:
    text = dedent(text)
    return changed(text, NewLines(at(text, beside), new, where))


@pytest.mark.parametrize(
    ("where", "after"),
    [
        (Where.BEFORE, "a()\nnew()\nb()\nc()  # both\n"),
        (Where.AFTER, "a()\nb()\nnew()\nc()  # both\n"),
    ],
)
def test_several_statements_on_a_line(where: Where, after: str) -> None:
    assert lines(where, "a(); b(); c()  # both\n", "b()", "new()") == after


@pytest.mark.parametrize(
    ("header", "more"),
    [("if x:", ""), ("for x in y:", "else: pass\n"), ("with x:", ""), ("def f():", ""), ("while x:", "\nz = 1\n")],
)
def test_a_body_behind_the_colon(header: str, more: str) -> None:
    text = f"{header} a(); b()  # both\n{more}"
    assert lines(Where.FIRST, text, "a()", "new()") == f"{header}\n    new()\n    a()\n    b()  # both\n{more}"
    assert lines(Where.AFTER, text, "b()", "new()") == f"{header}\n    a()\n    b()  # both\n    new()\n{more}"


def test_behind_the_colon_of_an_else_in_tabs() -> None:
    text = "if x:\n\tif y: a()\n\telse: b()\n"
    assert lines(Where.BEFORE, text, "b()", "if z:\n\tnew()") == (
        "if x:\n\tif y: a()\n\telse:\n\t\tif z:\n\t\t\tnew()\n\t\tb()\n"
    )


def test_comments_above_stay_with_what_they_are_about() -> None:
    text = """\
        def f():
            # What f is for.

            # About a.
            a()

            # About b.
            b()
            # The end.
        """
    assert lines(Where.BEFORE, text, "a()", "new()") == dedent(text).replace(
        "    # About a.", "    new()\n    # About a."
    )
    assert lines(Where.FIRST, text, "a()", "new()") == dedent(text).replace("f():\n", "f():\n    new()\n")
    assert lines(Where.AFTER, text, "b()", "new()") == dedent(text).replace("b()\n", "b()\n    new()\n")


def test_what_stands_at_the_top_of_a_file_stays_there() -> None:
    head = "#!/usr/bin/env python\n# coding: utf-8\n"
    assert lines(Where.BEFORE, f"{head}a()\n", "a()", "new()") == f"{head}new()\na()\n"
    head += "\n"
    assert lines(Where.BEFORE, f"{head}# About a.\na()\n", "a()", "new()") == f"{head}new()\n# About a.\na()\n"


def test_before_a_decorated_function() -> None:
    text = "import x\n\n\n# Why.\n@x.cached  # fast\n@x.logged\ndef f():\n    pass\n"
    assert lines(Where.BEFORE, text, "def f():\n    pass", "new()") == text.replace("# Why", "new()\n# Why")
    decorated = changed(text, NewDecorator(at(text, "def f():\n    pass"), "x.no_grad()"))
    assert decorated == text.replace("@x.logged\n", "@x.logged\n@x.no_grad()\n")
    argument = changed(text, NewExpression(at(text, "x.logged"), "x.logged(1)"))
    assert argument == text.replace("x.logged", "x.logged(1)")


def test_a_statement_under_a_header() -> None:
    text = dedent(
        '''\
        def f():
            # Why.
            save(model,
                 """
        as it is
            """,
                 path)  # there

            done(); more()
        '''
    )
    whole = text[text.index("save") : text.index("  # there")]
    assert changed(text, NewHeader(at(text, whole), "if rank == 0:")) == dedent(
        '''\
        def f():
            # Why.
            if rank == 0:
                save(model,
                     """
        as it is
            """,
                     path)  # there

            done(); more()
        '''
    )
    assert changed(text, NewHeader(at(text, whole), "model.eval()\nwith x:")) == changed(
        text, NewHeader(at(text, whole), "with x:")
    ).replace("with x:", "model.eval()\n    with x:")
    assert changed(text, NewHeader(at(text, "done()"), "if rank == 0:")) == text.replace(
        "    done(); more()", "    if rank == 0:\n        done()\n    more()"
    )


def test_statements_go() -> None:
    text = "a()\n\n# Why.\nb()\n\nc(); d()  # two\nif x: e()\n"
    assert changed(text, Removed(at(text, "b()"))) == text.replace("b()\n\n", "\n")
    assert changed(text, Removed(at(text, "c()"))) == text.replace("c(); ", "")
    assert changed(text, Removed(at(text, "e()"))) == text.replace("if x: e()", "if x:\n    pass")
    above = "a()\n\nb()\n\nc()\n"
    assert changed(above, Removed(at(above, "b()"))) == "a()\n\nc()\n"


def test_a_statement_moves_with_its_comments() -> None:
    text = "a()\n\n# About b.\nb()\n\n# About c.\nc()  # there\nd()\n"
    assert changed(text, Moved(at(text, "c()"), at(text, "b()"))) == (
        "a()\n\n# About c.\nc()  # there\n# About b.\nb()\n\nd()\n"
    )
    short = "a(); b(); c()\n"
    assert changed(short, Moved(at(short, "c()"), at(short, "b()"))) == "a()\nc()\nb()\n"


@pytest.mark.parametrize(
    ("call", "after"),
    [
        ("f()", "f(new=1)"),
        ("f( )", "f( new=1)"),
        ("f(a, b)", "f(a, b, new=1)"),
        ("f(a, b,)", "f(a, b, new=1,)"),
        ("f(\n    a, b,\n)", "f(\n    a, b, new=1,\n)"),
        ("f(\n    a,  # one\n    b,  # two\n)", "f(\n    a,  # one\n    b,  # two\n    new=1,\n)"),
        ("f(\n    a,\n    b  # two\n)", "f(\n    a,\n    b,  # two\n    new=1\n)"),
        ("f(a,\n  b)", "f(a,\n  b,\n  new=1)"),
        ("f(\n    a,\n    # The last.\n)", "f(\n    a,\n    new=1,\n    # The last.\n)"),
        ("f(a, *b, c=(d))", "f(a, *b, c=(d), new=1)"),
        (f"f({'a' * 60}, {'b' * 40})", f"f({'a' * 60}, {'b' * 40},\n  new=1)"),
    ],
)
def test_an_argument_is_added(call: str, after: str) -> None:
    assert changed(f"{call}\n", NewArguments(at(f"{call}\n", call), added=("new=1",))) == f"{after}\n"


@pytest.mark.parametrize(
    ("call", "after"),
    [
        ("f(gone)", "f()"),
        ("f(\n    gone,\n)", "f()"),
        ("f(gone, b)", "f(b)"),
        ("f(a, gone)", "f(a)"),
        ("f(a, gone,)", "f(a,)"),
        ("f(a, b=(gone), c=d)", "f(a, c=d)"),
        ("f(\n    a,  # one\n    gone,  # two\n    c,  # three\n)", "f(\n    a,  # one\n    c,  # three\n)"),
        ("f(\n    a,  # one\n    gone  # two\n)", "f(\n    a  # one\n)"),
        ("f(a, gone,\n  c)", "f(a,\n  c)"),
        ("f(a,\n  gone, c)", "f(a,\n  c)"),
        ("f(a,\n  gone)", "f(a)"),
    ],
)
def test_an_argument_goes(call: str, after: str) -> None:
    assert changed(f"{call}\n", NewArguments(at(f"{call}\n", call), removed=(at(f"{call}\n", "gone"),))) == f"{after}\n"


def test_a_new_line_in_tabs_begins_with_tabs() -> None:
    call = f"ffff({'a' * 60}, {'b' * 40})"
    text = f"def g():\n\tif x:\n\t\t{call}\n"
    assert changed(text, NewArguments(at(text, call), added=("new=1",))) == text.replace(
        "b)\n", "b,\n\t\t     new=1)\n"
    )


def test_an_argument_changes_and_others_come_and_go() -> None:
    text = "x = f(a, (b), c=d)\n"
    change = NewArguments(at(text, "f(a, (b), c=d)"), ((at(text, "b"), "g(b)"),), ("e=1", "f=2"), (at(text, "d"),))
    assert changed(text, change) == "x = f(a, (g(b)), e=1, f=2)\n"


@pytest.mark.parametrize(
    ("names", "after"),
    [
        ("from m import A, C", "from m import A, B, C"),
        ("from m import C", "from m import B, C"),
        ("from m import A  # why", "from m import A, B  # why"),
        ("from m import C, A", "from m import C, A, B"),
        ("from m import (\n    A,  # one\n    C,\n)", "from m import (\n    A,  # one\n    B,\n    C,\n)"),
        ("from m import (\n    A\n)", "from m import (\n    A,\n    B\n)"),
        ("from m import (A,\n               C as D)", "from m import (A,\n               B,\n               C as D)"),
        ("import x; from m import A; y = 1", "import x; from m import A, B; y = 1"),
    ],
)
def test_a_name_is_imported(names: str, after: str) -> None:
    start = names[names.index("from") :].partition(";")[0].partition("  #")[0]
    assert changed(f"{names}\n", NewName(at(f"{names}\n", start), "B")) == f"{after}\n"


def test_code_of_several_lines_keeps_its_layout() -> None:
    text = "def f():\n    g(a,\n      b)\n    h()\n"
    call = "g(a,\n      b)"
    assert changed(text, NewStatement(at(text, call), f"x = {call}")) == text.replace("g(", "x = g(")
    assert changed(text, NewExpression(at(text, "h()"), f"h({call})")) == text.replace("h()", f"h({call})")


def test_brackets_are_kept_once() -> None:
    text = "x = (a)\ny = f((b))\nz = [(c, d)]\n"
    changes = (
        NewExpression(at(text, "a"), "a + 1"),
        NewExpression(at(text, "b"), "(b,)"),
        NewExpression(at(text, "(c, d)"), "e"),
    )
    assert changed(text, *changes) == "x = (a + 1)\ny = f((b,))\nz = [e]\n"


@pytest.mark.parametrize(
    "text", ["a = 1\nb = 2", "\n\na = 1\nb = 2\n\n\n", "a = 1\n\x0c\nb = 2\n", "a = 1\nb = '''\n\t'''"]
)
def test_all_else_stays(text: str) -> None:
    assert changed(text, NewExpression(at(text, "1"), "10")) == text.replace("1", "10")


def test_changes_of_what_goes_are_refused() -> None:
    text = "f(g(a), b)\n"
    outer, inner = NewExpression(at(text, "g(a)"), "c"), NewExpression(at(text, "a"), "d")
    gone = NewArguments(at(text, "f(g(a), b)"), removed=(at(text, "g(a)"),))
    for changes in ((outer, inner), (gone, inner), (outer, NewExpression(outer.at, "e"))):
        with pytest.raises(NoFix, match="in each other's way"):
            FileRewrite(text).spans(changes)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    ["x = " + " + ".join(["1"] * 2_000) + "\n", "x = " + "f(" * 90 + "1" + ")" * 90 + "\nx = a" + ".b(1)" * 500 + "\n"],
)
def test_what_is_nested_too_deeply_has_no_fix(text: str) -> None:
    assert rewrite_of(text) is None


def test_what_libcst_takes_for_invalid_has_no_fix() -> None:
    text = "pairs = [(x if a else b)for x in y]\n"
    compile(text, "train.py", "exec")
    assert rewrite_of(text) is None


def test_only_what_differs_is_an_edit() -> None:
    text = "import os\n\nmodel = f(a, shuffle=True)\nprint(1)\n"
    changes = (
        NewLines(at(text, "import os"), ("import torch",), Where.AFTER),
        NewArguments(at(text, "f(a, shuffle=True)"), removed=(at(text, "True"),)),
        NewHeader(at(text, "print(1)"), "if rank == 0:"),
    )
    start = text.index("print")
    assert FileRewrite("if x:\n    a = 1\n").spans([NewStatement(at("if x:\n    a = 1\n", "a = 1"), "b = a = 1")]) == [
        (10, 10, "b = ")
    ]
    assert FileRewrite(text).spans(changes) == [
        (10, 10, "import torch\n"),
        (text.index(", sh"), text.index(")\np"), ""),
        (start, start, "if rank == 0:\n    "),
    ]
