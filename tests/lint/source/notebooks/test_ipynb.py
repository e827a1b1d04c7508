"""Notebooks: which cells are read, what becomes of magics, and the way from a line of the program back to its cell."""

import ast
import json
from typing import Any

import pytest

from gpudoctor.diagnostic import Cell, Edit, Location
from gpudoctor.lint.source.atomic_write import edited
from gpudoctor.lint.source.file import SourceFile, Unreadable, parse_text
from gpudoctor.lint.source.notebooks.ipynb import code_cells
from gpudoctor.lint.source.notebooks.magics import plain
from gpudoctor.record import replace
from tests.support.notebooks import WRITERS, cell, notebook

SHOWN = "nb.ipynb"


def read(text: str) -> SourceFile:
    source = parse_text(text.encode(), "/project/nb.ipynb", SHOWN)
    assert isinstance(source, SourceFile), source
    return source


def broken(text: str) -> Unreadable:
    source = parse_text(text.encode(), "/project/nb.ipynb", SHOWN)
    assert isinstance(source, Unreadable)
    return source


def code(source: SourceFile) -> str:
    return ast.unparse(source.tree)


@pytest.mark.parametrize("writer", WRITERS)
def test_cells_are_one_program(writer: str) -> None:
    text = notebook(cell("# Title", "markdown"), "x = 1", cell("raw (", "raw"), "y = x\nz = y", "", writer=writer)
    source = read(text)
    assert code(source) == "x = 1\ny = x\nz = y"
    places = [source.placed(source.location(node)) for node in source.tree.body]
    assert [(at.cell and at.cell.number, at.line, at.column) for at in places] == [(2, 1, 1), (4, 1, 1), (4, 2, 1)]
    assert [str(at) for at in places][1:] == ["nb.ipynb:cell 4:1:1", "nb.ipynb:cell 4:2:1"]
    assert source.lines_around(places[2]) == ["y = x", "z = y"]
    rows = text.split("\n")
    for node, at in zip(source.tree.body, places, strict=True):
        assert ast.unparse(node) in rows[at.cell.row - 1]
        assert source.line_of(at) == node.lineno


def test_a_place_over_several_lines() -> None:
    source = read(notebook("import torch", "print(\n    1,\n)"))
    at = source.placed(source.location(source.tree.body[1]))
    assert (at.line, at.end_line, at.cell.end_row - at.cell.row) == (1, 3, 2)


@pytest.mark.parametrize(
    "parts",
    [["x = 1\ny = 2\n", "z = 3"], ["x = ", "1\ny", " = 2\nz = 3"], ["x = 1\n", "y = 2\n", "", "z = 3"]],
)
def test_sources_that_are_not_cut_at_lines(parts: list[str]) -> None:
    (found,) = code_cells(notebook({**cell(""), "source": parts}))
    assert found.source == "x = 1\ny = 2\nz = 3"
    assert len(found.rows) == 3


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"kernelspec": {"name": "conda-env-mine-py", "display_name": "mine"}},
        {"language_info": {"name": "python"}},
        {"kernelspec": {"language": "python"}, "language_info": {"name": "ipython"}},
        {"language_info": "what?"},
    ],
)
def test_python(metadata: dict[str, Any]) -> None:
    assert code(read(notebook("x = 1", metadata=metadata))) == "x = 1"


@pytest.mark.parametrize(
    "metadata",
    [
        {"language_info": {"name": "R"}},
        {"kernelspec": {"name": "julia-1.9", "language": "julia"}},
        {"kernelspec": {"name": "ir"}},
        {"kernelspec": {"name": "bash"}},
    ],
)
def test_other_languages_are_left_alone(metadata: dict[str, Any]) -> None:
    assert code(read(notebook("x <- torch_tensor(1)", metadata=metadata))) == ""


def test_a_cell_of_another_language() -> None:
    other = cell("let x = 1", metadata={"vscode": {"languageId": "javascript"}})
    assert code(read(notebook(other, "x = 1"))) == "x = 1"


