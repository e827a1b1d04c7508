"""Who may import whom. The table stands for the design: two leaks end readability, a flow engine that knows torch
and a rule that knows syntax, and an import is where both begin."""

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

from tests.support.import_table import ANYTHING, BY_ALL, LATE, MAY_IMPORT, VALUES
from tests.support.sources import Source, sources

_VALUES = {*VALUES.split()}
NEEDED_LATE = {"rich", "libcst", "tree_sitter", "tree_sitter_bash", "yaml", "pathspec", "torch", "pynvml", "psutil"}


class Import(NamedTuple):
    """One import statement's target: a dotted name, the line, and where it stands."""

    target: str
    line: int
    in_function: bool
    for_types: bool


def test_imports_follow_the_table() -> None:
    wrong = [
        f"{source.shown}:{each.line} {part} imports {each.target}"
        for source, each in _internal()
        if (part := _part(source.name)) != ANYTHING and _part(each.target) not in _may_import(part)
    ]
    assert not wrong, "not in tests/support/import_table.py:\n" + "\n".join(wrong)


def test_every_part_has_a_row() -> None:
    loose = [s.shown for s in sources().values() if _part(s.name) == "gpudoctor" and s.name != "gpudoctor"]
    assert not loose, f"no row in MAY_IMPORT for {loose}"


def test_every_row_is_needed() -> None:
    used: dict[str, set[str]] = {}
    for source, each in _internal():
        used.setdefault(_part(source.name), set()).add(_part(each.target))
    idle = {
        row: left for row in MAY_IMPORT if (left := _may_import(row) - used.get(row, set()) - BY_ALL - {row} - _VALUES)
    }
    assert not idle, f"no import needs this: {idle}"


def test_rules_of_one_family_do_not_import_rules_of_another() -> None:
    wrong = []
    for source, each in _internal():
        here, there = source.name.split("."), each.target.split(".")
        # Error texts are data, and one text may belong to mistakes of several families.
        other = here[0] == there[0] == "gpudoctor_rules" and len(there) > 1 and here[1:2] != there[1:2]
        if other and there[1] != "_error_texts":
            wrong.append(f"{source.shown}:{each.line} imports {each.target}")
    assert not wrong, "\n".join(wrong)


def test_what_follows_python_names_nothing_of_torch() -> None:
    """It would be told what it means: a name is asked of the models, a step is raised as a hook."""
    wrong = [
        f"{source.shown}:{node.lineno} has {node.value!r}"
        for source in sources().values()
        if source.name.startswith("gpudoctor.lint.interp")
        for node in source.nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.match(r"torch\b", node.value)
    ]
    assert not wrong, "\n".join(wrong)


def test_rules_never_look_at_syntax() -> None:
    wrong = [
        f"{source.shown}:{each.line} imports {each.target}"
        for source in sources().values()
        if source.name.startswith("gpudoctor_rules")
        for each in _imports(source)
        if each.target.split(".")[0] in {"ast", "re", "tokenize", "libcst", "inspect"}
    ]
    assert not wrong, "a fact or a library model is missing; add that instead:\n" + "\n".join(wrong)


TAKEN_APART = ("symbols", "container", "provenance")
VALUE = "gpudoctor.lint.domain.value"
PLAIN = {"Const", "Unknown", "Text", "Anonymous", "Namespace", "ValueSet", "Binding", "NONE", "TRUE", "FALSE"}


def test_rules_take_no_values_apart() -> None:
    """What a rule asks of a value, it answers, or an event does, or a question of `lint/questions`."""
    apart = {f"gpudoctor.lint.domain.{each}" for each in TAKEN_APART}
    wrong = [
        f"{source.shown}:{node.lineno} {alias.name}"
        for source in sources().values()
        if source.name.startswith("gpudoctor_rules")
        for node in source.nodes
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if node.module in apart or alias.name in PLAIN or (alias.name.endswith("_of") and node.module == VALUE)
    ]
    assert not wrong


def test_late_imports_only_defer_what_is_slow() -> None:
    wrong = [
        f"{source.shown}:{each.line} imports {each.target} inside a function"
        for source in sources().values()
        for each in _imports(source)
        if each.in_function
        and each.target.split(".")[0] not in NEEDED_LATE
        and each.target not in LATE
        and each.target.split(".")[0] in {"gpudoctor", "gpudoctor_rules"}
        and _part(source.name) != ANYTHING
    ]
    assert not wrong, "\n".join(wrong)


def test_no_cycles_when_loaded() -> None:
    cycle = _cycle(_edges(each for each in _internal() if not each[1].in_function and not each[1].for_types))
    assert cycle is None, f"import cycle: {' -> '.join(cycle)}"


def test_no_circles() -> None:
    """Imports for types and inside functions count: what needs another to be understood is in a circle with it."""
    cycle = _cycle(_edges(_internal()))
    assert cycle is None, f"circle of imports: {' -> '.join(cycle)}"


@cache
def _part(name: str) -> str:
    """The row of the table that a module belongs to."""
    name = name.removeprefix("gpudoctor.")
    for row in sorted({*MAY_IMPORT, *BY_ALL, ANYTHING}, key=len, reverse=True):
        if name == row or name.startswith(f"{row}."):
            return row
    return "gpudoctor"


@cache
def _may_import(part: str) -> set[str]:
    return {part, *BY_ALL, *MAY_IMPORT.get(part, "").replace("*values", VALUES).split()}


def _internal() -> Iterator[tuple[Source, Import]]:
    for source in sources().values():
        for each in _imports(source):
            if each.target.split(".")[0] in {"gpudoctor", "gpudoctor_rules"}:
                yield source, each


def _imports(source: Source) -> tuple[Import, ...]:
    return _all_imports()[source.name]


@cache
def _all_imports() -> dict[str, tuple[Import, ...]]:
    return {s.name: tuple(_walk(s, s.tree, in_function=False, for_types=False)) for s in sources().values()}


def _walk(source: Source, node: ast.AST, *, in_function: bool, for_types: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(alias.name, child.lineno, in_function, for_types)
        elif isinstance(child, ast.ImportFrom):
            for target in _targets(source, child):
                yield Import(target, child.lineno, in_function, for_types)
        else:
            yield from _walk(
                source,
                child,
                in_function=in_function or isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)),
                for_types=for_types or (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test)),
            )


def _targets(source: Source, node: ast.ImportFrom) -> Iterator[str]:
    """The modules that `from x import a, b` loads: `x.a` where that is a module of ours, else `x`."""
    base = node.module or ""
    if node.level:
        here = source.name.split(".")
        above = here[: len(here) - node.level + source.is_package]
        base = ".".join((*above, base)) if base else ".".join(above)
    for alias in node.names:
        yield f"{base}.{alias.name}" if f"{base}.{alias.name}" in sources() else base


def _edges(imports: Iterable[tuple[Source, Import]]) -> dict[str, set[str]]:
    edges: dict[str, set[str]] = {}
    for source, each in imports:
        if each.target != source.name:
            edges.setdefault(source.name, set()).add(each.target)
    return edges


def _cycle(edges: dict[str, set[str]]) -> tuple[str, ...] | None:
    done: set[str] = set()

    def visit(name: str, way: tuple[str, ...]) -> tuple[str, ...] | None:
        if name in way:
            return (*way[way.index(name) :], name)
        if name in done:
            return None
        for target in sorted(edges.get(name, ())):
            found = visit(target, (*way, name))
            if found:
                return found
        done.add(name)
        return None

    return next((found for name in sorted(edges) if (found := visit(name, ()))), None)
