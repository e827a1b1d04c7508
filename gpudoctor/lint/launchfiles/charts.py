"""Templates of Helm charts, with the values that the chart itself gives."""

from __future__ import annotations

import json
import re

from gpudoctor.lint.launchfiles.documents import Document, documents
from gpudoctor.lint.launchfiles.placed_text import PlacedText

_ACTION = re.compile(r"\{\{-?\s*(.*?)\s*-?\}\}")
_VALUE = re.compile(r"(?:toYaml\s+)?\(?\s*\$?\.Values\.([\w.-]+)\s*\)?((?:\s*\|.*)?)$")
_DEFAULT = re.compile(r"\bdefault\s+[\"']?([\w./:-]+)")
_INDENT = re.compile(r"\bn?indent\s+(\d+)")
_UNKNOWN = "$_values"


def rendered(text: str, values: PlacedText | None) -> str:
    """A template with its values filled in, line by line. Both sides of a condition stay, and what helpers make is left
    out."""
    found = documents(values.text, values.path) if values is not None else []
    root = found[0] if found else None

    def value(action: re.Match[str]) -> str:
        told = _VALUE.match(action[1])
        at = root.at_path(*told[1].split(".")) if told is not None and root is not None else None
        if at is None or told is None:
            default = _DEFAULT.search(action[1])
            return default[1] if default is not None else _UNKNOWN
        if at.text is not None:
            return json.dumps(at.text) if "quote" in told[2] else at.text
        return json.dumps(_plain(at))

    lines = []
    for line in text.split("\n"):
        alone = _ACTION.fullmatch(line.strip())
        if alone is None:
            lines.append(_ACTION.sub(value, line))
        elif _VALUE.match(alone[1]):
            indent = _INDENT.search(alone[1])
            before = " " * int(indent[1]) if indent is not None else line[: len(line) - len(line.lstrip())]
            lines.append(f"{before}{value(alone)}")
        else:
            lines.append("")
    return "\n".join(lines)


def _plain(value: Document) -> object:
    if value.text is not None:
        return value.text
    members = value.members()
    return [_plain(each) for each in members] if members else {key: _plain(each) for key, each in value.items()}
