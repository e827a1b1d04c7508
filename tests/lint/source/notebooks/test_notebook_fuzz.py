"""Notebooks that nobody has written: what is read is Python, places lead back, and writing changes one cell.

The same cases each time.
"""

import ast
import json
import random

import pytest

from gpudoctor.diagnostic import Edit, Location
from gpudoctor.lint.source.atomic_write import edited
from gpudoctor.lint.source.file import SourceFile, parse_text
from gpudoctor.record import replace
from tests.support.notebooks import WRITERS, cell, notebook

pytestmark = pytest.mark.slow

LINES = (
    "x = 1", "", "    ", "y = '''", "'''", '"""', "!ls -la \\", "%time f(x)", "%%time", "%%bash", "x?", "?x", "(", ")",
    "[1,", "]", "if x:", "    y = 2", "    !ls {x}", "for i in x:", "    %cd a", "z = !ls", "# größe \U0001f600",
    "s = 'a\\", "% b", "\ta", "f(\n  1,\n)", "x = 1\r\ny = 2", "\r", "\x0c", "\u2028", "\ud83d", "\0", "def f(a):",
    "    return a", "@d", "async def g(): pass", "await x", "print 1", "{", "}", "x = f'{a!r:>{w}}'", "%%", "%", "!",
    "?", ";", "/a b", ",f a", "x \\", "%run a.py", "...",
)  # fmt: skip
GOOD = ("x = 1", "y = 2  # ü", "!ls", "%time f(x)", "print(\n    x,\n)", "if x:\n    !echo\n    y = 2", "%%time")
CASES = 600


def made(rng: random.Random) -> str:
    cells = []
    for _ in range(rng.randint(0, 5)):
        source = "\n".join(rng.choices(rng.choice((LINES, GOOD, GOOD)), k=rng.randint(0, 8)))
        cells.append(cell(source, rng.choice(("code", "code", "code", "markdown")), as_text=rng.random() < 0.3))
    writer = rng.choice([each for each in WRITERS if WRITERS[each]["ensure_ascii"]])
    return notebook(*cells, writer=writer, end=rng.choice(("", "\n")))


def sources_of(text: str) -> list[str]:
    return ["".join(each["source"]) for each in json.loads(text)["cells"]]


@pytest.mark.parametrize("seed", range(4))
def test_notebooks(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(CASES // 4):
        text = made(rng)
        source = parse_text(text.encode(), "/project/nb.ipynb", "nb.ipynb")
        assert isinstance(source, SourceFile), text
        assert source.cells is not None
        sources = sources_of(text)
        for node in source.tree.body:
            at = source.location(node)
            if source.lines[at.line - 1] == "if True:" and at.line not in source.cells.replaced:
                continue
            _leads_back(source, at, sources, text)
            _is_changed_alone(source, at, sources, text)


def _leads_back(source: SourceFile, at: Location, sources: list[str], text: str) -> None:
    placed = source.placed(at)
    lines = sources[placed.cell.number - 1].replace("\r\n", "\n").replace("\r", "\n").split("\n")
    assert source.lines_around(placed) == lines
    assert source.line_of(placed) == at.line
    if at.line not in source.cells.replaced:  # type: ignore[union-attr]
        assert lines[placed.line - 1] == source.lines[at.line - 1]
    assert 1 <= placed.cell.row <= placed.cell.end_row <= text.count("\n") + 1


def _is_changed_alone(source: SourceFile, at: Location, sources: list[str], text: str) -> None:
    """An edit in one cell gives the same program as the edit in the text that they are together."""
    start = replace(at, column=1, end_line=at.line, end_column=1)
    indent = source.lines[at.line - 1][: at.column - 1]
    # Several statements on a line, or a block: another matter.
    if indent or not source.cells.keeps(start):  # type: ignore[union-attr]
        return
    after = edited(text.encode(), [Edit(source.placed(start), "added = 'ü'\n")]).decode()
    number = source.placed(start).cell.number  # type: ignore[union-attr]
    was, now = sources, sources_of(after)
    assert [each for index, each in enumerate(now, 1) if index != number] == [
        each for index, each in enumerate(was, 1) if index != number
    ]
    assert now[number - 1] != was[number - 1]
    changed = parse_text(after.encode(), "/project/nb.ipynb", "nb.ipynb")
    assert isinstance(changed, SourceFile)
    names = [node.id for node in ast.walk(changed.tree) if isinstance(node, ast.Name)]
    assert "added" in names, (was[number - 1], now[number - 1])
    before, document = json.loads(text), json.loads(after)
    document["cells"][number - 1]["source"] = before["cells"][number - 1]["source"]
    assert document == before


@pytest.mark.parametrize("seed", range(3))
def test_damaged_notebooks(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(CASES):
        text = made(rng)
        start = rng.randrange(len(text))
        damage = rng.choice(("", '"', "{", "}", "[", "]", ",", "\\", "null", "0", ":", "\n", '"source"', '"cells"'))
        text = text[:start] + damage + text[start + rng.choice((0, 0, 1, 5, 50)) :]
        found = parse_text(text.encode(), "/project/nb.ipynb", "nb.ipynb")
        if isinstance(found, SourceFile):
            assert found.cells is not None
        else:
            assert found.message
            assert found.line <= text.count("\n") + 1
