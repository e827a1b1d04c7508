"""The setting files of a project: the classes and functions that they name (`_target_: package.module.Net`), and what
stands in one that the program opens."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from gpudoctor.lint.source.file_queries import beginning_of, question
from gpudoctor.lint.source.yaml_library import yaml_library

MAX_SETTING_FILES = 400
_DEEPEST = 6
PYTHON = ".py"
_YAML = (".yaml", ".yml")
_WHOLE = "/"
"""In the place of the folder of a file, for what stands in none of its sections."""
_LINE = re.compile(r"^([ \t]*(?:-[ \t]+)*)([\w.@/-]+):(?:[ \t]+(.*))?$")
_DOTTED = re.compile(r"^[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+$")
_WORD = re.compile(r"^[\w+-]*[A-Za-z][\w+-]*$")


def named_under(root: str, keys: Sequence[str], *, words: bool = False) -> list[str]:
    """The dotted names that stand under these keys, or under keys that end with them: folders count as keys. With
    `words` the names of one word that stand there."""
    wanted = "/".join(("", *keys))
    found = (each.split("=") for each in (_texts_in_settings if words else _named_in_settings)(root))
    return list(dict.fromkeys(name for path, name in found if path.endswith(wanted)))


def named_by_itself(root: str, key: str) -> list[str]:
    """The dotted names that stand under this key in no section of a file, or in one: `model/class_path`."""
    found = (each.split("=") for each in _named_in_settings(root))
    return list(dict.fromkeys(name for path, name in found if path == f"{_WHOLE}/{key}"))


@question
def _named_in_settings(root: str) -> list[str]:
    """Each dotted name in a YAML file of the project, behind the keys under which it stands."""
    return [
        f"{path}={name}" for file in files_ending_with(root, _YAML) for path, name in _names_in(root, file, _DOTTED)
    ]


@question
def _texts_in_settings(root: str) -> list[str]:
    """Each name of one word, likewise."""
    return [f"{path}={name}" for file in files_ending_with(root, _YAML) for path, name in _names_in(root, file, _WORD)]


def files_ending_with(root: str, endings: tuple[str, ...]) -> list[str]:
    """The files of a project that end so, but for hidden ones."""
    found: list[str] = []
    for folder, folders, files in os.walk(root):
        deep = folder[len(root) :].count(os.sep) >= _DEEPEST
        folders[:] = [] if deep else sorted(each for each in folders if not each.startswith((".", "__")))
        found += [os.path.join(folder, each) for each in sorted(files) if each.endswith(endings)]
        if len(found) >= MAX_SETTING_FILES:
            break
    return found[:MAX_SETTING_FILES]


def _names_in(root: str, file: str, wanted: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    # A group of hydra's is a folder: `conf/model/small.yaml` is what `cfg.model` is, with `model: small`.
    folders = os.path.relpath(os.path.dirname(file), root).split(os.sep)
    above: list[tuple[int, str]] = []
    for line in beginning_of(file).splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        indent, key, value = len(match[1]), match[2], (match[3] or "").partition(" #")[0].strip().strip("'\"")
        while above and above[-1][0] >= indent:
            above.pop()
        if wanted.match(value):
            yield "/".join(("", *folders, *(name for _, name in above), key)), value
            if len(above) < 2:
                # Once more as an entry of the whole configuration, whatever folder the file lies in, or of a section.
                yield "/".join((_WHOLE, *(name for _, name in above), key)), value
        above.append((indent, key))


_COMMENT = re.compile(r'("(?:\\.|[^"\\\n])*")|//.*$|^\s*#.*$', re.MULTILINE)
"""A comment, or a text, in which nothing is one."""


def document_in(text: str, path: str, read: Callable[[str], object] = lambda path: None) -> object:
    """What a YAML, TOML or JSON file holds, or one of Python that says the same, as plain dictionaries, lists and
    scalars; None where it cannot be read. `read` gives what another file holds."""
    try:
        if path.endswith(_YAML):
            return _in_yaml(text)
        if path.endswith(PYTHON):
            # Imported late, as below.
            from gpudoctor.lint.source.python_settings import settings_in

            return settings_in(text, os.path.dirname(path), read)
        return _in_toml(text) if path.endswith(".toml") else _in_json(text)
    # YAML such as `!!bool maybe` ends in whatever error its conversion meets.
    except (ValueError, LookupError, AttributeError, TypeError, ArithmeticError, RecursionError):
        return None


def _in_json(text: str) -> object:
    # Imported late, as below: most settings are YAML.
    import json

    # Comments are passed over, as DeepSpeed does, and programs that take them out themselves.
    return json.loads(_COMMENT.sub(lambda found: found[1] or "", text))


def _in_toml(text: str) -> object:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    return tomllib.loads(text)


def _in_yaml(text: str) -> object:
    yaml = yaml_library()

    class TagReader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        """Reads `!include x` and `!!python/tuple` as what is written behind them."""

    def untagged(loader: Any, _: str, node: Any) -> object:
        match node:
            case yaml.MappingNode():
                return loader.construct_mapping(node, deep=True)
            case yaml.SequenceNode():
                return loader.construct_sequence(node, deep=True)
        return loader.construct_scalar(node)

    TagReader.add_multi_constructor("", untagged)
    try:
        return yaml.load(text, Loader=TagReader)
    except yaml.YAMLError:
        return None
