"""SARIF: what is in the log, and that it is a log by the standard."""

import json
import re
from typing import Any

import jsonschema
import pytest

from gpudoctor import __version__, page_address
from gpudoctor.diagnostic import Edit, Finding, Fix, Location, Problem, Related, Safety, Severity
from gpudoctor.record import replace
from gpudoctor.report.report import Report
from gpudoctor.report.sarif import FINGERPRINT, render
from gpudoctor.report.text import Style
from gpudoctor.rule import SOME_PATHS, RuleCard
from tests.support.sarif_schema import LOG

RULES = tuple(
    RuleCard(code, name, severity, "data", f"{__name__}.{code}", "It is wrong.")
    for code, name, severity in (
        ("GPU301", "missing-distributed-sampler", Severity.ERROR),
        ("GPU302", "missing-set-epoch", Severity.WARNING),
        ("GPU805", "evaluation-builds-graph", Severity.PERF),
        ("GPU107", "data-parallel-instead-of-ddp", Severity.INFO),
    )
)
PAGE = "It is **wrong**.\n"
SOURCE = {
    "train.py": ["def main():", "    loader = DataLoader(data)", "    for x in loader:", "        step(x)"],
    "größe und mehr/模型 1%.py": ["größe = 1"],
}
FINDING = Finding(
    "GPU301", "missing-distributed-sampler", Severity.ERROR, "It repeats.", Location("train.py", 2, 5, 2, 30)
)


def lines(at: Location) -> list[str]:
    return SOURCE.get(at.path, [])


@pytest.fixture(autouse=True)
def _pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpudoctor.report.sarif.page_of", lambda card: PAGE)


def document_of(*findings: Finding, **facts: Any) -> dict[str, Any]:
    report = Report(findings, lines, **{"rules": RULES, "folder": "/work/my project", "exit_code": 1, **facts})
    (text,) = render(report, Style())
    document: dict[str, Any] = json.loads(text)
    return document


def log(*findings: Finding, **facts: Any) -> dict[str, Any]:
    document = document_of(*findings, **facts)
    jsonschema.Draft7Validator(LOG).validate(document)
    run: dict[str, Any] = document["runs"][0]
    return run


def test_nothing_found() -> None:
    run = log(exit_code=0)
    assert run["results"] == []
    assert run["tool"]["driver"] == {"name": "gpudoctor", "version": __version__, "rules": []}
    assert run["invocations"] == [{"executionSuccessful": True, "exitCode": 0, "toolExecutionNotifications": []}]
    assert run["originalUriBaseIds"] == {"%SRCROOT%": {"uri": "file:///work/my%20project/"}}


def test_a_finding() -> None:
    (result,) = log(FINDING)["results"]
    assert (result["ruleId"], result["level"], result["message"]) == ("GPU301", "error", {"text": "It repeats."})
    assert result["locations"] == [
        {
            "physicalLocation": {
                "artifactLocation": {"uri": "train.py", "uriBaseId": "%SRCROOT%"},
                "region": {"startLine": 2, "startColumn": 5, "endLine": 2, "endColumn": 30},
            }
        }
    ]
    assert "relatedLocations" not in result
    assert "fixes" not in result


def test_rules_have_their_page() -> None:
    (rule,) = log(FINDING)["tool"]["driver"]["rules"]
    assert rule["help"] == {
        "text": "GPU301 missing-distributed-sampler\n\nIt is **wrong**.\n\nRead more: `gpudoctor explain GPU301`\n",
        "markdown": f"{PAGE}\nRead more: `gpudoctor explain GPU301`\n",
    }
    assert "helpUri" not in rule, "the site has no address yet"
    assert rule["properties"] == {"tags": ["data"], "problem.severity": "error"}


def test_rules_link_to_the_site_once_it_has_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_address, "SITE", "https://docs.example/gpudoctor/")
    (rule,) = log(FINDING)["tool"]["driver"]["rules"]
    assert rule["helpUri"] == "https://docs.example/gpudoctor/rules/missing-distributed-sampler/"
    assert "explain" not in rule["help"]["text"]


@pytest.mark.parametrize(
    ("code", "level"), [("GPU301", "error"), ("GPU302", "warning"), ("GPU805", "note"), ("GPU107", "note")]
)
def test_levels(code: str, level: str) -> None:
    (rule,) = (each for each in RULES if each.code == code)
    run = log(replace(FINDING, code=code, name=rule.name, severity=rule.severity))
    assert run["results"][0]["level"] == level
    assert run["tool"]["driver"]["rules"][0]["defaultConfiguration"]["level"] == level


