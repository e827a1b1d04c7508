"""GitHub's workflow commands, GitLab's code quality report, and the fingerprints that findings are known by."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from gpudoctor.diagnostic import Finding, Location, Problem, Related, Severity
from gpudoctor.record import replace
from gpudoctor.report import github, gitlab
from gpudoctor.report.fingerprint import fingerprints
from gpudoctor.report.report import Report
from gpudoctor.report.repository_root import from_root
from gpudoctor.report.text import Style
from gpudoctor.rule import SOME_PATHS
from gpudoctor.visible import visible

FINDING = Finding(
    "GPU301",
    "missing-distributed-sampler",
    Severity.ERROR,
    "It repeats.",
    Location("train.py", 4, 9, 4, 20),
    remedy="Share it out.",
    related=(Related("made here", Location("data.py", 7, 3)),),
)
SOURCE = """\
import torch

class Trainer:
    def run(self):
        loader = DataLoader(data)

    def test(self):
        loader = DataLoader(data)

def main():
    for fold in range(3):

        def nested():
            return 1

        loader = DataLoader(data)
    loader = DataLoader(data)
""".splitlines()


class TestGitHub:
    def one(self, finding: Finding, root: str = "") -> str:
        (line,) = github.render(Report((finding,), lambda at: SOURCE, root=root), Style())
        return line

    def test_nothing_found(self) -> None:
        assert list(github.render(Report((), lambda at: SOURCE), Style())) == []

    def test_a_finding_with_a_place_in_another_file(self) -> None:
        assert self.one(FINDING) == (
            "::error file=train.py,line=4,endLine=4,col=9,endColumn=20,title=GPU301 missing-distributed-sampler::"
            "train.py:4:9: It repeats.%0Adata.py:7: made here%0Ahelp: Share it out.%0A"
            "Read more: gpudoctor explain GPU301"
        )

    @pytest.mark.parametrize(
        ("severity", "command"),
        [("error", "error"), ("warning", "warning"), ("perf", "notice"), ("info", "notice")],
    )
    def test_severities(self, severity: str, command: str) -> None:
        assert self.one(replace(FINDING, severity=Severity(severity))).startswith(f"::{command} ")

    def test_properties_and_text_are_escaped_each_in_its_way(self) -> None:
        odd = replace(FINDING, message="100%: a,\r\nb::error::c", location=Location("a,b:100%/größe.py", 1), related=())
        line = self.one(odd)
        assert "\n" not in line
        assert "\r" not in line
        assert line.startswith("::error file=a%2Cb%3A100%25/größe.py,line=1,endLine=1,col=1,endColumn=1,title=")
        page = "Read more: gpudoctor explain GPU301"
        assert line.endswith("::a,b:100%25/größe.py:1:1: 100%25: a,\\r\\nb::error::c%0Ahelp: Share it out.%0A" + page)
        assert decoded(line) == f"{odd.location}: {visible(odd.message)}\nhelp: {odd.remedy}\n{page}"

    def test_columns_only_within_one_line(self) -> None:
        assert "col" not in self.one(replace(FINDING, location=Location("train.py", 4, 9, 6, 2))).partition(",title")[0]

    def test_doubt_is_told(self) -> None:
        assert "%0AIt happens on some code paths" in self.one(replace(FINDING, doubt=SOME_PATHS))

    def test_what_could_not_be_done(self) -> None:
        report = Report(
            findings=(),
            lines=lambda at: SOURCE,
            problems=(Problem("gone.py", "there is no such file"),),
            bugs=(Problem("", "a bug\nat x.py:1"),),
            unread=(Problem("old.py", "Python 2"),),
        )
        assert list(github.render(report, Style())) == [
            "::error title=gpudoctor::gone.py: there is no such file",
            "::error title=gpudoctor::a bug%0Aat x.py:1",
            "::warning title=gpudoctor::old.py: Python 2",
        ]

    def test_paths_count_from_the_root_of_the_repository(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "sub").mkdir()
        monkeypatch.chdir(tmp_path / "sub")
        assert "file=sub/train.py," in self.one(FINDING, str(tmp_path))


class TestGitLab:
    def issues(self, *findings: Finding) -> list[dict[str, Any]]:
        (text,) = gitlab.render(Report(findings, lambda at: SOURCE), Style())
        found: list[dict[str, Any]] = json.loads(text)
        return found

    def test_nothing_found(self) -> None:
        assert self.issues() == []

    def test_a_finding(self) -> None:
        (issue,) = self.issues(FINDING)
        assert re.fullmatch("[0-9a-f]{32}", issue.pop("fingerprint"))
        assert issue == {
            "description": "GPU301 missing-distributed-sampler: It repeats. Share it out. "
            "Read more: gpudoctor explain GPU301",
            "check_name": "GPU301",
            "severity": "critical",
            "location": {"path": "train.py", "lines": {"begin": 4, "end": 4}},
        }

    def test_severities_are_those_of_gitlab(self) -> None:
        found = self.issues(*(replace(FINDING, severity=severity) for severity in Severity))
        assert [issue["severity"] for issue in found] == ["critical", "major", "minor", "info"]

    def test_several_files_and_signs(self) -> None:
        paths = ["./a.py", "größe und mehr/模型 1%.py", 'quo"te.py']
        found = self.issues(*(replace(FINDING, location=Location(path, 1)) for path in paths))
        assert [issue["location"]["path"] for issue in found] == ["a.py", *paths[1:]]
        assert len({issue["fingerprint"] for issue in found}) == 3


class TestFingerprints:
    def at(self, source: list[str], *numbers: int, **changes: Any) -> list[str]:
        findings = [replace(FINDING, location=Location("train.py", number, 9), **changes) for number in numbers]
        return fingerprints(findings, lambda path: source)

    def test_they_outlive_lines_above(self) -> None:
        moved = ["import os", "", *SOURCE[:3], "    x = 1", *SOURCE[3:]]
        assert self.at(SOURCE, 5, 8, 17) == self.at(moved, 8, 11, 20)

    def test_they_outlive_another_wording(self) -> None:
        assert self.at(SOURCE, 5) == self.at(SOURCE, 5, message="It repeats itself.", severity=Severity.WARNING)

    def test_the_same_line_elsewhere_is_another(self) -> None:
        known = self.at(SOURCE, 5, 8, 16)
        assert len(set(known)) == 3
        # A finding that is gone does not change what the others are known by.
        assert self.at(SOURCE, 8) == known[1:2]

    def test_a_function_beside_the_line_is_not_around_it(self) -> None:
        renamed = [line.replace("nested", "other") for line in SOURCE]
        assert self.at(SOURCE, 16) == self.at(renamed, 16)

    def test_twins_are_told_apart(self) -> None:
        known = self.at(SOURCE, 16, 17)
        assert len(set(known)) == 2
        assert self.at(SOURCE, 16, 16)[0] == known[0]

    def test_other_rules_and_other_files(self) -> None:
        assert self.at(SOURCE, 5) != self.at(SOURCE, 5, code="GPU302")
        elsewhere = replace(FINDING, location=Location("other.py", 5, 9))
        assert self.at(SOURCE, 5) != fingerprints([elsewhere], lambda path: SOURCE)

    def test_a_file_that_cannot_be_read(self) -> None:
        assert len(set(self.at([], 5, 9))) == 2


@pytest.mark.parametrize(
    ("path", "root", "expected"),
    [
        ("a.py", "", "a.py"),
        ("./a.py", "", "a.py"),
        ("a.py", "..", "work/a.py"),
        ("a.py", ".", "a.py"),
        ("..a.py", ".", "..a.py"),
        ("/elsewhere/a.py", "..", "/elsewhere/a.py"),
        ("a.py", "/elsewhere", "a.py"),
    ],
)
def test_from_root(path: str, root: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    assert from_root(path, root) == expected


def decoded(line: str) -> str:
    """The text of a command, as the runner reads it."""
    text = line.partition("::")[2].partition("::")[2]
    return text.replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%")
