"""What holds for every format, by the table of formats: a new one is tested here from its first line on."""

import inspect
from importlib import import_module
from pathlib import Path

import pytest

from gpudoctor import page_address
from gpudoctor.diagnostic import Finding, Location, Severity
from gpudoctor.registry import find_rules
from gpudoctor.report.formats import FORMATS, rendered
from gpudoctor.report.report import Report
from gpudoctor.report.text import Style

FOR_PEOPLE = {"full", "concise"}
"""The last line of a lint names the command there."""
STEERING = "It \x1b[31mrepeats\x1b[0m.\n::error::obeyed"
FINDING = Finding("GPU302", "missing-set-epoch", Severity.WARNING, STEERING, Location("train.py", 2, 5))


def report(*findings: Finding) -> Report:
    return Report(findings, lambda at: ["import torch", "    x = 1"], files=1, rules=find_rules().cards, folder="/work")


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_is_a_file_with_a_page_and_one_render(name: str) -> None:
    module = import_module(FORMATS[name])
    assert module.__doc__
    assert list(inspect.signature(module.render).parameters) == ["report", "style"]


@pytest.mark.parametrize("document", ["README.md", "docs/lint.md"])
def test_the_pages_name_each_format(document: str, repository: Path) -> None:
    text = repository.joinpath(document).read_text(encoding="utf-8")
    assert [name for name in FORMATS if f"{name}`" not in text] == []


@pytest.mark.parametrize("name", FORMATS)
def test_it_tells_each_finding_and_steers_nothing(name: str) -> None:
    text = rendered(report(FINDING), name, Style())
    assert "GPU302" in text
    assert "train.py" in text
    assert text.endswith("\n")
    assert "\x1b" not in text
    assert not [line for line in text.splitlines() if line.lstrip().startswith("::error::obeyed")]


@pytest.mark.parametrize("name", FORMATS)
def test_nothing_found_is_no_error(name: str) -> None:
    assert "GPU302" not in rendered(report(), name, Style())


@pytest.mark.parametrize("name", FORMATS)
def test_it_links_to_the_page_of_the_rule(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_address, "SITE", "https://docs.example")
    # A terminal that shows colours shows links.
    text = rendered(report(FINDING), name, Style(colour=name in FOR_PEOPLE))
    assert "https://docs.example/rules/missing-set-epoch/" in text


@pytest.mark.parametrize("name", sorted(set(FORMATS) - FOR_PEOPLE))
def test_without_a_site_it_names_the_command_that_shows_the_page(name: str) -> None:
    assert "gpudoctor explain GPU302" in rendered(report(FINDING), name, Style())
