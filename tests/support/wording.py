"""What the words of a finding must not say: nothing at all, and no name that the reader's file does not have."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.support.fixture_marks import Case
from tests.support.linting import Seen

LIBRARIES = frozenset({"torch", "os", "copy", "contextlib", "accelerate", "lightning"})
"""What is called by its own name, whether a file imports it yet or not."""
SHORT = frozenset({"dist", "nn", "mp", "F", "np", "optim", "accelerator", "trainer", "fabric"})
"""Names that a file gives to what it imports or makes: they must be its own."""
_CODE = re.compile(r"`([^`]+)`")
_ROOT = re.compile(r"""(?<![\w.\"'/…-])([A-Za-z_]\w*)\.(?=[A-Za-z_])""")
_BOUND = re.compile(r"\b(\w+) ?=")


def wrong_words(seen: Seen, case: Case) -> Iterator[str]:
    """What is wrong with the words of a finding."""
    if "``" in seen.message + seen.remedy:
        yield f"an empty name in: {seen.message} {seen.remedy}"
    own = names_in(case.folder / seen.path)
    known = own.union(*(names_in(path) for path in case.files), LIBRARIES, _BOUND.findall(seen.remedy))
    for code in _CODE.findall(seen.remedy):
        for root in _ROOT.findall(code):
            if root not in (own if root in SHORT else known):
                yield f"{seen.path}:{seen.line} has no name `{root}`, but {seen.code} says: {seen.remedy}"


def names_in(path: Path) -> frozenset[str]:
    """Every name that a file mentions, with the attributes of objects: `self.accelerator` is known as that."""
    if path.suffix == ".ipynb":
        return SHORT
    if path.suffix != ".py":
        # Words of a launch file are its own.
        return SHORT | frozenset(re.findall(r"\w+", path.read_text(encoding="utf-8", errors="replace")))
    try:
        tree = ast.parse(path.read_bytes())
    except SyntaxError:
        return frozenset()
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.alias):
            found.add((node.asname or node.name).partition(".")[0])
    return frozenset(found)
