"""Write the JSON Schemas of the reports from their records: `python tests/tools/make_schema.py`."""

from __future__ import annotations

import enum
import inspect
import json
import sys
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import gpudoctor
from gpudoctor.diagnostic import Severity
from gpudoctor.probe.results import SCHEMA_VERSION, ProbeFinding, ProbeReport
from gpudoctor.record import dataclass, fields
from gpudoctor.report.json import VERSION
from gpudoctor.run.report_schema import RunReport

PACKAGE = Path(gpudoctor.__file__).parent
FILE = PACKAGE / "probe" / "report.schema.json"
FILE_OF_RUN = PACKAGE / "run" / "report.schema.json"
POLICY = (
    "Stable: within a version, members are added, and none is renamed, removed or given another meaning; readers must "
    "ignore members that they do not know. `version` counts what breaks this."
)


@dataclass(frozen=True)
class RelatedEntry:
    """A place that led to a finding, and what happened there."""

    message: str
    path: str
    line: int


@dataclass(frozen=True)
class FindingEntry:
    """One mistake at one place, in the form of `gpudoctor lint`."""

    code: str
    name: str
    severity: Severity
    message: str
    remedy: str
    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    related: tuple[RelatedEntry, ...]
    confidence: str
    seen_in: str
    world: str


def schema() -> dict[str, Any]:
    """The schema of a whole document of a probe."""
    return _document("gpudoctor probe --output-format json", ProbeReport, ProbeFinding, SCHEMA_VERSION)


def schema_of_run() -> dict[str, Any]:
    """The schema of a whole document of a run."""
    return _document("gpudoctor run --output-format json", RunReport, FindingEntry, VERSION)


def _document(title: str, kind: Any, finding: Any, version: int) -> dict[str, Any]:
    definitions: dict[str, Any] = {}
    report = _record(kind, definitions)
    members = {"version": {"const": version}, **report["properties"]}
    members["findings"] = {"type": "array", "items": _kind(finding, definitions)}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        "description": f"{report['description']} {POLICY}",
        "type": "object",
        "properties": members,
        "required": list(members),
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


def text(of: dict[str, Any] | None = None) -> str:
    """The content of a file; of that for a probe where nothing else is asked for."""
    return json.dumps(schema() if of is None else of, indent=2) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
    FILE_OF_RUN.write_text(text(schema_of_run()), encoding="utf-8")
    sys.stdout.write(f"{FILE}\n{FILE_OF_RUN}\n")
