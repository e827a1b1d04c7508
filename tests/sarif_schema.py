"""What gpudoctor writes of SARIF 2.1.0, as a schema that is closed: a misspelt property is an error, not an extra.

It is narrower than the standard's own schema, which allows everything that other tools need.
"""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

TEXT: Schema = {"type": "string", "minLength": 1}
COUNT: Schema = {"type": "integer", "minimum": 0}
POSITION: Schema = {"type": "integer", "minimum": 1}
LEVEL: Schema = {"enum": ["error", "warning", "note"]}
# A reference of RFC 3986: neither blanks nor other signs that must be quoted.
URI: Schema = {"type": "string", "pattern": r"^[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]+$"}


def record(required: str, **properties: Schema) -> Schema:
    """An object with these properties and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": required.split(),
        "additionalProperties": False,
    }


def listed(items: Schema) -> Schema:
    """A list of such things."""
    return {"type": "array", "items": items}


MESSAGE = record("text", text=TEXT)
ARTIFACT = record("uri", uri=URI, uriBaseId={"const": "%SRCROOT%"})
REGION = record("startLine startColumn", startLine=POSITION, startColumn=POSITION, endLine=POSITION, endColumn=POSITION)
LOCATION = record(
    "physicalLocation",
    id=POSITION,
    message=MESSAGE,
    physicalLocation=record("artifactLocation", artifactLocation=ARTIFACT, region=REGION),
)
RULE = record(
    "id name shortDescription fullDescription help defaultConfiguration properties",
    id={"type": "string", "pattern": r"^[A-Z]{2,10}\d{3,4}$"},
    name=TEXT,
    shortDescription=MESSAGE,
    fullDescription=MESSAGE,
    help=record("text markdown", text=TEXT, markdown=TEXT),
    defaultConfiguration=record("level", level=LEVEL),
    properties={
        "type": "object",
        "properties": {
            "tags": listed(TEXT),
            "problem.severity": {"enum": ["error", "warning", "recommendation"]},
        },
        "required": ["tags", "problem.severity"],
        "additionalProperties": False,
    },
)
FIX = record(
    "description artifactChanges",
    description=MESSAGE,
    artifactChanges=listed(
        record(
            "artifactLocation replacements",
            artifactLocation=ARTIFACT,
            replacements=listed(
                record("deletedRegion", deletedRegion=REGION, insertedContent=record("text", text={"type": "string"}))
            ),
        )
    ),
)
RESULT = record(
    "ruleId ruleIndex level message locations partialFingerprints properties",
    ruleId=TEXT,
    ruleIndex=COUNT,
    level=LEVEL,
    message=MESSAGE,
    locations={**listed(LOCATION), "minItems": 1, "maxItems": 1},
    relatedLocations={**listed(LOCATION), "minItems": 1, "uniqueItems": True},
    partialFingerprints={"type": "object", "additionalProperties": TEXT, "minProperties": 1},
    fixes=listed(FIX),
    properties=record(
        "confidence seenIn world",
        confidence={"enum": ["definite", "likely"]},
        seenIn={"enum": ["code", "run", "machine"]},
        world={"type": "string"},
    ),
)
NOTIFICATION = record("level message", level=LEVEL, message=MESSAGE, locations=listed(LOCATION))
RUN = record(
    "tool invocations originalUriBaseIds columnKind results",
    tool=record("driver", driver=record("name version rules", name=TEXT, version=TEXT, rules=listed(RULE))),
    invocations=listed(
        record(
            "executionSuccessful exitCode toolExecutionNotifications",
            executionSuccessful={"type": "boolean"},
            exitCode=COUNT,
            toolExecutionNotifications=listed(NOTIFICATION),
        )
    ),
    originalUriBaseIds={
        "type": "object",
        "propertyNames": {"const": "%SRCROOT%"},
        "additionalProperties": record("uri", uri={"type": "string", "pattern": "^file:///.*/$"}),
    },
    columnKind={"const": "unicodeCodePoints"},
    results=listed(RESULT),
)
LOG: Schema = {
    "type": "object",
    "properties": {
        "$schema": URI,
        "version": {"const": "2.1.0"},
        "runs": {**listed(RUN), "minItems": 1, "maxItems": 1},
    },
    "required": ["$schema", "version", "runs"],
    "additionalProperties": False,
}
