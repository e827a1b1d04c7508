"""The configuration that hydra composes of the files of a project: a main file, and for each group that its defaults
name one of the files that lie in the folder of the group.

Which one the user may choose. What the files of a group say differently is `GroupOptions`: of the whole where each
names another `_target_`, else of single entries.
"""

from __future__ import annotations

import contextlib
import os
import re
import types
from collections.abc import Callable, Iterator, Mapping, Sequence

from gpudoctor.lint.source.file_queries import question
from gpudoctor.lint.source.group_options import OPEN, GroupOptions, SaidAtStart, variable_in
from gpudoctor.lint.source.setting_files import document_in
from gpudoctor.record import dataclass, field

_PACKAGE = re.compile(r"^#\s*@package\s+(\S+)", re.MULTILINE)
_REFERENCE = re.compile(r"^\$\{([\w.]+)\}$")
_CONTENT = re.compile(r"^\s*[^#\s]", re.MULTILINE)
_ENDING = ".yaml"
_MOST_OPTIONS = 8
_DEEPEST = 8
_WORDS = ("override ", "optional ")


class UnknownConfig(Exception):
    """A file is not there, or cannot be read: hydra would find it elsewhere."""


@question
def option_names(folder: str) -> list[str]:
    """The options of a group: the YAML files that lie in its folder."""
    try:
        return sorted(each.removesuffix(_ENDING) for each in os.listdir(folder) if each.endswith(_ENDING))
    except OSError:
        return []


def composed(
    folder: str, name: str, text_of: Callable[[str], str | None], chosen: Mapping[str, str] = types.MappingProxyType({})
) -> object:
    """The configuration of this name; None where it is not known. `text_of` reads a file, and `chosen` is what the
    command line says: `model=large`, `model.width=3`."""
    composer = _Composer(folder, text_of, chosen)
    try:
        found = composer.tree(name.removesuffix(_ENDING), "", 0)
    except UnknownConfig:
        return None
    # Sections that nothing else has: the user has to choose a file that does, as `exp=base`.
    for group in tuple(composer.left_to_user):
        for key, value in composer.any_option(group, 0).items():
            found.setdefault(key, value)
    for key, text in chosen.items():
        if not option_names(os.path.join(folder, key)):
            *above, last = key.split(".")
            said = document_in(text, _ENDING)
            said = said if isinstance(said, (str, list, dict)) else SaidAtStart(said)
            found = _merged(found, _below("/".join(above), {last: said}))
    return _resolved(found, found, 0)


@dataclass(frozen=True)
class _Composer:
    folder: str
    text_of: Callable[[str], str | None]
    chosen: Mapping[str, str]
    left_to_user: list[str] = field(default_factory=list)
    """Groups of which the defaults choose no file."""

    def any_option(self, group: str, depth: int) -> dict[str, object]:
        """What all files of a group say alike, and of the rest which says what."""
        names = option_names(os.path.join(self.folder, group))[:_MOST_OPTIONS]
        return _any_of(group, list(self._trees(names, group, depth + 1)))

    def tree(self, name: str, group: str, depth: int) -> dict[str, object]:
        """A file of a group with all that its defaults name, as it lies in the whole."""
        text = self.text_of(os.path.join(self.folder, group, name + _ENDING)) if depth < _DEEPEST else None
        document = document_in(text, _ENDING) if text is not None else None
        if text is None:
            raise UnknownConfig
        said = _PACKAGE.search(text)
        package = said[1] if said is not None else "_group_"
        above = {"_global_": "", "_group_": group}.get(package, package).replace(".", "/")
        # Before version 1.1: a list of loggers, or of callbacks.
        if isinstance(document, list) and above:
            return _below(above, document)
        # A file of comments configures nothing.
        if not (isinstance(document, dict) or (document is None and not _CONTENT.search(text))):
            raise UnknownConfig
        own = {str(key): value for key, value in (document or {}).items()}
        defaults = own.pop("defaults", [])
        found: dict[str, object] = {}
        merged = False
        for each in defaults if isinstance(defaults, list) else ():
            if each == "_self_":
                found, merged = _merged(found, _below(above, own)), True
            else:
                found = _merged(found, self._default(each, group, depth))
        return found if merged else _merged(found, _below(above, own))

    def _default(self, entry: object, group: str, depth: int) -> dict[str, object]:
        if isinstance(entry, str):
            return self.tree(*_within(entry, group), depth + 1)
        if not isinstance(entry, dict) or len(entry) != 1:
            raise UnknownConfig
        (key, option), *_ = entry.items()
        optional = str(key).startswith("optional ")
        for word in _WORDS:
            key = str(key).removeprefix(word)
        inner, _, package = key.partition("@")
        inner = inner.removeprefix("/") if inner.startswith("/") else os.path.join(group, inner)
        if inner in self.chosen:
            return self.tree(self.chosen[inner].removesuffix(_ENDING), inner, depth + 1)
        if option is None:
            self.left_to_user.append(inner)
        # What hydra itself goes by, and what is left to the user.
        if inner.partition("/")[0] == "hydra" or option in (None, "???", []):
            return {}
        if package or (isinstance(option, str) and "${" in option):
            raise UnknownConfig
        if isinstance(option, list):
            made: dict[str, object] = {}
            for each in option:
                made = _merged(made, self.tree(str(each), inner, depth + 1))
            return made
        option, names = str(option).removesuffix(_ENDING), option_names(os.path.join(self.folder, inner))
        # The file that is named is not there: whoever starts it names another one.
        if names and option not in names and not optional:
            self.left_to_user.append(inner)
            return {}
        try:
            usual = self.tree(option, inner, depth + 1)
        except UnknownConfig:
            if optional:
                return {}
            raise
        others = [each for each in names if each != option]
        return _any_of(inner, [(option, usual), *self._trees(others[: _MOST_OPTIONS - 1], inner, depth + 1)])

    def _trees(self, names: list[str], group: str, depth: int) -> Iterator[tuple[str, dict[str, object]]]:
        for each in names:
            # One that cannot be composed is no reason to know nothing of the others.
            with contextlib.suppress(UnknownConfig):
                yield each, self.tree(each, group, depth)


