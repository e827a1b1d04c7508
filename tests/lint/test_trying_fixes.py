"""Fixes are tried out: what would not parse is none, at a cost that does not grow with each of them."""

from __future__ import annotations

import ast
import random
from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Edit, Finding
from gpudoctor.lint import pipeline
from gpudoctor.lint.fix import trying
from gpudoctor.lint.fix.edits import apply, clash
from gpudoctor.lint.fix.syntax import Syntax
from gpudoctor.lint.fix.trying import Trials
from gpudoctor.lint.request import Request
from gpudoctor.lint.source.file import SourceFile, parse_text
from gpudoctor.registry import find_rules

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

TEXT = '''\
# A comment.
"""A docstring
of two lines."""
import torch; import sys
x = """
text
"""; y = 1
@torch.no_grad()
@other
def f(a,
      b):
    if a:
        return b
    # The end.

class A:
    x = 1
    def g(self): pass
for i in range(3): print(i)
else:
    print(x)
print(y)'''
INSERTED = (
    "",
    "\n",
    "x = 1\n",
    "    x = 1\n",
    "    y\n    ",
    ")",
    "(",
    "else: pass\n",
    "\n    z = 2",
    '"""',
    "#",
    "if x:\n",
    "@f\n",
)


def syntax_of(text: str) -> Syntax:
    source = parse_text(text.encode(), "train.py", "train.py")
    assert isinstance(source, SourceFile)
    return Syntax(source)


def parses(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    return True


def edits_of(rng: random.Random, syntax: Syntax) -> list[Edit]:
    def place() -> tuple[int, int]:
        start = rng.randrange(len(TEXT) + 1)
        start = rng.choice((start, syntax.line_start(start), syntax.line_end(start)))
        return start, rng.choice((start, start, syntax.line_end(start), min(start + 5, len(TEXT))))

    return [Edit(syntax.location(*place()), rng.choice(INSERTED)) for _ in range(rng.randint(1, 3))]


def test_what_parses_in_parts_parses_as_a_whole():
    """And what does as a whole mostly does in parts: only edits that mend each other from afar do not."""
    syntax, trials = syntax_of(TEXT), Trials()
    answers = {True: 0, False: 0}
    refused = 0
    for seed in range(4_000):
        edits = edits_of(random.Random(seed), syntax)
        if clash(edits):
            continue
        whole = parses(apply(TEXT, edits))
        parts = trials.parses(syntax, edits)
        assert whole or not parts, edits
        answers[parts] += 1
        refused += whole and not parts
    assert min(answers.values()) > 200
    assert refused <= answers[True] / 50


def fixable(lines: int) -> str:
    return (
        "import torch\nimport torch.multiprocessing as mp\ndef main(rank): pass\n"
        + "mp.spawn(main, nprocs=2)\n" * lines
    )


def test_fixes_of_a_long_program_take_no_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    parsed: list[int] = []
    parse = ast.parse
    monkeypatch.setattr(
        ast, "parse", lambda text, *rest, **named: parsed.append(len(text)) or parse(text, *rest, **named)
    )
    found = linted(tmp_path, fixable(200))
    assert len(found) == 200
    assert all(each.fix for each in found)
    assert sum(parsed) < 20 * len(fixable(200))


def test_fixes_in_one_long_function_end_somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(trying, "MAX_TRIED", 50_000)
    text = fixable(0) + "if True:\n" + "    mp.spawn(main, nprocs=2)\n" * 100
    found = linted(tmp_path, text)
    written = [each for each in found if each.fix]
    assert 10 < len(written) < 30
    # Of the others it is said that they could be fixed.
    assert all(each.unwritten for each in found if not each.fix)


def linted(folder: Path, text: str) -> list[Finding]:
    path = folder / "train.py"
    path.write_text(text)
    rules = find_rules().cards
    outcome = pipeline.lint(Request((str(path),), rules=rules, known=rules, fixes=True))
    assert not outcome.failures
    return [each for each in outcome.findings if each.code == "GPU405"]
