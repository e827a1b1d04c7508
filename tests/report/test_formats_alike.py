"""What holds for every format, by the table of formats: a new one is tested here from its first line on."""

from __future__ import annotations

import inspect
from importlib import import_module

import pytest

from gpudoctor.diagnostic import Finding, Location, Severity
from gpudoctor.registry import find_rules
from gpudoctor.report.formats import FORMATS, rendered
from gpudoctor.report.report import Report
from gpudoctor.report.text import Style

STEERING = "It \x1b[31mrepeats\x1b[0m.\n::error::obeyed"
FINDING = Finding("GPU302", "sampler-epoch-not-set", Severity.WARNING, STEERING, Location("train.py", 2, 5))


def report(*findings: Finding) -> Report:
    return Report(findings, lambda at: ["import torch", "    x = 1"], files=1, rules=find_rules().cards, folder="/work")


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_is_a_file_with_a_page_and_one_render(name: str) -> None:
    module = import_module(FORMATS[name])
    assert module.__doc__
    assert list(inspect.signature(module.render).parameters) == ["report", "style"]


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