def test_version_3() -> None:
    sheet = {"cells": [{"cell_type": "code", "input": ["x = 1\n", "y = 2"], "language": "python", "outputs": []}]}
    text = json.dumps({"metadata": {"name": ""}, "nbformat": 3, "nbformat_minor": 0, "worksheets": [sheet]}, indent=1)
    source = read(text)
    assert code(source) == "x = 1\ny = 2"
    assert source.placed(Location(SHOWN, 3)).line == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"cells": [', "the notebook's JSON is broken: Expecting value"),
        ('{"cells": []} x', "the notebook's JSON is broken: Extra data"),
        ('{"cells": [}', "the notebook's JSON is broken"),
        ('{"cells" []}', "the notebook's JSON is broken: Expecting ':'"),
        ("import torch", "the notebook's JSON is broken"),
        ("[]", "this is not a notebook: its JSON is not an object"),
        ("{}", "this is not a notebook: it has no list of `cells`"),
        ('{"cells": 3}', "this is not a notebook"),
        ('{"metadata": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deeply"),
    ],
)
def test_what_is_no_notebook(text: str, message: str) -> None:
    found = broken(text)
    assert message in found.message
    assert "save it as a notebook" in found.remedy


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n",
        '{"cells": []}',
        '{"cells": [3, null, {}, {"cell_type": "code"}, {"cell_type": "code", "source": 3}]}',
        '{"cells": [{"cell_type": "code", "source": [1]}, {"source": "x = 1"}]}',
        '{"nbformat": 3, "worksheets": [{}, 1, {"cells": {}}]}',
    ],
)
def test_nothing_to_read(text: str) -> None:
    assert code(read(text)) == ""


MAGICS = {
    "%matplotlib inline": "pass",
    "x = 1\n%load_ext autoreload\n%autoreload 2": "x = 1\npass\npass",
    "pip install torch==2.1\ncd runs\nx = 1": "pass\npass\nx = 1",
    "ls $folder\ncat {name}.txt\nmv *.log old": "pass\npass\npass",
    "!pip install -q torch \\\n    timm \\\n    wandb\nx = 1": "pass\n\n\nx = 1",
    "files = !ls *.py\nx": "files = get_ipython()\nx",
    "a, b = %sql select 1": "a, b = get_ipython()",
    "d['k'] = !ls": "d['k'] = get_ipython()",
    "model?": "pass",
    "model.forward??\nx": "pass\nx",
    "?model": "pass",
    "??model": "pass",
    "%timeit?": "pass",
    ", print a b": "pass",
    "; print a b": "pass",
    "/print a": "pass",
    "!!ls": "pass",
    "for x in y:\n    !echo {x}\n    print(x)": "for x in y:\n    pass\n    print(x)",
    "if x:\n    %cd /tmp": "if x:\n    pass",
    "%%time\nx = 1": "\nx = 1",
    "\n%%capture out\n%%time\n!ls\nx = 1": "\n\n\npass\nx = 1",
    "%time train(x)": "pass; train(x)",
    "%timeit -n 10 -r 3 train(x)": "pass;              train(x)",
    "if x:\n    %time y = train(x)": "if x:\n    pass; y = train(x)",
    "%time": "pass",
    "%timeit -o": "pass",
    '%ls\nx = """\n!no\n%no\n"""': 'pass\nx = """\n!no\n%no\n"""',
    "%ls\nx = '''it''' ; y = \"\"\"\n? no\n\"\"\"\n!ls": "pass\nx = '''it''' ; y = \"\"\"\n? no\n\"\"\"\npass",
    "%ls\nx = \"'''\"\n!ls": "pass\nx = \"'''\"\npass",
    "%ls\nx = (a\n% b)": "pass\nx = (a\n% b)",
    "%ls\nx = a \\\n% b": "pass\nx = a \\\n% b",
    "%ls\nx = 1  # it's \\\n!ls": "pass\nx = 1  # it's \\\npass",
    "%ls\nx %= 3\ny = a != b": "pass\nx %= 3\ny = a != b",
    "%ls\ns = 'x = !ls'": "pass\ns = 'x = !ls'",
    "%%bash\nls\necho": "\n\n",
    "%%writefile train.py\nimport torch": "\n",
    "%sql\nselect * from x": "\n",
    "%env A=b c": "__import__('os').environ['A'] = 'b c'",
    "if x:\n    %set_env A 1": "if x:\n    __import__('os').environ['A'] = '1'",
    "%env A={x}": "__import__('os').environ['A'] = get_ipython()",
    "%env": "pass",
    "await train()": "await train()",
    "async for x in y:\n    pass": "async for x in y:\n    pass",
    "x = '''\n!ls\n'''": "x = '''\n!ls\n'''",
}


@pytest.mark.parametrize("source", MAGICS)
def test_magics(source: str) -> None:
    found = plain(source)
    assert found.text == MAGICS[source]
    assert found.gap == ""
    pairs = zip(source.split("\n"), found.text.split("\n"), strict=True)
    changed = {number for number, (one, other) in enumerate(pairs, 1) if one != other}
    assert found.replaced == changed or found.text.strip("\n") == ""


