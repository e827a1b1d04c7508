"""What errors mean: each record of the texts has a line that it explains, and no other takes it."""

import pytest

from gpudoctor.logs.error_texts import ERROR_TEXTS, PROGRAM_TEXTS, meaning_by_kind, meaning_of
from tests.logs.error_lines import INSIDE, LINES, OF_A_KIND, TEXTS
from tests.tools.site_error_texts import WHOLE


@pytest.mark.parametrize(("text", "word"), LINES, ids=[text[:50] for text, _ in LINES])
def test_a_line_is_explained(text: str, word: str) -> None:
    meaning = meaning_of(text)
    assert word in meaning.means


@pytest.mark.parametrize(("text", "call", "word"), INSIDE)
def test_calls_say_what_a_line_means(text: str, call: str, word: str) -> None:
    assert "/" not in call
    meaning, elsewhere = meaning_of(text, f"train.py:main\n{call}"), meaning_of(text, "train.py:main")
    assert word in meaning.means
    assert meaning is not elsewhere


@pytest.mark.parametrize(("text", "word"), OF_A_KIND)
def test_a_kind_of_error_says_something(text: str, word: str) -> None:
    meaning = meaning_by_kind(text)
    assert meaning_of(text) is None
    assert word in meaning.means


def test_each_record_explains_a_line() -> None:
    """None is hidden behind one that stands before it."""
    lines = (*(text for text, _ in (*TEXTS, *LINES)), *WHOLE)
    explained = {id(meaning_of(line)) for line in lines} | {id(meaning_of(text, call)) for text, call, _ in INSIDE}
    assert [each.pattern for each in ERROR_TEXTS if id(each) not in explained] == []
    kinds = {id(meaning_by_kind(text)) for text, _ in OF_A_KIND}
    assert [each.pattern for each in PROGRAM_TEXTS if id(each) not in kinds] == []
