"""Makefiles: the recipes of their targets, as the shell would get them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpudoctor.diagnostic import Location
from gpudoctor.lint.launchfiles.launchers import Recipes
from gpudoctor.lint.launchfiles.placed_text import Piece, PlacedText, filled_in
from gpudoctor.lint.launchfiles.shell import ScriptComment, Scripts, read_script
from gpudoctor.lint.launchfiles.shell_words import ShellVariable
from gpudoctor.lint.launchfiles.variable_files import text_named
from gpudoctor.record import dataclass, field, replace

_ASSIGNS = re.compile(r"^(?:(export|override)\s+)?([\w.-]+)\s*(\?=|:=|::=|\+=|=)\s*(.*)$")
_INCLUDES = re.compile(r"^[-s]?include\s+")
_TARGETS = re.compile(r"^([^\s#:=][^#:=]*?)\s*::?(?!=)\s*")
"""`train test: data`; what follows may be a variable for these targets alone, or a recipe behind `;`."""
_SIMPLE = re.compile(r"[\w./,:=@%+-]+")
_DEEP = r"(?:[^()]|\((?:[^()]|\([^()]*\))*\))*"
"""What stands in parentheses, with others in it."""
_CALL = re.compile(rf"\$\(call\s+(\w+)\s*,({_DEEP})\)")
_DEFINE = re.compile(r"^define\s+(\w+)")
_EXPANSION = re.compile(rf"\$\$|\$\((\w+)\)|\$\{{(\w+)\}}|\$\({_DEEP}\)|\$([^({{])")


@dataclass
class _Variables:
    """What is set where a makefile is read, and what of it commands are told."""

    values: dict[str, str] = field(default_factory=dict)
    exported: dict[str, Location] = field(default_factory=dict)

    def assign(self, body: str, at: Location) -> None:
        found = _ASSIGNS.match(body)
        if found is None:
            return
        export, name, sign, value = found.groups()
        if sign in ("=", ":=", "::="):
            self.values[name] = value
        elif sign == "?=" and _SIMPLE.fullmatch(value):
            # The environment may say something else.
            self.values.setdefault(name, f"$${{{name}:-{value}}}")
        else:
            self.values.pop(name, None)
        if export == "export":
            self.exported[name] = at

    def inside(self, other: _Variables) -> _Variables:
        """These over others."""
        return _Variables({**other.values, **self.values}, {**other.exported, **self.exported})

    def expanded(self, found: re.Match[str], depth: int = 0) -> str:
        if found[0] == "$$":
            return "$"
        called = _CALL.fullmatch(found[0])
        if called is not None and called[1] in self.values and depth <= 4:
            words = [each.strip() for each in called[2].split(",")]
            own = _Variables({**self.values, **{str(number): each for number, each in enumerate(words, start=1)}})
            return _EXPANSION.sub(lambda inner: own.expanded(inner, depth + 1), self.values[called[1]])
        if found[0].startswith("$(shell ") and depth <= 4:
            # What make takes from a shell, a recipe may as well take from its own.
            inner = _EXPANSION.sub(lambda inner: self.expanded(inner, depth + 1), found[0].removeprefix("$(shell "))
            return f"$({inner}"
        name = found[1] or found[2] or ""
        value = self.values.get(name)
        # For the shell it is a variable from outside.
        if value is None or depth > 4:
            return f"${{{name or '_make'}}}"
        return _EXPANSION.sub(lambda inner: self.expanded(inner, depth + 1), value)

    @property
    def environment(self) -> dict[str, ShellVariable]:
        """What is exported, as the shell of a recipe finds it set."""
        found: dict[str, ShellVariable] = {}
        for name, at in self.exported.items():
            value = _EXPANSION.sub(self.expanded, f"$({name})")
            # A default is the shell's to fill in.
            script = f'export {name}="{value}"\n:'
            for command in read_script(PlacedText.whole("", script)).commands:
                found |= {key: replace(bound, at=at) for key, bound in command.environment.items()}
        return found


def read_makefile(shown: str, text: str, others: Scripts | None = None) -> Recipes:
    """What its targets start, with the variables of files that it includes."""
    everywhere = _Variables()
    of_targets: dict[str, _Variables] = {}
    targets: tuple[str, ...] = ()
    found = Recipes()
    defined, body_of = "", list[str]()
    for first, lines in _logical(text):
        line = lines[0]
        if defined or _DEFINE.match(line):
            if line.strip() == "endef":
                everywhere.values[defined], defined, body_of = "\n".join(body_of), "", []
            elif defined:
                body_of.append("\n".join(lines).strip("\t"))
            else:
                defined = line.split()[1]
            continue
        head = _TARGETS.match(line) if not line.startswith("\t") else None
        targets = tuple(head[1].split()) if head is not None else targets
        behind = line.find(";", head.end()) + 1 if head is not None else 0
        if line.startswith("\t") or behind:
            known = everywhere
            for target in targets:
                known = of_targets[target].inside(known) if target in of_targets else known
            found.read(PlacedText(shown, _recipe(first, lines, known, behind)), "", known.environment)
            continue
        body = " ".join(each.rstrip("\\").strip() for each in lines)
        at = PlacedText(shown, [Piece(line, first, 1)]).location(0, len(line))
        if body.startswith("#"):
            found.comments.append(ScriptComment(body, at, first, first + 1, True))
        said = body.partition(" #")[0].rstrip()
        for name in _INCLUDES.sub("", said).split() if _INCLUDES.match(said) else ():
            _take_over(text_named(name, others, at), everywhere)
        if head is None:
            everywhere.assign(said, at)
        else:
            for target in targets:
                of_targets.setdefault(target, _Variables()).assign(said[head.end() :], at)
    return found


def _take_over(text: PlacedText | None, known: _Variables) -> None:
    """The variables that an included file sets."""
    for first, lines in _logical(text.text) if text is not None else ():
        if text is not None and not lines[0].startswith("\t"):
            at = PlacedText(text.path, [Piece(lines[0], first, 1)]).location(0, len(lines[0]))
            known.assign(" ".join(each.rstrip("\\").strip() for each in lines).partition(" #")[0].rstrip(), at)


def _logical(text: str) -> Iterator[tuple[int, list[str]]]:
    """Lines that go on behind a backslash together, with the number of the first."""
    lines: list[str] = []
    first = 1
    for number, line in enumerate(text.split("\n"), start=1):
        if not lines:
            first = number
        lines.append(line)
        if not line.endswith("\\"):
            yield first, lines
            lines = []
    if lines:
        yield first, lines


def _recipe(first: int, lines: list[str], known: _Variables, begin: int) -> Iterator[Piece]:
    for number, line in enumerate(lines, start=first):
        begins = begin if number == first else 0
        start = len(line) - len(line[begins:].lstrip("\t" if number > first else "\t @-+"))
        yield from filled_in(Piece(f"{line[start:]}\n", number, start + 1), _EXPANSION, known.expanded)
