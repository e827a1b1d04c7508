"""Files without an entry that no rule would say anything about, told by the names that they use and by their classes.

Most files of a large project define layers and compute. To execute every function of them on paper takes a hundred
times as long as to see that they neither wrap, shard, load, train nor talk to other ranks. What is looked for here is
wider than any rule: where something comes close, the functions and classes in which it stands are executed.

In such a file it is never known who else is there, so that all rules about what is missing are silent. What is left
are wrappers, ranks and what they exchange, loaders, gradients, clocks, dropped moves and classes of layers. To save,
to log or to step is a mistake only beside one of those.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache

from gpudoctor.lint.discovery.module_classes import flawed_classes
from gpudoctor.lint.source.file import SourceFile
from gpudoctor.lint.source.syntax_walk import walk
from gpudoctor.manifest.compiled import mentions, pattern, telling_parts, words
from gpudoctor.manifest.spellings import BEGINNING, squeezed


@cache
def _searched() -> tuple[str, ...]:
    """A search for these in the text saves most files the look at their names. Documentation holds them, too."""
    clocks = "time.time perf_counter monotonic default_timer Event(".split()
    # Licences hold the bare word.
    return (*words(), *mentions(relevant=True), *clocks, "import distributed", "from distributed")


_MOVE = r"\.(?:to|cuda|cpu|xpu|type|half|float|double|bfloat16|int|long|bool)\("
_LAYERS = r"\bnn\b|Module"
_MOVES = frozenset("to cuda cpu xpu type half float double bfloat16 int long bool".split())

_LONGEST_TEXT = 60
_DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_CLOCK = r"\btime\.(?:time|time_ns|perf_counter|perf_counter_ns|monotonic|monotonic_ns)\b|default_timer|\bEvent\("
_GPU = r"cuda|\.to\(|device|gpu|prepare"


def is_irrelevant(file: SourceFile) -> bool:
    """Nothing in this file comes close to what rules are about. Only for files without an entry."""
    return relevant_definitions(file) == frozenset()


_told: dict[tuple[str, int], frozenset[str] | None] = {}
_MOST_TOLD = 20_000
_NOT_TOLD = frozenset({""})


def relevant_definitions(file: SourceFile) -> frozenset[str] | None:
    """The functions and classes of a file without an entry that come close; None where all of it has to be executed."""
    # Asked when the file is listed, and again when it is executed, which may be long after its tree is gone.
    key = file.shown, hash(file.text)
    found = _told.get(key, _NOT_TOLD)
    if found is _NOT_TOLD:
        try:
            found = _relevant_definitions(file)
        except _TooMuch:
            found = None
        # Another thread may clear it between any two steps.
        if len(_told) >= _MOST_TOLD:
            _told.clear()
        _told[key] = found
    return found


def _relevant_definitions(file: SourceFile) -> frozenset[str] | None:
    text = file.text
    # A comment of ours may be of use, or of none.
    if "gpudoctor:" in text:
        return None
    found: set[str] = set()
    spots = {*_words_in(text), *_dropped_moves_in(text)}
    search = _NameSearch(file)
    if spots:
        imported = _imported_in(node for node in file.tree.body if not isinstance(node, _DEFINITIONS))
        # `from torch.distributed import send as give` makes a word of `give`.
        for name in (name for name, path in imported.items() if is_telling(path)):
            if name == "*":
                return None
            spots.update(search.positions(name))
        lines = _lines_at(sorted(spots), text)
        gpu = bool(re.search(_GPU, text))
        for statement in _standing_on(lines, file.tree.body):
            names = _names_in(_parts_on(lines, statement), imported)
            if any(map(is_telling, names)) or (gpu and any(re.search(_CLOCK, name) for name in names)):
                if not isinstance(statement, _DEFINITIONS):
                    return None
                found.add(statement.name)
    # Whoever keeps layers has a name for them.
    if re.search(_LAYERS, text):
        found.update(flawed_classes(file.tree, text))
    return frozenset(_with_users(found, search))


def _with_users(found: set[str], search: _NameSearch) -> set[str]:
    """Who calls what is telling, or derives from it, tells something, too."""
    names, todo = set(found), list(found)
    while todo:
        users = search.users(todo.pop())
        todo += users - names
        names |= users
    return names


class _TooMuch(Exception):
    """To find out what may be left out would take longer than executing all of it."""


_MOST_SEARCHED = 200_000_000
"""Characters that are searched for names. Functions that call one another in a long file come to it."""
_A_HIT = 100
"""Characters that are passed over in the time that a hit takes."""


class _NameSearch:
    """Looks for names in a file, as often as is worth it."""

    def __init__(self, file: SourceFile) -> None:
        self._text = file.text
        self._left = _MOST_SEARCHED
        definitions = [each for each in file.tree.body if isinstance(each, _DEFINITIONS)]
        self._names = [each.name for each in definitions]
        self._first = [min([each.lineno, *(one.lineno for one in each.decorator_list)]) for each in definitions]
        self._last = [each.end_lineno or each.lineno for each in definitions]

    def positions(self, name: str) -> list[int]:
        """Where a name stands, in comments and in longer names, too."""
        found: list[int] = []
        self._left -= len(self._text)
        for at in _positions(name, self._text):
            self._left -= _A_HIT
            if self._left < 0:
                raise _TooMuch
            found.append(at)
        return found

    def users(self, name: str) -> set[str]:
        """The definitions that a name stands in."""
        found: set[str] = set()
        for line in _lines_at(self.positions(name), self._text):
            at = bisect_right(self._first, line) - 1
            if at >= 0 and line <= self._last[at]:
                found.add(self._names[at])
        return found


@lru_cache(maxsize=4096)
def is_telling(name: str) -> bool:
    """Asked of the same names again and again."""
    if name.startswith(_DROPPED):
        return True
    if name.startswith(_TEXT):
        return bool(re.search(pattern("texts"), name))
    return _has_telling_part(re.sub(pattern("other meanings"), " ", name))


def _has_telling_part(name: str) -> bool:
    short, parts = squeezed(name), telling_parts()
    for at in range(len(short) - BEGINNING + 1):
        for begins, plain, form in parts.get(short[at : at + BEGINNING], ()):
            if short.startswith(begins, at) and (re.search(form, name) if form else plain in name):
                return True
    return False


# --- text ------------------------------------------------------------------------------------------------------------


def _words_in(text: str) -> Iterator[int]:
    """Where one of the words stands, as a part of a name that may tell something."""
    for word in _searched():
        # Most words stand nowhere.
        if word not in text:
            continue
        for at in _positions(word, text):
            # `torch.broadcast_to` and `lora_rank` are in every other file.
            name = _name_at(text, at)
            if " " in word or is_telling(name) or re.search(_CLOCK, name):
                yield at


def _positions(word: str, text: str) -> Iterator[int]:
    at = text.find(word)
    while at >= 0:
        yield at
        at = text.find(word, at + 1)


def _name_at(text: str, at: int) -> str:
    """The dotted name around a place, with the bracket of a call."""
    # Backwards, since a pattern for what ends here is tried from each letter.
    before = re.match(r"[\w.]*", text[max(at - _LONGEST_TEXT, 0) : at][::-1])
    after = re.compile(r"[\w.]*\(?").match(text, at)
    return (before[0][::-1] if before else "") + (after[0] if after else "")


def _dropped_moves_in(text: str) -> Iterator[int]:
    """Where a line could be a move, or a cast, whose result nobody keeps."""
    for found in re.finditer(_MOVE, text):
        before = text[text.rfind("\n", 0, found.start()) + 1 : found.start()]
        if "=" not in before and not before.lstrip().startswith(("return ", "yield ", "assert ", "#")):
            yield found.start()


def _lines_at(offsets: list[int], text: str) -> list[int]:
    """The lines at ascending offsets."""
    lines: list[int] = []
    line, last = 1, 0
    for offset in offsets:
        line += text.count("\n", last, offset)
        last = offset
        if not lines or lines[-1] != line:
            lines.append(line)
    return lines


def _standing_on(lines: list[int], body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that stand on some of the lines, and all that define nothing."""
    for statement in body:
        if isinstance(statement, _DEFINITIONS):
            first = min([statement.lineno, *(each.lineno for each in statement.decorator_list)])
            here = bisect_left(lines, first)
            if here == len(lines) or lines[here] > (statement.end_lineno or first):
                continue
        yield statement


