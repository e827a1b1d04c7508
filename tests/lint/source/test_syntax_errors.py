"""What a file that does not parse is said to be, under whichever Python the tests run."""

import ast
import sys
import time
from functools import cache

import pytest

from gpudoctor.lint.source.file import Unreadable, parse_text
from gpudoctor.lint.source.newer_syntax import asked_again
from gpudoctor.lint.source.syntax_errors import explain

pytestmark = pytest.mark.slow

RUNNING = sys.version_info[:2]

NEWER = [
    ("3.11", "try:\n    x\nexcept* OSError:\n    y\n", "`except*`"),
    ("3.11", "x = a[*b]\n", "`*`"),
    ("3.11", "def f(*args: *Ts): pass\n", "`*`"),
    ("3.12", "type Batch = dict[str, Tensor]\n", "the `type` statement"),
    ("3.12", "type Batch[T] = dict[str, T]\n", "the `type` statement"),
    ("3.12", "def f[T](x: T) -> T:\n    return x\n", "`def …[T]`"),
    ("3.12", "async def f[T](x): pass\n", "`async def …[T]`"),
    ("3.12", "class A[T](B): pass\n", "`class …[T]`"),
    ("3.12", 'print(f"loss {loss["train"]:.3f}", flush=True)\n', "the same quotes inside an f-string"),
    ("3.12", "print(f'loss {loss['train']:.3f}')\n", "the same quotes inside an f-string"),
    ("3.12", "x = f\"{'\\n'.join(y)}\"\n", "inside an f-string"),
    ("3.12", 'x = f"{\n  a  # why\n}"\n', "an f-string over several lines"),
    ("3.13", "def f[T = int](x: T): pass\n", "the default of a type parameter"),
    ("3.13", "class A[T: Base = int]: pass\n", "the default of a type parameter"),
    ("3.14", "x = t'loss {loss}'\n", "a template string"),
    ("3.14", "try:\n    x\nexcept OSError, ValueError:\n    y\n", "`except A, B:`"),
    ("3.15", "lazy import torch\n", "`lazy import`"),
]
READ_BY_NONE = [
    "def f[T(x: T) -> T:\n    return x\n",
    "type X = \n",
    "type X Y = int\n",
    "x = f'{d['a'}'\n",
    "def f[T = ](x: T): pass\n",
    "try: pass\nexcept* : pass\n",
    "with (open('a') as a, open('b' as b):\n    pass\n",
    "try: pass\nexcept A B:\n    pass\n",
    "x = t'{a'\n",
    "lazy imprt foo\n",
    "class A[T]: pass\nx = (1, 2\ny = 3\n",
    "x = f'{}'\n",
    "f() = 1\n",
]
OF_SEVERAL_FORMS = [
    'x = f"""{\n  a  # why\n}"""\n',
    "class A[\n    T,\n](B): pass\n",
    "x = f'{'\\n'.join(y)}'\n",
    'x = f"{f"{f"{1}"}"}"\n',
]


def bad(text: str) -> Unreadable:
    source = parse_text(text.encode(), "/project/train.py", "train.py")
    assert isinstance(source, Unreadable)
    return source


@cache
def _asked() -> dict[str, Unreadable]:
    """All that is refused, asked in one process: loading the newer grammar takes longer than what is asked."""
    tables = (*(text for _, text, _ in NEWER), *OF_SEVERAL_FORMS, *READ_BY_NONE)
    files = {text: source for text in tables if isinstance(source := parse_text(text.encode(), "/x", "x"), Unreadable)}
    return dict(zip(files, asked_again(list(files.values())), strict=True))


@pytest.mark.parametrize(
    ("text", "line", "part"),
    [
        ("import torch\nprint torch\n", 2, "`print`"),
        ("for e in x:\n    print 'loss', e\n", 2, "`print`"),
        ('print "loss %f" % x\n', 1, "`print`"),
        ("exec code in names\n", 1, "`exec`"),
        ("try:\n    x\nexcept (A, B), error:\n    y\n", 3, "`except …, error:`"),
        ("raise ValueError, 'x'\n", 1, "`raise Error, …`"),
        ("x = `y`\n", 1, "backticks"),
        ("if a <> b: pass\n", 1, "`<>`"),
        ("x = 10L\n", 1, "`10L`"),
        ("os.chmod(path, 0755)\n", 1, "`0755`"),
        ("x = ur'a'\n", 1, "`ur`"),
        ("def f((a, b), c):\n    pass\n", 1, "a tuple among the parameters"),
        ("f = lambda (a, b): a\n", 1, "a tuple among the parameters"),
        ("if x:\n        y = 1\n\tz = 2\n", 3, "tabs and spaces"),
    ],
)
def test_python_2(text: str, line: int, part: str) -> None:
    found = bad(text)
    assert found.line == line
    assert part in found.message
    assert found.needs_python == "2.7"
    assert "PyTorch needs" in found.remedy


def test_except_without_parentheses_is_new_again() -> None:
    """Python 2 bound the error to the second name; Python 3.14 takes it for another type."""
    text = "try:\n    x\nexcept Exception, e:\n    y\n"
    if RUNNING < (3, 14):
        assert bad(text).needs_python == "2.7"
        assert bad(text.replace(", e", ", OSError")).needs_python == "3.14"