def test_rules_are_there_once_and_found_by_their_index() -> None:
    run = log(replace(FINDING, code="GPU302"), FINDING, replace(FINDING, location=Location("other.py", 1)))
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["GPU301", "GPU302"]
    assert [result["ruleIndex"] for result in run["results"]] == [0, 0, 1]


def test_related_places_in_another_file_are_linked_from_the_text() -> None:
    related = (
        Related("the sampler `s[0]` is made", Location("data.py", 7, 3)),
        Related("and used", Location("train.py", 3)),
    )
    (result,) = log(replace(FINDING, related=related, remedy="Pass it on."))["results"]
    assert result["message"]["text"] == (
        "It repeats.\nPass it on.\nWhat led there: [the sampler `s\\[0\\]` is made](1); [and used](2)."
    )
    first, second = result["relatedLocations"]
    assert (first["id"], first["physicalLocation"]["artifactLocation"]["uri"]) == (1, "data.py")
    assert first["message"] == {"text": "the sampler `s[0]` is made"}
    assert second["physicalLocation"]["region"] == {"startLine": 3, "startColumn": 1}


def test_worlds_and_doubt_are_told() -> None:
    (result,) = log(replace(FINDING, world="torchrun", doubt=SOME_PATHS))["results"]
    assert "torchrun starts one process per GPU" in result["message"]["text"]
    assert "on some code paths" in result["message"]["text"]
    assert result["properties"] == {"confidence": "likely", "seenIn": "code", "world": "torchrun"}


def test_what_looks_like_a_placeholder_is_none() -> None:
    (result,) = log(replace(FINDING, message='Write `f"cuda:{rank}"`, not `"{0}".format(rank)`.'))["results"]
    assert result["message"]["text"] == 'Write `f"cuda:{rank}"`, not `"{{0}}".format(rank)`.'


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("größe und mehr/模型 1%.py", "gr%C3%B6%C3%9Fe%20und%20mehr/%E6%A8%A1%E5%9E%8B%201%25.py"),
        ("a:b.py", "a%3Ab.py"),
        ("<stdin>", "%3Cstdin%3E"),
    ],
)
def test_paths_are_quoted(path: str, expected: str) -> None:
    (result,) = log(replace(FINDING, location=Location(path, 1)))["results"]
    artifact = result["locations"][0]["physicalLocation"]["artifactLocation"]
    assert artifact == {"uri": expected, "uriBaseId": "%SRCROOT%"}


def test_files_elsewhere_have_no_base() -> None:
    (result,) = log(replace(FINDING, location=Location("/opt/lib x/a.py", 1)))["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"] == {"uri": "file:///opt/lib%20x/a.py"}


def test_what_could_not_be_done() -> None:
    run = log(
        exit_code=3,
        problems=(Problem("gone.py", "there is no such file"),),
        bugs=(Problem("", "rule GPU301: by zero"),),
        unread=(Problem("old.py", "this is Python 2"),),
    )
    (invocation,) = run["invocations"]
    assert (invocation["executionSuccessful"], invocation["exitCode"]) == (False, 3)
    told = [(each["level"], each["message"]["text"]) for each in invocation["toolExecutionNotifications"]]
    assert told == [
        ("error", "gone.py: there is no such file"),
        ("error", "rule GPU301: by zero"),
        ("warning", "old.py: this is Python 2"),
    ]
    places = [each.get("locations") for each in invocation["toolExecutionNotifications"]]
    assert places[0][0]["physicalLocation"]["artifactLocation"]["uri"] == "gone.py"
    assert places[1] is None


def test_fixes() -> None:
    edits = (Edit(Location("train.py", 2, 5, 2, 11), "x"), Edit(Location("data.py", 1, 1, 1, 1), "import y\n"))
    (result,) = log(replace(FINDING, fix=Fix(Safety.SAFE, "Rename it", edits)))["results"]
    (fix,) = result["fixes"]
    assert fix["description"] == {"text": "Rename it"}
    assert [change["artifactLocation"]["uri"] for change in fix["artifactChanges"]] == ["train.py", "data.py"]
    assert fix["artifactChanges"][0]["replacements"] == [
        {
            "deletedRegion": {"startLine": 2, "startColumn": 5, "endLine": 2, "endColumn": 11},
            "insertedContent": {"text": "x"},
        }
    ]


def test_fingerprints_are_there() -> None:
    results = log(FINDING, FINDING)["results"]
    known = [result["partialFingerprints"] for result in results]
    assert all(list(each) == [FINGERPRINT] and re.fullmatch("[0-9a-f]{32}", each[FINGERPRINT]) for each in known)
    assert known[0] != known[1]


def test_the_schema_knows_what_it_knows_and_no_more() -> None:
    document = document_of(FINDING)
    document["runs"][0]["results"][0]["relatedLocation"] = []
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft7Validator(LOG).validate(document)
