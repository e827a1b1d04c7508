"""Settings from `[tool.gpudoctor]` in a `pyproject.toml`, or from a `gpudoctor.toml`, which may be hidden.

One file holds for one call: the nearest that has settings, looking upward, with those that it extends. The command line
wins over it.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from importlib import import_module
from typing import Any

from gpudoctor.errors import ConfigError, nearest
from gpudoctor.record import dataclass, field
from gpudoctor.report.formats import FORMATS

LAUNCHES = ("auto", "torchrun", "spawn", "single")
NOT_FOLLOWED = "not-followed"
"""Fail as on warnings, and where the training of a program was not followed."""
FAIL_ON = ("error", "warning", "perf", "info", NOT_FOLLOWED, "never")

OWN_FILES = (".gpudoctor.toml", "gpudoctor.toml")
SHARED_FILE = "pyproject.toml"
_ADDRESSED = rb"tool[\"']?[ \t]*(?:\.[ \t]*[\"']?gpudoctor|\]|=)"
"""The ways to write the table: `[tool.gpudoctor]`, `tool.gpudoctor.select = …`, `gpudoctor = …` below `[tool]`."""


MAX_BYTES = 1024 * 1024
"""The largest of thousands of settings files have a tenth of that."""
_MAX_PARTS = 32
# The parser takes quadratic time for the parts of a key. Long parts are not counted: few of them fit into a file.
_PART = rb"(?:[\w-]{1,200}|\"(?:[^\"\\\n]|\\.){0,200}\"|'[^'\n]{0,200}')"
_DEEP_KEY = rb"(?<![\w-])(?:" + _PART + rb"[ \t]{0,9}\.[ \t]{0,9}){%d}" % _MAX_PARTS


@dataclass(frozen=True)
class Config:
    """What a configuration file says; `origin` is the file as it is shown, empty where there is none.

    Patterns of `exclude` and `per_file_ignores` are relative to `folder`. None stands for what was left out. `notes`
    say which files look like settings and are not read; `said_in` has the file of each setting, by its key.
    """

    origin: str = ""
    folder: str = ""
    select: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    exclude: tuple[str, ...] = ()
    respect_gitignore: bool = True
    launch: str | None = None
    target_torch: str = ""
    output_format: str | None = None
    fail_on: str | None = None
    unsafe_fixes: bool = False
    notes: tuple[str, ...] = field(default=(), compare=False)
    said_in: tuple[tuple[str, str], ...] = field(default=(), compare=False)


def find_config(start: str) -> Config:
    """The settings for a file or a folder: those of the nearest file that has any."""
    for path in _candidates(start):
        settings = _settings(path)
        if settings is not None:
            return _config(path, settings, (*_misspelt(start, os.path.dirname(path)), *_outvoted(path)))
    return Config(notes=tuple(_misspelt(start)))


def read_config(path: str) -> Config:
    """The settings of this file, which must exist."""
    if not os.path.isfile(path):
        raise ConfigError(f"{path}: there is no such configuration file")
    return _config(path, _settings(path) or {})


def matches(pattern: str, path: str, folder: str) -> bool:
    """A path is meant by a pattern: as a whole relative to `folder`, by its name, or by a folder above it."""
    # Imported late: most projects leave nothing out.
    from fnmatch import fnmatch

    relative = os.path.abspath(path) if pattern.startswith("/") else os.path.relpath(path, folder or ".")
    relative = relative.replace(os.sep, "/")
    pattern = pattern.removeprefix("./").rstrip("/")
    parts = relative.split("/")
    above = ("/".join(parts[:end]) for end in range(1, len(parts) + 1))
    return any(fnmatch(each, pattern) for each in above) or any(fnmatch(part, pattern) for part in parts)


def is_excluded(path: str, exclude: Iterable[str]) -> bool:
    """A file that is left out, also where it is named or imported; patterns count from the working directory."""
    return any(matches(pattern, path, "") for pattern in exclude)


def is_ignored(code: str, path: str, per_file: Iterable[tuple[str, Container[str]]], folder: str) -> bool:
    """The rule of this code is silent in a file, by patterns that count from `folder`."""
    return any(code in codes and matches(pattern, path, folder) for pattern, codes in per_file)


def _candidates(start: str) -> Iterator[str]:
    """The files that may hold the settings, the nearest first."""
    for folder in _upward(start):
        # In one folder the tool's own file wins over the shared one, and a hidden one over both, as with ruff.
        for name in (*OWN_FILES, SHARED_FILE):
            path = os.path.join(folder, name)
            if os.path.isfile(path):
                yield path


def _upward(start: str) -> Iterator[str]:
    folder = os.path.abspath(start)
    if not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    yield folder
    while (above := os.path.dirname(folder)) != folder:
        folder = above
        yield folder


def _names_in(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _misspelt(start: str, last: str = "") -> Iterator[str]:
    """A note for each file that is called nearly as one of ours, up to the folder of the settings that count, or of the
    project: what lies above is of others, and may be a lot."""
    folders: list[str] = []
    for folder in _upward(start):
        folders.append(folder)
        if folder == last or any(os.path.exists(os.path.join(folder, mark)) for mark in (SHARED_FILE, ".git")):
            break
    else:
        folders = folders[:1]
    for folder in folders:
        for name in _names_in(folder):
            if (right := _meant(name)) and os.path.isfile(os.path.join(folder, name)):
                yield f"{os.path.relpath(os.path.join(folder, name))} is not read: did you mean `{right}`?"
            if name == SHARED_FILE:
                yield from _misspelt_tables(os.path.join(folder, name))


def _misspelt_tables(path: str) -> Iterator[str]:
    if not os.path.isfile(path):
        return
    for table in dict.fromkeys(re.findall(rb"^[ \t]*\[[ \t]*tool\.([\w-]+)", _raw(path), re.MULTILINE)):
        # A table is called as a file would be, without a suffix.
        shown = table.decode("ascii", "replace")
        if shown != "gpudoctor" and _meant(shown):
            yield f"{os.path.relpath(path)}: `[tool.{shown}]` is not read: did you mean `[tool.gpudoctor]`?"


def _meant(name: str) -> str:
    """The file of ours that is called nearly so; empty where none is."""
    stem, dot, suffix = name.lower().removeprefix(".").partition(".")
    # Most names are no settings at all, and the closer look costs more.
    if not ("doc" in stem or "gpu" in stem) or f"{dot}{suffix}" not in _SUFFIXES or name in OWN_FILES:
        return ""
    bare, own = stem.removesuffix("rc"), "gpudoctor"
    if bare != own:
        # No more alike than by the letters that they share: most projects have `docs`, and difflib takes milliseconds.
        shared = sum(min(bare.count(letter), own.count(letter)) for letter in set(own))
        if 2 * shared < _ALIKE * (len(bare) + len(own)):
            return ""
        from difflib import SequenceMatcher

        if SequenceMatcher(None, bare, own).ratio() < _ALIKE:
            return ""
    return OWN_FILES[not name.startswith(".")]


def _outvoted(path: str) -> Iterator[str]:
    """A note for each file with settings in the folder of the one that counts."""
    folder, name = os.path.split(path)
    names = (*OWN_FILES, SHARED_FILE)
    for other in names[names.index(name) + 1 :]:
        beside = os.path.join(folder, other)
        if os.path.isfile(beside) and (other in OWN_FILES or _addressed(_raw(beside))):
            yield f"{os.path.relpath(beside)}: its settings are not read: {name} beside it has some"


def _addressed(raw: bytes) -> bool:
    return b"gpudoctor" in raw and re.search(_ADDRESSED, raw) is not None


_SUFFIXES = ("", ".toml", ".tml", ".tolm", ".tmol", ".ini", ".cfg", ".conf", ".yaml", ".yml")
_ALIKE = 0.85


def _settings(path: str) -> dict[str, Any] | None:
    """The table of settings in a file, None where a shared file has none."""
    # A file that `--config` names may be called anything, and is ours.
    own = os.path.basename(path) != SHARED_FILE
    raw = _raw(path)
    # Most projects say nothing to gpudoctor, though some depend on it, and the parser costs more than the look.
    if not own and not _addressed(raw):
        return None
    document = _parsed(path, raw)
    if own:
        return document
    tools = document.get("tool", {})
    if not isinstance(tools, dict):
        raise ConfigError(f"{path}: `tool` must be a table")
    return tools.get("gpudoctor")


def _raw(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    if len(raw) > MAX_BYTES:
        raise ConfigError(f"{path}: cannot be read: it is larger than {MAX_BYTES // 1024} KiB")
    # Settings in it would be overlooked, and nobody would notice.
    if b"\0" in raw:
        raise ConfigError(f"{path}: cannot be read: it is not UTF-8 (at line {raw[: raw.index(0)].count(10) + 1})")
    return raw


def _parsed(path: str, raw: bytes) -> dict[str, Any]:
    # tomllib came with Python 3.11; tomli is the same under another name.
    toml = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    if re.search(_DEEP_KEY, raw):
        raise ConfigError(f"{path}: cannot be read: it is nested too deeply")
    try:
        document: dict[str, Any] = toml.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}: cannot be read: it is not UTF-8 (at line {line})") from error
    except toml.TOMLDecodeError as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error
    except ValueError as error:
        raise ConfigError(f"{path}: cannot be read: it has a number with too many digits") from error
    except RecursionError as error:
        raise ConfigError(f"{path}: cannot be read: it is nested too deeply") from error
    return document


def _config(path: str, settings: object, notes: tuple[str, ...] = ()) -> Config:
    values: dict[str, Any] = {}
    said_in: dict[str, str] = {}
    folder = os.path.dirname(os.path.abspath(path))
    # What a file extends comes first, and what it says itself wins.
    for file, said in reversed(_extended(path, settings)):
        shown = os.path.relpath(file)
        for key, value in _checked(file, said).items():
            if key in _NOT_KEPT:
                continue
            values[key.replace("-", "_")] = _counted_from(value, key, os.path.dirname(os.path.abspath(file)), folder)
            said_in[key] = shown
    return Config(origin=os.path.relpath(path), folder=folder, notes=notes, said_in=tuple(said_in.items()), **values)


def _extended(path: str, settings: object) -> list[tuple[str, dict[str, Any]]]:
    """A file and those that it extends, each with what it says."""
    found: list[tuple[str, dict[str, Any]]] = []
    while True:
        if not isinstance(settings, dict):
            raise ConfigError(f"{path}: `tool.gpudoctor` must be a table")
        # Before anything else: what a later version knows is unknown to this one.
        if (wanted := settings.get("required-version")) is not None:
            from gpudoctor.required_version import refuse_other_version

            refuse_other_version(wanted, path)
        found.append((path, settings))
        if (base := settings.get("extend")) is None:
            return found
        where = f"{path}: `extend`"
        above = os.path.join(os.path.dirname(path), os.path.expanduser(_string(where, base)))
        if not os.path.isfile(above):
            raise ConfigError(f"{where}: there is no file `{base}`")
        if any(os.path.realpath(each) == os.path.realpath(above) for each, _ in found):
            raise ConfigError(f"{where}: `{base}` extends this file itself")
        path, settings = os.path.normpath(above), _settings(above)
        if settings is None:
            raise ConfigError(f"{where}: `{base}` has no `[tool.gpudoctor]`")


def _checked(path: str, settings: dict[str, Any]) -> dict[str, Any]:
    values = {}
    for key, value in settings.items():
        # A misspelt key would switch off nothing, and nobody would notice.
        if key not in SETTINGS:
            hint = "; in this file the keys need no `[tool.gpudoctor]`" if key == "tool" else nearest(key, SETTINGS)
            raise ConfigError(f"{path}{_line_of(key, path)}: unknown key `{key}`{hint}")
        values[key] = SETTINGS[key].read(f"{path}: `{key}`", value)
    return values


def _counted_from(value: Any, key: str, said_in: str, folder: str) -> Any:
    """A value of a file that is extended: its patterns count from the folder of that file."""
    if said_in == folder or key not in ("exclude", "per-file-ignores"):
        return value
    if key == "exclude":
        return tuple(_absolute(pattern, said_in) for pattern in value)
    return tuple((_absolute(pattern, said_in), rules) for pattern, rules in value)


def _absolute(pattern: str, folder: str) -> str:
    # Without a slash a pattern means a name anywhere.
    if "/" not in pattern.rstrip("/"):
        return pattern
    literal = re.sub(r"([*?[])", r"[\1]", folder)
    return os.path.normpath(f"{literal}/{pattern}").replace(os.sep, "/")


def _line_of(key: str, path: str) -> str:
    """`:3` where the key stands on line 3, as far as that can be seen without a parser that counts lines."""
    with open(path, encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            if re.match(rf"\s*\[?[\w.]*[\"']?{re.escape(key)}[\"']?\s*[=.\]]", line):
                return f":{number}"
    return ""


def _strings(where: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ConfigError(f"{where} must be a list of strings, not {value!r}")
    return tuple(value)


def _string(where: str, value: object) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"{where} must be a string, not {value!r}")
    return value


def _table(where: str, value: object) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if not isinstance(value, dict):
        raise ConfigError(f"{where} must be a table of patterns with a list of rules each, not {value!r}")
    return tuple((pattern, _strings(f"{where}: `{pattern}`", rules)) for pattern, rules in value.items())


def _switch(where: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"{where} must be true or false, not {value!r}")
    return value


def _version(where: str, value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(TORCH_VERSION, value):
        raise ConfigError(f'{where} must be a version of PyTorch such as "2.4", not {value!r}')
    return value


TORCH_VERSION = r"\d+\.\d+(\.\d+)?"


def _one_of(choices: Sequence[str]) -> Callable[[str, object], str]:
    def check(where: str, value: object) -> str:
        if not isinstance(value, str) or value not in choices:
            hint = nearest(value, choices) if isinstance(value, str) else ""
            raise ConfigError(f"{where} must be one of {', '.join(choices)}, not {value!r}{hint}")
        return value

    return check


@dataclass(frozen=True)
class Setting:
    """A key of a settings file: how its value is read, what it means, and the words that it may be."""

    read: Callable[[str, object], Any]
    meaning: str
    choices: tuple[str, ...] = ()


def _choice(meaning: str, choices: Iterable[str]) -> Setting:
    words = tuple(choices)
    return Setting(_one_of(words), meaning, words)


SETTINGS: dict[str, Setting] = {
    "extend": Setting(_string, "Another settings file, relative to this one, whose settings hold where this has none."),
    "required-version": Setting(_string, "Versions of gpudoctor that these settings are for, such as `>=0.1,<0.3`."),
    "select": Setting(_strings, "Only these rules: codes, beginnings of codes, names, or ALL."),
    "ignore": Setting(_strings, "Without these rules."),
    "extend-select": Setting(_strings, "These rules as well; those of severity `info` are off by default."),
    "per-file-ignores": Setting(_table, "Rules that are silent in files, by patterns relative to this file's folder."),
    "exclude": Setting(_strings, "Files and folders to leave out: patterns relative to this file's folder, or names."),
    "respect-gitignore": Setting(_switch, "Leave out what git ignores, where a folder is searched."),
    "launch": _choice("How programs are started; `auto` sees it from each program.", LAUNCHES),
    "target-torch": Setting(_version, "The version of PyTorch that the programs are for, such as `2.4`."),
    "output-format": _choice("The format of the report.", FORMATS),
    "fail-on": _choice("From which severity on the exit code is 1.", FAIL_ON),
    "unsafe-fixes": Setting(_switch, "`--fix` and `--diff` make unsafe fixes, too."),
}
"""All that a settings file may say."""
_NOT_KEPT = ("extend", "required-version")
"""They say how the file is read, and nothing of lint."""