@pytest.mark.parametrize(("needs", "text", "part"), NEWER)
def test_newer_python(needs: str, text: str, part: str) -> None:
    if tuple(map(int, needs.split("."))) <= RUNNING:
        ast.parse(text)
        return
    # Once by what the line looks like, and once by a newer grammar.
    for found in (bad(text), _asked()[text]):
        assert found.is_newer
        assert found.needs_python == needs
        assert f"Python {needs}" in found.message
        assert f"Python {needs} or newer" in found.remedy
    assert part in bad(text).message


@pytest.mark.skipif(RUNNING >= (3, 14), reason="this Python reads all of it")
def test_newer_syntax_has_a_place() -> None:
    version, text = ("3.12", "type X = int\n") if RUNNING < (3, 12) else ("3.14", "x = t'{y}'\n")
    (found,) = asked_again([bad(f"import torch\n\nx = (\n    1,\n)\n{text}")])
    assert (found.is_newer, found.line) == (True, 6)
    assert found.message.startswith(f"this is syntax of Python {version} (")


@pytest.mark.skipif(RUNNING >= (3, 12), reason="this Python reads it")
@pytest.mark.parametrize("text", OF_SEVERAL_FORMS)
def test_newer_syntax_of_several_forms(text: str) -> None:
    assert _asked()[text].needs_python == "3.12"


@pytest.mark.parametrize("text", READ_BY_NONE)
def test_what_no_python_reads_stays_a_mistake(text: str) -> None:
    found = _asked()[text]
    assert not found.is_newer
    lines = text.split("\n")
    assert 1 <= found.line <= len(lines)
    assert 1 <= found.column <= len(lines[found.line - 1]) + 1


@pytest.mark.skipif(RUNNING >= (3, 12), reason="this Python reads it")
def test_the_place_that_is_wrong_for_all() -> None:
    (found,) = asked_again([bad("class A[T]: pass\n\n\nx = = 1\n")])
    assert (found.line, found.message) == (4, "invalid syntax")


@pytest.mark.skipif(RUNNING >= (3, 12), reason="this Python reads it")
def test_what_ends_the_newer_parser_costs_no_other_file() -> None:
    deep = f"type X = int\nx = {'-' * 60_000}1\n"
    found = asked_again([bad(text) for text in (deep, "class A[\n    T,\n]: pass\n", deep)])
    assert [each.needs_python for each in found] == ["3.12"] * 3
    assert "(" in found[1].message


def test_a_construct_that_this_python_knows_is_no_reason() -> None:
    error = SyntaxError("invalid syntax", ("x", 1, 6, "type X = = 1", 1, 7))
    assert explain(error, "type X = = 1\n", running=(3, 11)).needs_python == "3.12"
    assert explain(error, "type X = = 1\n", running=(3, 12)).message == "invalid syntax"


def test_before_async_was_a_keyword() -> None:
    found = bad("images = images.cuda(async=True)\n")
    assert (found.line, found.needs_python) == (1, "3.6")
    assert "`async` is a keyword" in found.message


@pytest.mark.parametrize(
    ("text", "line", "part"),
    [
        ("x = 1\n<<<<<<< HEAD\ny = 2\n=======\ny = 3\n>>>>>>> theirs\n", 2, "merge conflict"),
        ("import torch\n%matplotlib inline\n", 2, "`%matplotlib` is a command of a notebook"),
        ("!pip install torch\n", 1, "`!pip` is a command of a notebook"),
        (">>> import torch\n", 1, "interactive session"),
        ("import {{ cookiecutter.module }}\n", 1, "template"),
        ("#!/bin/bash\n#SBATCH -N 1\nsrun python train.py\n", 1, "shell script"),
    ],
)
def test_not_python(text: str, line: int, part: str) -> None:
    found = bad(text)
    assert (found.line, found.needs_python) == (line, "")
    assert part in found.message


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("def main():\n# x\n", 2),
        ("x = foo(1,\ny = 2\n", 1),
        ("print(“hi”)\n", 1),
        ("x = f'{y'\n", 1),
        ("x = 'abc\n", 1),
        ("if x\n    pass\n", 1),
        ("def f():\n    a\n  b\n", 3),
    ],
)
def test_slips_keep_the_words_of_the_parser(text: str, line: int) -> None:
    with pytest.raises(SyntaxError) as raised:
        ast.parse(text)
    found = bad(text)
    assert (found.line, found.message, found.needs_python) == (line, raised.value.msg, "")
    assert 1 <= found.column <= len(text.split("\n")[line - 1]) + 1


def test_a_place_is_always_inside_the_file() -> None:
    for error in (SyntaxError("x"), SyntaxError("x", ("f", 9, 99, None)), SyntaxError("x", ("f", 0, 0, ""))):
        problem = explain(error, "a\nbb")
        assert 1 <= problem.line <= 2
        assert 1 <= problem.column <= 3


def test_a_line_of_megabytes_is_no_long_wait() -> None:
    before = time.process_time()
    found = parse_text(b"import torch\nclass A[" + b"a=b" * 300_000 + b"\n", "/x.py", "x.py")
    assert isinstance(found, Unreadable)
    assert time.process_time() - before < 2