def _parts_on(lines: list[int], statement: ast.stmt) -> Iterator[ast.AST]:
    """The statement, or of a class the methods that stand on some of the lines."""
    if isinstance(statement, ast.ClassDef):
        yield from (*statement.bases, *statement.keywords, *statement.decorator_list)
        for inner in _standing_on(lines, statement.body):
            yield from _parts_on(lines, inner)
    else:
        yield statement


# --- names -----------------------------------------------------------------------------------------------------------

_DROPPED, _TEXT = "!", "'"
_NO_CODE = frozenset({"ctx", "op", "ops", "annotation", "returns", "type_comment", "kind"})
_PARTS: dict[type[ast.AST], tuple[str, ...]] = {}


def _names_in(parts: Iterable[ast.AST], known: dict[str, str]) -> set[str]:
    """The names that code uses, not those that it defines, imports or annotates with. `known` are the imports."""
    found: set[str] = set()
    imported = dict(known)
    todo = list(parts)
    while todo:
        node = todo.pop()
        if isinstance(node, (ast.Name, ast.Attribute)):
            found.add(_dotted(node, todo))
        elif isinstance(node, ast.Constant):
            if isinstance(node.value, str) and len(node.value) < _LONGEST_TEXT:
                found.add(_TEXT + node.value)
        elif isinstance(node, ast.Call):
            found.add(_dotted(node.func, todo) + "(")
            todo += node.args
            todo += node.keywords
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            imported.update(_bound_by(node))
        else:
            if isinstance(node, ast.Expr) and _is_move(node.value):
                found.add(_DROPPED)
            _add_parts(node, todo)
    return {_resolved(name, imported) for name in found}