@pytest.mark.parametrize("source", ["%%mystery\nx = 1", "%run helpers.py", "x = 1\n%px print(1)"])
def test_what_may_have_an_effect(source: str) -> None:
    assert plain(source).gap


def test_indented_cells() -> None:
    source = read(notebook("x = 1", "    y = 2\n    z = 3", "w = 4"))
    assert code(source) == "x = 1\nif True:\n    y = 2\n    z = 3\nw = 4"
    assert str(source.placed(source.location(source.tree.body[2]))) == "nb.ipynb:cell 3:1:1"


def test_a_cell_that_is_no_python() -> None:
    source = read(notebook("x = 1", "%ls\nto do: ask Anna", "y = x", "print 'a'", "print 'b'"))
    assert code(source) == "x = 1\ny = x"
    # Of cells that take another Python, one is enough.
    assert [source.placed(each.location).start for each in source.flaws] == ["nb.ipynb:cell 2:2", "nb.ipynb:cell 4:1"]
    assert all(each.in_cell for each in source.flaws)
    (gap,) = source.cells.gaps
    assert gap.why == "a cell cannot be read"
    assert source.placed(Location("nb.ipynb", gap.line)).start == "nb.ipynb:cell 2:1"


def test_windows_line_ends_in_cells() -> None:
    source = read(notebook(cell("x = 1\r\ny = 2", as_text=True), "z = 3"))
    assert code(source) == "x = 1\ny = 2\nz = 3"
    assert str(source.placed(source.location(source.tree.body[2]))) == "nb.ipynb:cell 2:1:1"


# --- writing ---------------------------------------------------------------------------------------------------------


def change(text: str, number: int, line: int, start: int, end: int, new: str) -> str:
    at = Location(SHOWN, line, start, line, end, Cell(number, 1, 1))
    return edited(text.encode(), [Edit(at, new)]).decode()


@pytest.mark.parametrize("as_text", [False, True], ids=["lines", "text"])
@pytest.mark.parametrize("end", ["", "\n"])
@pytest.mark.parametrize("writer", WRITERS)
def test_only_the_source_is_written(writer: str, end: str, as_text: bool) -> None:
    sources = ["import torch", "x = 'größe' # \"so\"\ny = 2  # ü\n\nz = 3", "w = 4"]

    def made(*texts: str) -> str:
        return notebook(*(cell(each, as_text=as_text) for each in texts), writer=writer, end=end)

    before = made(*sources)
    after = made(sources[0], sources[1].replace("y = 2", "y = 'ä'"), sources[2])
    assert change(before, 2, 2, 5, 6, "'ä'") == after
    # Where the end of a cell is, and a line of its own is put.
    below = made(f"{sources[0]}\nimport os", *sources[1:])
    assert change(before, 1, 2, 1, 1, "import os\n") == below
    above = made(*sources[:2], f"import os\n{sources[2]}")
    assert change(before, 3, 1, 1, 1, "import os\n") == above
    gone = edited(before.encode(), [Edit(Location(SHOWN, 4, 1, 5, 1, Cell(2, 1, 1)), "")]).decode()
    assert gone == made(sources[0], sources[1].removesuffix("\nz = 3"), sources[2])


def test_lines_that_stay_keep_their_escapes() -> None:
    before = '{"cells": [{"cell_type": "code", "source": "a = \'\\u003c\\/\'\\nb = 1\\nc = \'é\'"}]}'
    assert change(before, 1, 2, 5, 6, "2") == before.replace("b = 1", "b = 2")


def test_line_ends_of_the_file_and_of_a_cell_stay() -> None:
    before = notebook(cell("x = 1\r\ny = 2\r\n", as_text=True)).replace("\n", "\r\n")
    after = edited(b"\xef\xbb\xbf" + before.encode(), [Edit(Location(SHOWN, 1, 6, 1, 6, Cell(1, 1, 1)), "\nz = 3")])
    assert after == b"\xef\xbb\xbf" + before.replace("x = 1", "x = 1\\r\\nz = 3").encode()


def test_what_cannot_be_changed() -> None:
    source = read(notebook("%ls\nx = 1\n%time f(x)", "y = 2"))
    cells = source.cells
    first = cells.first[0]
    assert cells.keeps(Location(SHOWN, first + 1, 1, first + 1, 6))
    assert not cells.keeps(Location(SHOWN, first, 1, first, 5)), "a magic"
    assert cells.keeps(Location(SHOWN, first, 1, first, 1)), "above a magic"
    assert not cells.keeps(Location(SHOWN, first + 1, 1, cells.first[1], 3)), "two cells"
    assert replace(Location("a", 1), cell=Cell(1, 2, 3)).rows == (2, 3)
