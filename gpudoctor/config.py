"""Settings from `[tool.gpudoctor]` in a `pyproject.toml`, or from a `gpudoctor.toml`, which may be hidden.

One file holds for one call: the nearest that has settings, looking upward. The command line wins over it.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Container, Iterable, Iterator
from fnmatch import fnmatch
from importlib import import_module
from typing import Any

from gpudoctor.errors import ConfigError, nearest
from gpudoctor.record import dataclass
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

    Patterns of `exclude` and `per_file_ignores` are relative to `folder`. None stands for what was left out.
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


def find_config(start: str) -> Config:
    """The settings for a file or a folder: those of the nearest file that has any."""
    for path in _candidates(start):
        settings = _settings(path)
        if settings is not None:
            return _config(path, settings)
    return Config()


def read_config(path: str) -> Config:
    """The settings of this file, which must exist."""
    if not os.path.isfile(path):
        raise ConfigError(f"{path}: there is no such configuration file")
    return _config(path, _settings(path) or {})


def matches(pattern: str, path: str, folder: str) -> bool:
    """A path is meant by a pattern: as a whole relative to `folder`, by its name, or by a folder above it."""
    relative = os.path.relpath(path, folder or ".").replace(os.sep, "/")
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
    folder = os.path.abspath(start)
    if not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    while True:
        # In one folder the tool's own file wins over the shared one, and a hidden one over both, as with ruff.
        for name in (*OWN_FILES, SHARED_FILE):
            path = os.path.join(folder, name)
            if os.path.isfile(path):
                yield path
        above = os.path.dirname(folder)
        if above == folder:
            return
        folder = above


def _settings(path: str) -> dict[str, Any] | None:
    """The table of settings in a file, None where a shared file has none."""
    # A file that `--config` names may be called anything, and is ours.
    own = os.path.basename(path) != SHARED_FILE
    raw = _raw(path)
    # Most projects say nothing to gpudoctor, though some depend on it, and the parser costs more than the look.
    if not own and not (b"gpudoctor" in raw and re.search(_ADDRESSED, raw)):
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


def _config(path: str, settings: object) -> Config:
    if not isinstance(settings, dict):
        raise ConfigError(f"{path}: `tool.gpudoctor` must be a table")
    values: dict[str, Any] = {}
    for key, value in settings.items():
        # A misspelt key would switch off nothing, and nobody would notice.
        if key not in _KEYS:
            hint = "; here the keys stand without `[tool.gpudoctor]`" if key == "tool" else nearest(key, _KEYS)
            raise ConfigError(f"{path}{_line_of(key, path)}: unknown key `{key}`{hint}")
        values[key.replace("-", "_")] = _KEYS[key](f"{path}: `{key}`", value)
    return Config(origin=os.path.relpath(path), folder=os.path.dirname(os.path.abspath(path)), **values)


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


def _table(where: str, value: object) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if not isinstance(value, dict):
        raise ConfigError(f"{where} must be a table of patterns with a list of rules each, not {value!r}")
    return tuple((pattern, _strings(f"{where}: `{pattern}`", rules)) for pattern, rules in value.items())


def _switch(where: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"{where} must be true or false, not {value!r}")
    return value


def _version(where: str, value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"\d+\.\d+(\.\d+)?", value):
        raise ConfigError(f'{where} must be a version of PyTorch such as "2.4", not {value!r}')
    return value


def _one_of(*choices: str) -> Callable[[str, object], str]:
    def check(where: str, value: object) -> str:
        if not isinstance(value, str) or value not in choices:
            hint = nearest(value, choices) if isinstance(value, str) else ""
            raise ConfigError(f"{where} must be one of {', '.join(choices)}, not {value!r}{hint}")
        return value

    return check


_KEYS: dict[str, Callable[[str, object], Any]] = {
    "select": _strings,
    "ignore": _strings,
    "extend-select": _strings,
    "per-file-ignores": _table,
    "exclude": _strings,
    "respect-gitignore": _switch,
    "launch": _one_of(*LAUNCHES),
    "target-torch": _version,
    "output-format": _one_of(*FORMATS),
    "fail-on": _one_of(*FAIL_ON),
}
