"""A report as JSON, and back. The schema is stable: fields are added, never renamed; `version` counts breaks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gpudoctor.errors import UsageError
from gpudoctor.plain import from_plain, plain
from gpudoctor.probe.results import SCHEMA_VERSION, ProbedMachine, ProbeReport
from gpudoctor.record import replace


def document(report: ProbeReport) -> dict[str, Any]:
    """The report as dictionaries, lists, strings and numbers."""
    entries: dict[str, Any] = plain(report)
    return {"version": SCHEMA_VERSION, **entries, "findings": plain(report.findings)}


def rendered(report: ProbeReport) -> str:
    """The report as text of `--output-format json`."""
    return json.dumps(document(report), indent=2, allow_nan=False) + "\n"


def machine_from(entries: Mapping[str, Any], host: str) -> ProbedMachine:
    """A node's inventory from what `plain` made of it, under the name `host`."""
    machine = from_plain(ProbedMachine, {**entries, "host": host})
    return replace(machine, weak=tuple(replace(each, node=host) for each in machine.weak))


MAX_BYTES = 16 * 1024 * 1024
"""A hundred times what a machine with eight GPUs takes."""


def read_document(path: str) -> dict[str, Any]:
    """A document that an earlier probe wrote.

    Raises UsageError where the file cannot be read, is no such document, or comes from a later version.
    """
    try:
        with open(path, "rb") as file:
            raw = file.read(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            raise UsageError(f"{path}: is larger than {MAX_BYTES // 1024**2} MiB, so no probe has written it")
        found = json.loads(raw.decode("utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: is not JSON: {error}") from error
    if not isinstance(found, dict) or not isinstance(found.get("checks"), list):
        raise UsageError(f"{path}: is not the output of `gpudoctor probe --output-format json`")
    if found.get("version") != SCHEMA_VERSION:
        raise UsageError(f"{path}: has version {found.get('version')}, this gpudoctor reads {SCHEMA_VERSION}")
    return found
