"""Write the JSON Schemas of reports and settings from their records: `python tests/tools/make_schema.py`."""

import enum
import inspect
import json
import sys
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import gpudoctor
from gpudoctor.config import SETTINGS, TORCH_VERSION, Config, Setting
from gpudoctor.logs.log_report import LogReport
from gpudoctor.probe.results import SCHEMA_VERSION, ProbeFinding, ProbeReport
from gpudoctor.record import fields
from gpudoctor.report.json import VERSION, FindingEntry, LintReport
from gpudoctor.run.report_schema import RunReport

FOLDER = Path(gpudoctor.__file__).parent / "schemas"
"""All that the site publishes."""
POLICY = (
    "Stable: within a version, members are added, and none is renamed, removed or given another meaning; readers must "
    "ignore members that they do not know. `version` counts what breaks this."
)
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema_of_lint() -> dict[str, Any]:
    """The schema of a whole document of a lint."""
    return _document("gpudoctor lint --output-format json", LintReport, FindingEntry, VERSION)


def schema_of_probe() -> dict[str, Any]:
    """The schema of a whole document of a probe."""
    return _document("gpudoctor probe --output-format json", ProbeReport, ProbeFinding, SCHEMA_VERSION)


def schema_of_run() -> dict[str, Any]:
    """The schema of a whole document of a run."""
    return _document("gpudoctor run --output-format json", RunReport, FindingEntry, VERSION)


def schema_of_read() -> dict[str, Any]:
    """The schema of a whole document about logs."""
    return _document("gpudoctor read --output-format json", LogReport, FindingEntry, VERSION)


def schema_of_settings() -> dict[str, Any]:
    """The schema of a `gpudoctor.toml`, which is that of `[tool.gpudoctor]` in a `pyproject.toml`."""
    hints = get_type_hints(Config)
    return {
        # The editors that complete settings know this one.
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "gpudoctor",
        "description": "Settings of gpudoctor: `gpudoctor.toml`, or `[tool.gpudoctor]` in a `pyproject.toml`.",
        "type": "object",
        "properties": {key: _setting(key, setting, hints) for key, setting in SETTINGS.items()},
        "additionalProperties": False,
    }


def _setting(key: str, setting: Setting, hints: Mapping[str, Any]) -> dict[str, Any]:
    told = {"description": setting.meaning}
    if setting.choices:
        return {**told, "enum": list(setting.choices)}
    kind = hints.get(key.replace("-", "_"), str)
    if key == "per-file-ignores":
        return {**told, "type": "object", "additionalProperties": _STRINGS}
    if key == "target-torch":
        return {**told, "type": "string", "pattern": f"^{TORCH_VERSION}$"}
    if key == "required-version":
        condition = r"\s*(>=|<=|==|!=|~=|>|<|)\s*v?\d+(\.\d+)*\s*"
        return {**told, "type": "string", "pattern": f"^{condition}(,{condition})*$"}
    return {**told, **({"type": _PLAIN[kind]} if kind in _PLAIN else _STRINGS)}


_STRINGS: dict[str, Any] = {"type": "array", "items": {"type": "string"}}


def _document(title: str, kind: Any, finding: Any, version: int) -> dict[str, Any]:
    definitions: dict[str, Any] = {}
    report = _record(kind, definitions)
    members = {"version": {"const": version}, **report["properties"]}
    members["findings"] = {"type": "array", "items": _kind(finding, definitions)}
    optional = getattr(kind, "optional", ())
    return {
        "$schema": DIALECT,
        "title": title,
        "description": f"{report['description']} {POLICY}",
        "type": "object",
        "properties": members,
        "required": [name for name in members if name not in optional],
        "$defs": dict(sorted(definitions.items())),
    }


def _record(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    hints = get_type_hints(kind)
    members = {each.name: _kind(hints[each.name], definitions) for each in fields(kind)}
    return {
        "description": " ".join((inspect.getdoc(kind) or "").split()),
        "type": "object",
        "properties": members,
        "required": list(members),
    }


def _kind(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """The schema of a value, as `plain` writes it."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _one_of([_kind(part, definitions) for part in parts])
    if origin is tuple and parts[-1] is not Ellipsis:
        return {"type": "array", "prefixItems": [_kind(part, definitions) for part in parts], "items": False}
    if origin in (tuple, list):
        return {"type": "array", "items": _kind(parts[0], definitions)}
    if origin is Mapping:
        return {"type": "object", "additionalProperties": _kind(parts[1], definitions)}
    if kind in _PLAIN:
        return {"type": _PLAIN[kind]}
    if issubclass(kind, enum.Enum):
        return {"description": " ".join((inspect.getdoc(kind) or "").split()), "enum": [each.value for each in kind]}
    # A record may be called otherwise than readers know it.
    name = getattr(kind, "published_as", kind.__name__)
    if name not in definitions:
        definitions[name] = {}
        definitions[name] = _record(kind, definitions)
    return {"$ref": f"#/$defs/{name}"}


# What JSON has no number for, NaN and infinity, is written as null.
_PLAIN: dict[Any, Any] = {
    str: "string",
    int: "integer",
    bool: "boolean",
    float: ["number", "null"],
    type(None): "null",
}


def _one_of(choices: list[dict[str, Any]]) -> dict[str, Any]:
    if not all(choice.keys() == {"type"} for choice in choices):
        return {"anyOf": choices}
    names = [choice["type"] if isinstance(choice["type"], list) else [choice["type"]] for choice in choices]
    return {"type": list(dict.fromkeys(name for each in names for name in each))}


SCHEMAS: dict[str, Callable[[], dict[str, Any]]] = {
    "lint": schema_of_lint,
    "probe": schema_of_probe,
    "read": schema_of_read,
    "run": schema_of_run,
    "settings": schema_of_settings,
}


def file_of(name: str) -> Path:
    """Where the schema of this name is kept."""
    return FOLDER / f"{name}.json"


def text(name: str) -> str:
    """What its file holds."""
    return json.dumps(SCHEMAS[name](), indent=2) + "\n"


if __name__ == "__main__":
    for each in SCHEMAS:
        file_of(each).write_text(text(each), encoding="utf-8")
        sys.stdout.write(f"{file_of(each)}\n")
