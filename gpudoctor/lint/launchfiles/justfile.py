"""Justfiles: the lines of their recipes, as the shell would get them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpudoctor.lint.launchfiles.launchers import Recipes
from gpudoctor.lint.launchfiles.placed_text import Piece, PlacedText, filled_in
from gpudoctor.lint.launchfiles.shell import ScriptComment, Scripts
from gpudoctor.lint.launchfiles.shell_words import ShellVariable, Word
from gpudoctor.lint.launchfiles.variable_files import text_named, variables_of

_ASSIGNS = re.compile(r"^(export\s+)?([\w-]+)\s*:=\s*(.+?)\s*$")
_IMPORT = re.compile(r"^import\??\s+[\"'](.+?)[\"']")
_DOTENV = re.compile(r"^set\s+dotenv-load(?:\s*:=\s*true)?\s*$")
_MAX_DEPTH = 3
"""Files that import others are followed so deep."""
_RECIPE = re.compile(r"^@?([\w-]+)((?:\s+[^:]*?)?)\s*:(?!=)")
_FOLDER = re.compile(r"^\[working-directory\s*[:(]\s*[\"'](.*?)[\"']\s*\)?\]")
_PARAMETER = re.compile(r"[+*$]*([\w-]+)(?:=(\"[^\"]*\"|'[^']*'|[^\s\"']+))?")
_LITERAL = re.compile(r"\"([^\"\\$`]*)\"|'([^'$`]*)'")
_FROM_OUTSIDE = re.compile(r"env(?:_var_or_default)?\(\s*(\S+?)\s*,\s*(\S+?)\s*\)")
_NAME = re.compile(r"[A-Za-z_][\w-]*")
_EXPANSION = re.compile(r"\{\{\{\{|\{\{(.*?)\}\}")


def read_justfile(shown: str, text: str, others: Scripts | None = None) -> Recipes:
    """What its recipes start, with those of the files that it imports."""
    variables: dict[str, str] = {}
    exported: dict[str, ShellVariable] = {}
    recipes = Recipes()
    files = list(_with_imported(shown, text, others, 0))
    for path, lines in files:
        for number, line in enumerate(lines, start=1):
            found = _ASSIGNS.match(line)
            at = PlacedText(path, [Piece(line, number, 1)]).location(0, len(line))
            if found is not None:
                variables[found[2]] = _value(found[2], found[3])
                if found[1]:
                    exported[found[2]] = ShellVariable((Word((variables[found[2]],), at),), at, True)
            elif _DOTENV.match(line):
                beside = text_named(".env", others, at)
                exported |= dict(variables_of(beside)) if beside is not None else {}
            elif line.startswith("#") and path == shown:
                recipes.comments.append(ScriptComment(line, at, number, number + 1, True))
    for path, lines in files:
        for recipe in _recipes(path, lines, variables):
            recipes.read(*recipe, exported)
    recipes.comments[:] = (each for each in recipes.comments if each.at.path == shown)
    return recipes


def _with_imported(shown: str, text: str, others: Scripts | None, depth: int) -> Iterator[tuple[str, list[str]]]:
    lines = text.split("\n")
    for number, line in enumerate(lines if others is not None and depth < _MAX_DEPTH else (), start=1):
        found = _IMPORT.match(line)
        at = PlacedText(shown, [Piece(line, number, 1)]).location(0, len(line))
        imported = text_named(found[1] if found is not None else None, others, at)
        if imported is not None:
            yield from _with_imported(imported.path, imported.text, others, depth + 1)
    yield shown, lines


def _value(name: str, source: str) -> str:
    """What stands in the place of a name, for the shell."""
    literal, outside = _LITERAL.fullmatch(source), _FROM_OUTSIDE.fullmatch(source)
    if literal is not None:
        return str(literal[1] if literal[1] is not None else literal[2])
    known = [_LITERAL.fullmatch(each) for each in outside.groups()] if outside is not None else []
    names = [each[1] or each[2] or "" for each in known if each is not None]
    if len(names) == 2:
        return f"${{{names[0]}:-{names[1]}}}"
    return f"${{{name.replace('-', '_')}}}"


def _recipes(shown: str, lines: list[str], variables: dict[str, str]) -> Iterator[tuple[PlacedText, str]]:
    """The scripts of all recipes, with their folders: each line has a shell of its own, where the first does not name
    an interpreter."""
    at = 0
    while at < len(lines):
        found, inside = _RECIPE.match(lines[at]), _FOLDER.match(lines[at - 1]) if at else None
        folder = inside[1] if inside is not None else ""
        at += 1
        if found is None:
            continue
        known = {**variables, **_parameters(found[2])}
        body: list[tuple[int, str]] = []
        while at < len(lines) and (not lines[at].strip() or lines[at][0] in " \t"):
            body.append((at + 1, lines[at]))
            at += 1
        first = next((line.strip() for _, line in body if line.strip()), "")
        if first.startswith("#!"):
            if "sh" in first.rpartition("/")[2]:
                yield PlacedText(shown, [piece for each in body for piece in _line(each, known)]), folder
            continue
        together: list[Piece] = []
        for number, line in body:
            together += _line((number, line), known)
            if not line.endswith("\\"):
                yield PlacedText(shown, together), folder
                together = []


def _parameters(source: str) -> dict[str, str]:
    """What a recipe's parameters are where it is called with none."""
    found: dict[str, str] = {}
    for each in _PARAMETER.finditer(source):
        name, default = each[1].replace("-", "_"), each[2]
        found[each[1]] = f"${{{name}:-{default.strip(chr(34) + chr(39))}}}" if default else f"${{{name}}}"
    return found


def _line(numbered: tuple[int, str], known: dict[str, str]) -> Iterator[Piece]:
    number, line = numbered
    # `@` before a command hides it, and `-` lets it fail.
    mark = re.match(r"\s*(?:@|-(?!-))*", line)
    at = mark.end() if mark is not None else 0

    def value(found: re.Match[str]) -> str:
        name = (found[1] or "").strip()
        return "{{" if found[1] is None else known.get(name) or _value(name if _NAME.fullmatch(name) else "_just", name)

    yield from filled_in(Piece(f"{line[at:]}\n", number, at + 1), _EXPANSION, value)