def _imported_in(statements: Iterable[ast.stmt]) -> dict[str, str]:
    nodes = (node for statement in statements for node in walk(statement))
    return {
        name: path for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom)) for name, path in _bound_by(node)
    }


def _bound_by(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    """The names that an import binds, with what they stand for."""
    for alias in node.names:
        if isinstance(node, ast.ImportFrom):
            yield alias.asname or alias.name, f"{node.module or ''}.{alias.name}"
        elif alias.asname:
            yield alias.asname, alias.name


def _dotted(node: ast.expr, todo: list[ast.AST]) -> str:
    """`a.b.c`, or `.b.c` where it begins with more than a name, which is left to do."""
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        todo.append(node)
    names.append(node.id if isinstance(node, ast.Name) else "")
    return ".".join(reversed(names))


def _resolved(name: str, imported: dict[str, str]) -> str:
    root = name.partition(".")[0].rstrip("(")
    return imported[root] + name[len(root) :] if root in imported else name


def _is_move(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _MOVES


def _add_parts(node: ast.AST, todo: list[ast.AST]) -> None:
    kind = type(node)
    if kind not in _PARTS:
        _PARTS[kind] = tuple(name for name in kind._fields if name not in _NO_CODE)
    for name in _PARTS[kind]:
        part = getattr(node, name)
        if isinstance(part, list):
            todo += [each for each in part if isinstance(each, ast.AST)]
        elif isinstance(part, ast.AST):
            todo.append(part)
