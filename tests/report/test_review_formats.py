"""What reviewdog reads, and what CI services show as tests."""

import json
import xml.etree.ElementTree as ElementTree
from typing import Any

import pytest

from gpudoctor import page_address
from gpudoctor.coverage import Cause, Coverage, Followed, Silence
from gpudoctor.diagnostic import Cell, Edit, Finding, Fix, Location, Problem, Related, Safety, Severity
from gpudoctor.record import replace
from gpudoctor.report import junit, rdjson
from gpudoctor.report.report import Report
from gpudoctor.report.text import Style

SOURCE = ["größe = 𐐀(1)", "loader = DataLoader(data, shuffle=True)"]
FINDING = Finding(
    "GPU303",
    "shuffle-with-sampler",
    Severity.ERROR,
    "`loader` shuffles.",
    Location("train.py", 2, 10, 2, 40),
    remedy="Leave `shuffle` out.",
    related=(Related("made here", Location("data.py", 7, 3)),),
)
EDIT = Edit(Location("train.py", 1, 10, 1, 11), "x")


class TestReviewdog:
    def document(self, *findings: Finding, **facts: Any) -> dict[str, Any]:
        (text,) = rdjson.render(Report(findings, lambda at: SOURCE, **facts), Style())
        found: dict[str, Any] = json.loads(text)
        return found

    def one(self, finding: Finding) -> dict[str, Any]:
        (diagnostic,) = self.document(finding)["diagnostics"]
        found: dict[str, Any] = diagnostic
        return found

    def fixed(self, *edits: Edit) -> dict[str, Any]:
        return self.one(replace(FINDING, fix=Fix(Safety.SAFE, "Do it", edits)))

    def test_a_finding(self) -> None:
        assert self.one(FINDING) == {
            "message": "shuffle-with-sampler: `loader` shuffles.\ndata.py:7: made here\nhelp: Leave `shuffle` out.\n"
            "Read more: gpudoctor explain GPU303",
            "location": {
                "path": "train.py",
                "range": {"start": {"line": 2, "column": 10}, "end": {"line": 2, "column": 40}},
            },
            "severity": "ERROR",
            "code": {"value": "GPU303"},
        }

    def test_the_code_links_to_its_page(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(page_address, "SITE", "https://example.org/docs")
        address = "https://example.org/docs/rules/shuffle-with-sampler/"
        found = self.one(FINDING)
        assert found["code"] == {"value": "GPU303", "url": address}
        assert "Read more" not in found["message"]

    def test_nothing_found(self) -> None:
        assert self.document() == {"source": {"name": "gpudoctor"}, "diagnostics": []}

    def test_severities(self) -> None:
        found = [self.one(replace(FINDING, severity=severity))["severity"] for severity in Severity]
        assert found == ["ERROR", "WARNING", "INFO", "INFO"]

    def test_columns_count_bytes(self) -> None:
        (suggestion,) = self.fixed(EDIT)["suggestions"]
        # Two letters of two bytes stand before it, and it has four bytes itself.
        assert SOURCE[0][EDIT.location.column - 2] == "𐐀"
        assert suggestion == {
            "range": {"start": {"line": 1, "column": 15}, "end": {"line": 1, "column": 16}},
            "text": "x",
        }

    def test_half_a_fix_is_not_suggested(self) -> None:
        other = replace(EDIT, location=Location("data.py", 1, 1, 1, 2))
        for edits in [(EDIT, replace(EDIT, text="y")), (other,), ()]:
            assert "suggestions" not in self.fixed(*edits)
        in_cell = replace(EDIT, location=replace(EDIT.location, cell=Cell(3, 5, 6)))
        assert "suggestions" not in self.fixed(in_cell)

    def test_a_line_that_is_not_there_any_more(self) -> None:
        at = self.one(replace(FINDING, location=Location("train.py", 9, 4)))["location"]
        assert at["range"] == {"start": {"line": 9, "column": 4}, "end": {"line": 9, "column": 4}}


class TestJUnit:
    def suites(self, *findings: Finding, **facts: Any) -> ElementTree.Element:
        """The document, in which the counts are those of the tests."""
        text = "\n".join(junit.render(Report(findings, lambda at: SOURCE, **facts), Style()))
        root = ElementTree.fromstring(text)
        for suite in [root, *root]:
            cases = list(suite.iter("testcase"))
            assert suite.attrib["tests"] == str(len(cases))
            for kind, count in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
                if suite is not root or kind != "skipped":
                    assert suite.attrib[count] == str(len(list(suite.iter(kind))))
        return root

    def test_nothing_found_is_a_test_that_passed(self) -> None:
        (suite,) = self.suites(files=3)
        (case,) = suite
        assert (case.attrib, list(case)) == ({"classname": "gpudoctor", "name": "lint of 3 files"}, [])

    def test_a_finding(self) -> None:
        (suite,) = self.suites(FINDING)
        (case,) = suite
        (failure,) = case
        assert suite.attrib["name"] == "train.py"
        # All that Jenkins' schema (junit-10.xsd) knows are `classname`, `name`, `time` and `group`.
        assert case.attrib == {"classname": "train.py", "name": "GPU303 shuffle-with-sampler"}
        assert failure.attrib == {"type": "error", "message": "`loader` shuffles."}
        assert failure.text == (
            "train.py:2:10: `loader` shuffles.\ndata.py:7: made here\nhelp: Leave `shuffle` out.\n"
            "Read more: gpudoctor explain GPU303"
        )

    def test_signs_of_xml_and_what_it_has_no_form_for(self) -> None:
        odd = 'a < b & "c" \x00\x1b[31m\ud800 ]]>'
        (suite,) = self.suites(replace(FINDING, message=odd, location=Location('<"&>.py', 1)))
        assert suite.attrib["name"] == '<"&>.py'
        (failure,) = suite.iter("failure")
        assert failure.attrib["message"] == 'a < b & "c" \\x00\\x1b[31m\\ud800 ]]>'

    def test_files_are_suites(self) -> None:
        elsewhere = replace(FINDING, location=Location("a.py", 3))
        found = self.suites(FINDING, elsewhere, replace(FINDING, code="GPU304"))
        assert [(suite.attrib["name"], len(suite)) for suite in found] == [("a.py", 1), ("train.py", 2)]

    def test_what_could_not_be_done_is_an_error_and_no_success(self) -> None:
        (suite,) = self.suites(
            problems=(Problem("gone.py", "there is no such file"),), bugs=(Problem("", "a bug\nat x"),)
        )
        gone, bug = suite
        assert (gone.attrib["name"], gone[0].attrib["message"]) == ("gone.py", "gone.py: there is no such file")
        assert (bug[0].tag, bug[0].text) == ("error", "a bug\nat x")

    def test_what_was_not_followed_is_skipped(self) -> None:
        why = Silence(Cause.LIMIT, ("GPU301",), "after 9 statements", missed=True)
        program = Coverage("tool.py", "torchrun", Followed.NOT, silent_for=(why,))
        (suite,) = self.suites(programs=(program,), files=1)
        skipped, passed = suite
        assert skipped.attrib["classname"] == "tool.py"
        assert "after 9 statements, before the training" in skipped[0].attrib["message"]
        assert len(passed) == 0
