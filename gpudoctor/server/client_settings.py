"""What the editor has set: in `initializationOptions`, or later as its settings of gpudoctor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpudoctor.config import LAUNCHES
from gpudoctor.errors import ConfigError, nearest
from gpudoctor.server.analysis_messages import EditorSettings

_WORDS = ("select", "extendSelect", "ignore", "exclude")
_TEXTS = ("launch", "baseline")
_KNOWN = (*_WORDS, *_TEXTS)
_FIELDS = {"extendSelect": "extend_select"}


def settings_of(given: Any) -> EditorSettings:
    """The settings; ConfigError where one is unknown, or is not what it should be."""
    table = given if isinstance(given, Mapping) else {}
    # Editors send their whole section, or what is in it.
    for name in ("gpudoctor", "settings"):
        table = inner if isinstance(inner := table.get(name), Mapping) else table
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in _KNOWN:
            raise ConfigError(f"settings of the editor: unknown key `{key}`{nearest(str(key), _KNOWN)}")
        if value is None or (key in _TEXTS and value == ""):
            continue
        values[_FIELDS.get(key) or key] = _checked(key, value)
    return EditorSettings(**values)


def _checked(key: str, value: object) -> object:
    if key in _WORDS:
        if not isinstance(value, (list, tuple)) or not all(isinstance(each, str) for each in value):
            raise ConfigError(f"settings of the editor: `{key}` must be a list of strings, not {value!r}")
        return tuple(value)
    if not isinstance(value, str):
        raise ConfigError(f"settings of the editor: `{key}` must be a string, not {value!r}")
    if key == "launch" and value not in LAUNCHES:
        raise ConfigError(f"settings of the editor: `launch` must be one of {', '.join(LAUNCHES)}, not {value!r}")
    return value