def _within(entry: str, group: str) -> tuple[str, str]:
    """`base`, `/model/base`: the name and the group of another file."""
    whole = entry.removeprefix("/") if entry.startswith("/") else os.path.join(group, entry)
    return os.path.basename(whole).removesuffix(_ENDING), os.path.dirname(whole)


def _below(package: str, own: object) -> dict[str, object]:
    for part in reversed([each for each in package.split("/") if each]):
        own = {part: own}
    return own if isinstance(own, dict) else {}


def _merged(first: dict[str, object], second: Mapping[str, object]) -> dict[str, object]:
    """Later entries win; sections are put together."""
    made = dict(first)
    for key, value in second.items():
        made[key] = _over(made[key], value) if key in made else value
    return made


def _over(held: object, value: object) -> object:
    if isinstance(held, GroupOptions) and isinstance(value, dict):
        return GroupOptions(held.group, tuple((name, _over(each, value)) for name, each in held.said))
    if isinstance(value, GroupOptions):
        # An option that says nothing of it leaves it as it is.
        return _joined(value.group, [(name, held if each is OPEN else _over(held, each)) for name, each in value.said])
    return _merged(held, value) if isinstance(held, dict) and isinstance(value, dict) else value


def _any_of(group: str, trees: list[tuple[str, dict[str, object]]]) -> dict[str, object]:
    """What all options say alike, and of the rest which says what."""
    found = _joined(group, trees)
    return found if isinstance(found, dict) else {}


def _joined(group: str, said: Sequence[tuple[str, object]]) -> object:
    values = [each for _, each in said]
    if all(each == values[0] for each in values):
        return values[0]
    tables = [each for each in values if isinstance(each, dict)]
    targets = {str(each.get("_target_")) for each in tables}
    if len(tables) < len(values) or len(targets) > 1:
        return GroupOptions(group, tuple(said))
    keys = dict.fromkeys(key for each in tables for key in each)
    return {
        key: _joined(group, [(name, each.get(key, OPEN)) for name, each in said if isinstance(each, dict)])
        for key in keys
    }


def _resolved(value: object, root: object, depth: int) -> object:
    """With what `${model.width}` refers to in its place."""
    if depth > 2 * _DEEPEST:
        return OPEN
    match value:
        case dict():
            return {key: _resolved(each, root, depth + 1) for key, each in value.items()}
        case list():
            return [_resolved(each, root, depth + 1) for each in value]
        case GroupOptions(group, said):
            return GroupOptions(group, tuple((name, _resolved(each, root, depth + 1)) for name, each in said))
        # Which variable of the environment it is, whoever reads it must know.
        case str() if variable_in(value):
            return value
        case str() if "${" in value:
            found = _REFERENCE.match(value)
            return _resolved(_looked_up(root, found[1]), root, depth + 1) if found is not None else OPEN
        case "???":
            return OPEN
    return value


def _looked_up(root: object, path: str) -> object:
    for key in path.split("."):
        if not isinstance(root, dict) or key not in root:
            return OPEN
        root = root[key]
    return root
