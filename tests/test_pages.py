"""Each rule file is a page: it has its sections in order, and its examples are true."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from gpudoctor.report.markdown import with_difference
from gpudoctor.rule import Rule
from tests.support.fixture_marks import STUB
from tests.support.linting import lint
from tests.support.rule_pages import FAMILIES, SECTIONS, Page, pages

if TYPE_CHECKING:
    from pathlib import Path

PAGES = pages()
each_page = pytest.mark.parametrize(
    "page", [pytest.param(page, id=f"{page.rule.code}-{page.rule.name}") for page in PAGES]
)

_SOURCE = re.compile(r"https?://\S+|[\w.-]+/[\w.-]+#\d+")


@each_page
def test_sections_in_order(page: Page) -> None:
    assert STUB not in page.text, "write this page first"
    assert tuple(page.sections) == SECTIONS
    assert all(body.strip() for body in page.sections.values()), "an empty section says nothing"


@each_page
def test_first_line_is_one_sentence(page: Page) -> None:
    first, second, *_ = page.text.split("\n")
    assert first.endswith("."), first
    assert not second, "the offence fits on one line"
    assert ". " not in first, "one sentence"


@each_page
def test_names_agree(page: Page) -> None:
    rule, path = page.rule, page.path
    assert re.fullmatch(r"GPU\d{3}", rule.code)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", rule.name)
    assert path.stem == rule.name.replace("-", "_")
    assert rule.__class__.__name__.lower() == rule.name.replace("-", "")
    assert rule.code.startswith(f"GPU{FAMILIES[path.parent.name]}"), f"{rule.code} is no code of {path.parent.name}"


def test_codes_and_names_are_unique() -> None:
    for kind in ("code", "name"):
        twins = [label for label, n in Counter(getattr(page.rule, kind) for page in PAGES).items() if n > 1]
        assert not twins, f"the {kind} {twins} is taken twice"


def is_run_only(page: Page) -> bool:
    """The code cannot show the mistake."""
    return type(page.rule).in_code is Rule.in_code and type(page.rule).in_run is not Rule.in_run


@each_page
def test_bad_example_is_flagged(page: Page, tmp_path: Path) -> None:
    entry = _program(page.code("Bad"), tmp_path)
    found = {seen.code for seen in lint(entry, folder=tmp_path, extend=(page.rule.code,))}
    # What only a run can show is shown by the proofs of its fixtures; lint has to be silent about it.
    assert (page.rule.code in found) is not is_run_only(page), f"found only {sorted(found)}"


@each_page
def test_good_example_is_clean(page: Page, tmp_path: Path) -> None:
    entry = _program(page.code("Good"), tmp_path)
    seen = lint(entry, folder=tmp_path, extend=(page.rule.code,))
    wrong = [each for each in seen if each.severity in ("error", "warning") or each.code == page.rule.code]
    assert not wrong


@each_page
def test_the_difference_has_both_examples(page: Page) -> None:
    text = with_difference(page.text)
    shown = text.partition("## Bad (-) and good (+)\n\n")[2].partition("\n\n## ")[0].split("\n")
    if shown == [""]:
        assert text == page.text
        return
    for section, other in (("Bad", "+"), ("Good", "-")):
        assert [line[6:] for line in shown if line[4:5] != other] == page.code(section).split("\n")


@each_page
def test_sources_can_be_looked_up(page: Page) -> None:
    assert _SOURCE.search(page.sections["Sources"]), "name an address or an issue such as pytorch/pytorch#31771"


def _program(text: str, folder: Path) -> Path:
    entry = folder / "train.py"
    entry.write_text(text, encoding="utf-8")
    return entry
