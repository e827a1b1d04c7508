"""Each rule file is a page: it has its sections in order, and two of its fixtures as examples.

That these are true is tested with all other fixtures, in test_rules.py.
"""

import re
import sys
from collections import Counter
from itertools import zip_longest
from pathlib import Path

import pytest

from gpudoctor.report.markdown import with_difference
from tests.support.fixture_marks import STUB
from tests.support.rule_pages import FAMILIES, SECTIONS, Page, pages

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures" / "rules"

PAGES = pages()
each_page = pytest.mark.parametrize(
    "page", [pytest.param(page, id=f"{page.rule.code}-{page.rule.name}") for page in PAGES]
)

_SOURCE = re.compile(r"https?://\S+|[\w.-]+/[\w.-]+#\d+")


@each_page
def test_it_has_its_parts(page: Page) -> None:
    """A sentence, and all sections in order, of which the last one names sources that can be looked up."""
    assert STUB not in page.text, "write this page first"
    first, second, *_ = page.text.split("\n")
    assert first.endswith("."), first
    assert not second, "the offence fits on one line"
    assert ". " not in first, "one sentence"
    assert tuple(page.sections) == SECTIONS
    assert all(body.strip() for body in page.sections.values()), "an empty section says nothing"
    assert _SOURCE.search(page.sections["Sources"]), "name an address or an issue such as pytorch/pytorch#31771"


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


@each_page
def test_the_examples_stand_in_the_fixtures_alone(page: Page) -> None:
    written = sys.modules[type(page.rule).__module__].__doc__ or ""
    assert "\n## Bad" not in written
    for kind in ("bad", "good"):
        [file] = (FIXTURES / page.path.parent.name / page.path.stem).glob(f"{kind}_page.*")
        program = file.read_text(encoding="utf-8")
        for shown, line in zip_longest(page.code(kind.capitalize()).split("\n"), program.splitlines(), fillvalue=""):
            # What the tests read is no matter of the reader's.
            assert line.startswith(shown)
            assert re.match(r"\s*# (ok: )?GPU\d{3}\b|$", line[len(shown) :])


@each_page
def test_the_difference_has_both_examples(page: Page) -> None:
    text = with_difference(page.text)
    shown = text.partition("## Bad (-) and good (+)\n\n")[2].partition("\n\n## ")[0].split("\n")
    if shown == [""]:
        assert text == page.text
        return
    for section, other in (("Bad", "+"), ("Good", "-")):
        assert [line[6:] for line in shown if line[4:5] != other] == page.code(section).split("\n")
