"""YAML and JSON files, with the place of each value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gpudoctor.diagnostic import Location
from gpudoctor.lint.launchfiles.placed_text import Piece
from gpudoctor.lint.launchfiles.shell import ScriptComment
from gpudoctor.lint.source.yaml_library import yaml_library

if TYPE_CHECKING:
    from yaml.nodes import Node

MAX_BYTES = 256 * 1024
MAX_NODES = 20_000
_MOST_MERGES = 8
"""Mappings that take over others, which take over others, are followed so deep."""


_REPLACED = frozenset({"command", "entrypoint", "test"})
"""Lists that a file lays over those of another one, and does not add to them."""


class Document:
    """One value of a document: a mapping, a list or a scalar. It may lie over others, which say what it leaves out."""

    def __init__(self, node: Node, shown: str, lines: list[str], below: tuple[Document, ...] = ()) -> None:
        self._node = node
        self.shown = shown
        self._lines = lines
        self._below = below

    def over(self, other: Document) -> Document:
        """It, with what another one says below it."""
        return Document(self._node, self.shown, self._lines, (*self._below, other))

    def __getitem__(self, key: str) -> Document | None:
        """What a mapping holds under a key."""
        return next((value for name, value in self.items() if name == key), None)

    def at_path(self, *keys: str) -> Document | None:
        found: Document | None = self
        for key in keys:
            found = found[key] if found is not None else None
        return found

    def items(self) -> Iterator[tuple[str, Document]]:
        seen: set[str] = set()
        for key, value in _pairs_of(self._node):
            # What a mapping says itself comes before what it takes over.
            if key.value not in seen:
                seen.add(key.value)
                below = self._below if key.value not in _REPLACED else ()
                under = tuple(found for each in below if (found := each[key.value]) is not None)
                yield key.value, Document(value, self.shown, self._lines, under)
        for other in self._below:
            for name, found in other.items():
                if name not in seen:
                    seen.add(name)
                    yield name, found

    def key_place(self, name: str) -> Location:
        """Where a key of the mapping stands."""
        own = next((key for key, _ in _pairs_of(self._node) if key.value == name), None)
        below = next((each for each in self._below if each[name] is not None), None) if own is None else None
        return below.key_place(name) if below is not None else self._place(own or self._node)

    def members(self) -> list[Document]:
        """The members of a list."""
        from yaml.nodes import SequenceNode

        own = self._node.value if isinstance(self._node, SequenceNode) else []
        found = [Document(each, self.shown, self._lines) for each in own]
        return found + [each for other in self._below for each in other.members()]

    @property
    def text(self) -> str | None:
        """The text of a scalar."""
        from yaml.nodes import ScalarNode

        return self._node.value if isinstance(self._node, ScalarNode) else None

    @property
    def at(self) -> Location:
        return self._place(self._node)

    def _place(self, node: Any) -> Location:
        start, end = node.start_mark, node.end_mark
        last = end.line + 1, end.column + 1
        # A block ends where the next value begins.
        if end.column == 0 and end.line > start.line:
            last = end.line, len(self._lines[end.line - 1]) + 1
        return Location(self.shown, start.line + 1, start.column + 1, *last)

    @property
    def pieces(self) -> list[Piece]:
        """The text of a scalar, with its places in the file."""
        from yaml.nodes import ScalarNode

        node = self._node
        if not isinstance(node, ScalarNode):
            return []
        start, end = node.start_mark, node.end_mark
        if node.style == "|":
            return list(self._block(start.line + 1, node.value))
        column = start.column + (1 if node.style in ("'", '"') else 0)
        line = self._lines[start.line] if start.line < len(self._lines) else ""
        if start.line == end.line and line[column : column + len(node.value)] == node.value:
            return [Piece(node.value, start.line + 1, column + 1)]
        if node.style != "'" and start.line < end.line:
            return list(self._folded(start.line, end.line + 1, node.value))
        return [Piece(each, start.line + 1, start.column + 1) for each in node.value.splitlines(keepends=True)]

    def _block(self, first: int, value: str) -> Iterator[Piece]:
        for number, text in enumerate(value.splitlines(keepends=True), start=first):
            line = self._lines[number] if number < len(self._lines) else ""
            bare = text.rstrip("\n")
            indent = line.rfind(bare) if bare else 0
            yield Piece(text, number + 1, max(indent, 0) + 1)

    def _folded(self, first: int, last: int, value: str) -> Iterator[Piece]:
        """A text of several lines, with blanks for most of the breaks between them."""
        at = 0
        for number, line in enumerate(self._lines[first:last], start=first):
            bare = line.partition(": ")[2].strip() if number == first else line.strip()
            bare = bare.strip('"').removesuffix("\\")
            found = value.find(bare, at) if bare else -1
            if found >= 0:
                if found > at:
                    yield Piece(value[at:found], number, 1)
                yield Piece(bare, number + 1, line.find(bare) + 1)
                at = found + len(bare)
        if at < len(value):
            yield Piece(value[at:], last, 1)

    def walk(self) -> Iterator[Document]:
        """It and all that is in it."""
        todo = [self]
        while todo:
            each = todo.pop()
            yield each
            todo += [value for _, value in each.items()]
            todo += each.members()

    def scalars(self, prefix: str = "") -> Iterator[tuple[str, Document]]:
        """The scalars of mappings in mappings, by their keys joined with dots. `null` says nothing."""
        for key, value in self.items():
            if value._node.tag == "tag:yaml.org,2002:null":
                continue
            if value.text is not None:
                yield f"{prefix}{key}", value
            else:
                yield from value.scalars(f"{prefix}{key}.")


def _pairs_of(node: Node, depth: int = 0) -> Iterator[tuple[Node, Node]]:
    """The keys and values of a mapping, and then those that it takes over by `<<: *other`."""
    from yaml.nodes import MappingNode, SequenceNode

    if not isinstance(node, MappingNode) or depth > _MOST_MERGES:
        return
    taken: list[Node] = []
    for key, value in node.value:
        if key.tag == "tag:yaml.org,2002:merge":
            taken += value.value if isinstance(value, SequenceNode) else [value]
        elif isinstance(key.value, str):
            yield key, value
    for each in taken:
        yield from _pairs_of(each, depth + 1)


def documents(text: str, shown: str, *, is_json: bool = False) -> list[Document]:
    """The documents of a file; none where it is no YAML, or none that we read."""
    yaml = yaml_library()
    if len(text) > MAX_BYTES:
        return []
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    plain = _without_comments(text) if is_json else text
    lines = text.split("\n")
    try:
        nodes = list(yaml.compose_all(plain, Loader=loader))
    except (yaml.YAMLError, ValueError, RecursionError):
        return []
    return [Document(node, shown, lines) for node in nodes if node is not None and not _is_woven(node)]


def _is_woven(root: Node) -> bool:
    """Aliases may make a thousand values of ten lines."""
    todo, seen = [root], 0
    while todo:
        node = todo.pop()
        seen += 1
        if seen > MAX_NODES:
            return True
        for child in node.value if not isinstance(node.value, str) else ():
            todo += child if isinstance(child, tuple) else (child,)
    return False


def _without_comments(text: str) -> str:
    """JSON as editors write it, with blanks for comments and tabs: each character keeps its place."""
    found: list[str] = []
    at, quoted = 0, False
    while at < len(text):
        each = text[at]
        if quoted:
            found.append(text[at : at + 2] if each == "\\" else each)
            at += 2 if each == "\\" else 1
            quoted = each != '"'
        elif text.startswith("//", at):
            end = text.find("\n", at)
            end = len(text) if end < 0 else end
            found.append(" " * (end - at))
            at = end
        elif text.startswith("/*", at):
            end = text.find("*/", at)
            end = len(text) if end < 0 else end + 2
            found.append("".join("\n" if one == "\n" else " " for one in text[at:end]))
            at = end
        else:
            quoted = each == '"'
            found.append(" " if each == "\t" else each)
            at += 1
    return "".join(found)


def yaml_comments(shown: str, text: str) -> Iterator[ScriptComment]:
    """Comments of a YAML file that speak to us."""
    lines = text.split("\n")
    for number, line in enumerate(lines, start=1):
        column = line.find("# gpudoctor:")
        if column >= 0:
            alone = not line[:column].strip()
            at = Location(shown, number, column + 1, number, len(line) + 1)
            yield ScriptComment(line[column:], at, number, number + alone, alone)
