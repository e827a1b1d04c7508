"""JSON, and the line that sums up."""

import json

from gpudoctor.diagnostic import Edit, Finding, Fix, Location, Problem, Related, Safety, Severity
from gpudoctor.record import replace
from gpudoctor.report import json as json_report
from gpudoctor.report.report import Report
from gpudoctor.report.summary import summary
from gpudoctor.report.text import Style

FINDING = Finding("GPU302", "missing-set-epoch", Severity.WARNING, "It repeats.", Location("a.py", 3, 5))


def test_json_has_the_keys_of_the_contract() -> None:
    fix = Fix(Safety.UNSAFE, "Tell the sampler the epoch", (Edit(Location("a.py", 3, 5, 3, 9), "x"),))
    full = replace(FINDING, fix=fix, related=(Related("made here", Location("b.py", 7)),))
    problems = (Problem("gone.py", "there is no such file"),)
    (text,) = json_report.render(Report((full, FINDING), lambda at: (), files=4, problems=problems), Style())
    document = json.loads(text)
    assert document["version"] == 1
    assert document["files"] == 4
    assert document["errors"] == [{"path": "gone.py", "message": "there is no such file"}]
    one, other = document["findings"]
    keys = ["code", "name", "severity", "message", "path", "line", "column", "end_line", "end_column", "fix"]
    assert set(one) >= {*keys, "related", "confidence", "seen_in"}
    assert one["fix"] == {
        "safety": "unsafe",
        "title": "Tell the sampler the epoch",
        "edits": [{"path": "a.py", "cell": None, "line": 3, "column": 5, "end_line": 3, "end_column": 9, "text": "x"}],
    }
    assert one["related"] == [{"message": "made here", "path": "b.py", "cell": None, "line": 7}]
    assert other["fix"] is None
    assert (other["end_line"], other["end_column"]) == (3, 5)


def test_summary() -> None:
    many = [replace(FINDING, severity=severity) for severity in Severity for _ in range(2)]
    assert summary(many, 3) == (
        "Found 2 errors, 2 warnings, 2 perf findings and 2 suggestions in 1 file. Read more: gpudoctor explain GPU302"
    )
    assert summary([FINDING], 1) == "Found 1 warning in 1 file. Read more: gpudoctor explain GPU302"
    elsewhere = replace(FINDING, location=Location("utils.py", 3))
    assert summary([FINDING, elsewhere], 1).startswith("Found 2 warnings in 2 files."), "one was named, two are wrong"
    assert summary([], 2) == "No mistake found in 2 files."
    assert summary([], 2, only_new=True) == "No new mistake found in 2 files."
