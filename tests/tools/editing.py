"""A file that mistakes are planted in: its syntax tree by positions, and edits of its text."""

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

RANK_TEST = re.compile(r"\brank\b|is_main|is_master|master_process|is_rank|main_process|rank\(", re.IGNORECASE)


class Planted(NamedTuple):
    """A file with one mistake in it. `lines` are where a finding is expected: the place of the edit, in the new text,
    with the function around it; empty where the mistake shows elsewhere by its nature."""

    text: str
    line: int
    lines: range


class Code:
    """A file that edits are made in, by the positions of its syntax tree."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree = ast.parse(text)
        self.parents = {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}
        starts = [0]
        for line in text.encode().splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        self._starts = starts
        self._bytes = text.encode()

    def source(self, node: ast.AST) -> str:
        """How the file writes a node."""
        start, end = self._span(node)
        return self._bytes[start:end].decode()

    def nodes(self, kind: type[ast.AST], root: ast.AST | None = None) -> Iterator[ast.AST]:
        """All nodes of a kind, in the order of the file."""
        found = [node for node in ast.walk(root or self.tree) if isinstance(node, kind)]
        return iter(sorted(found, key=lambda node: (node.lineno, node.col_offset)))  # type: ignore[attr-defined]

    def calls(self, *names: str, root: ast.AST | None = None) -> Iterator[ast.Call]:
        """The calls whose last name is one of these."""
        for node in self.nodes(ast.Call, root):
            if isinstance(node, ast.Call) and last_name(node.func) in names:
                yield node

    def statement(self, node: ast.AST) -> ast.stmt:
        """The innermost statement around a node."""
        while not isinstance(node, ast.stmt):
            node = self.parents[node]
        return node

    def around(self, node: ast.AST, *kinds: type[ast.AST]) -> ast.AST | None:
        """The innermost node of these kinds around another one."""
        found = self.parents.get(node)
        while found is not None and not isinstance(found, kinds):
            found = self.parents.get(found)
        return found

    def guarded(self, node: ast.AST) -> bool:
        """A test on the rank stands around it."""
        outer = self.around(node, ast.If)
        while isinstance(outer, ast.If):
            if RANK_TEST.search(self.source(outer.test)):
                return True
            outer = self.around(outer, ast.If)
        return False

    def changed(self, *edits: tuple[ast.AST, str], at: ast.AST | None = None) -> Planted:
        """The file with other text for these nodes, and where that is."""
        where = at or edits[0][0]
        text = self._bytes
        for node, new in sorted(edits, key=lambda edit: -self._span(edit[0])[0]):
            start, end = self._span(node)
            text = text[:start] + new.encode() + text[end:]
        function = self.around(where, ast.FunctionDef, ast.AsyncFunctionDef) or self.tree
        line = where.lineno  # type: ignore[attr-defined]
        first, last = getattr(function, "lineno", 1), getattr(function, "end_lineno", 1 << 30)
        return Planted(text.decode(), line, range(first, last + 3))

    def without(self, *statements: ast.stmt) -> Planted:
        """The file with `pass` for these statements."""
        return self.changed(*((statement, "pass") for statement in statements))

    def indented(self, statement: ast.stmt, header: str) -> Planted:
        """The file with a header above a statement, which moves under it."""
        margin = " " * statement.col_offset
        body = self.source(statement).replace("\n", "\n    ")
        return self.changed((statement, f"{header}\n{margin}    {body}"))

    def rank_is_zero(self) -> str | None:
        """How this file can ask for the rank, anywhere in it."""
        for node in self.nodes(ast.Import):
            for alias in node.names if isinstance(node, ast.Import) else ():
                if alias.name == "torch.distributed" and alias.asname:
                    return f"{alias.asname}.get_rank() == 0"
        imports = (alias for node in self.nodes(ast.ImportFrom) for alias in getattr(node, "names", ()))
        names = [alias.asname or alias.name for alias in imports if alias.name == "distributed"]
        if names:
            return f"{names[0]}.get_rank() == 0"
        return "torch.distributed.get_rank() == 0" if re.search(r"^import torch\b", self.text, re.MULTILINE) else None

    @property
    def managed(self) -> bool:
        """Accelerate is in charge: it moves the model, and under DeepSpeed its backward also steps and clears."""
        return any(self.calls("prepare"))

    def _span(self, node: ast.AST) -> tuple[int, int]:
        start = self._starts[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
        end = self._starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]
        return start, end


def last_name(node: ast.AST) -> str:
    """`step` for `self.optimizer.step`."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def keyword(call: ast.Call, name: str) -> ast.keyword | None:
    """A keyword argument."""
    return next((each for each in call.keywords if each.arg == name), None)


def without_keyword(code: Code, call: ast.Call, name: str) -> str:
    """A call without one of its keyword arguments."""
    arguments = [code.source(each) for each in call.args]
    arguments += [code.source(each) for each in call.keywords if each.arg != name]
    return f"{code.source(call.func)}({', '.join(arguments)})"
