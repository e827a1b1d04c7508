"""The documented form of the JSON: it says no more than it can keep. That what the
probe really writes holds to it is a test of `test_real_ranks.py`."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpudoctor.probe.report_json import document
from tests.tools import make_schema
from tests.tools.make_recordings import made_up

jsonschema = pytest.importorskip("jsonschema")


def _validator() -> Any:
    schema = json.loads(make_schema.file_of("probe").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("name", sorted(made_up()))
def test_reports_of_gpus_that_are_made_up(name: str) -> None:
    _validator().validate(document(made_up()[name]))


def test_a_report_of_a_comparison(repository: Path) -> None:
    old, new = (f"fixtures/recordings/{name}" for name in ("probe_healthy_8_gpus.json", "probe_slow_gpu.json"))
    command = [sys.executable, "-m", "gpudoctor", "probe", "--from", new, "--compare", old, "--output-format", "json"]
    ended = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=False)
    found = json.loads(ended.stdout)
    assert found["comparison"]["changes"]
    _validator().validate(found)


def test_what_does_not_hold() -> None:
    found = document(next(iter(made_up().values())))
    for wrong in ({"checks": [{"name": "x"}]}, {"checks": [{**found["checks"][0], "verdict": "good"}]}, {"version": 2}):
        assert not _validator().is_valid({**found, **wrong})
    # What a later version adds does not disturb.
    assert _validator().is_valid({**found, "more": 1})
