"""The modules of the product as trees, for the tests that look at its shape."""

import ast
import gc
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {"gpudoctor": ROOT / "gpudoctor", "gpudoctor_rules": ROOT / "rules" / "gpudoctor_rules"}


class Source(NamedTuple):
    """One module: its dotted name, its file, its text and its tree."""

    name: str
    path: Path
    text: str
    tree: ast.Module
    nodes: tuple[ast.AST, ...]
    """All that is in the tree, in the order of `ast.walk`, which takes longer than the tests that look at them."""

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

    @property
    def shown(self) -> str:
        return self.path.relative_to(ROOT).as_posix()


@cache
def sources() -> dict[str, Source]:
    """All modules of both packages, by dotted name."""
    # Nothing of a tree is garbage: looking for some takes three times as long as parsing.
    gc.disable()
    try:
        return _found()
    finally:
        # All that lives is old now, and seldom looked at.
        gc.freeze()
        gc.unfreeze()
        gc.enable()


def _found() -> dict[str, Source]:
    return {source.name: source for package, folder in PACKAGES.items() for source in _below(package, folder)}


def _below(package: str, folder: Path) -> list[Source]:
    found = []
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        name = ".".join((package, *(part for part in parts if part != "__init__")))
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text, filename=str(path))
        found.append(Source(name, path, text, tree, tuple(ast.walk(tree))))
    return found
