"""What the texts of errors mean, and which rules they lead to."""

from collections import Counter

import pytest

from gpudoctor.logs.declared_texts import rules_that_declare
from gpudoctor.logs.error_texts import ERROR_TEXTS, meaning_of
from gpudoctor.logs.error_texts.words_of_patterns import words_of
from gpudoctor.registry import find_rules, load
from gpudoctor.rule import RuleCard
from tests.logs.error_lines import TEXTS


def test_each_rule_that_is_named_exists() -> None:
    codes = {code for each in ERROR_TEXTS for code in (each.code, *each.likely) if code}
    assert codes <= set(find_rules().by_code)


@pytest.mark.parametrize(("text", "word"), TEXTS, ids=[text[:40] for text, _ in TEXTS])
def test_what_an_error_means(text: str, word: str) -> None:
    meaning = meaning_of(text)
    assert word in meaning.means


@pytest.mark.parametrize("text", ["KeyError: 'label'", "ValueError: lr must be positive"])
def test_what_is_printed_behind_an_error_does_not_explain_it(text: str) -> None:
    behind = "Rank 3: CUDA out of memory. Tried to allocate 20.00 MiB."
    assert meaning_of(behind) is not None
    assert meaning_of(f"{text}\n{behind}") is None
    assert meaning_of(f"{text}:\n{behind}") is meaning_of(behind)
    assert meaning_of(f"{text}\n    {behind}") is meaning_of(behind)


def test_an_error_whose_lines_something_has_broken_is_known_all_the_same() -> None:
    text = "AssertionError: Check batch related parameters. train_batch_size is not\nequal to micro_batch_per_gpu * 4"
    meaning = meaning_of(text)
    assert meaning is not None
    assert meaning is meaning_of(text.replace("\n", " "))


@pytest.mark.parametrize(
    "text",
    ["KeyError: 'label'", "ValueError: lr must be positive", "AssertionError", "TypeError: forward()"],
)
def test_an_error_of_the_program_itself_is_not_explained(text: str) -> None:
    assert meaning_of(text) is None


@pytest.mark.parametrize("card", find_rules().cards, ids=lambda card: card.code)
def test_each_error_that_a_rule_declares_leads_to_it(card: RuleCard) -> None:
    """By its record, or as a possibility; but for what the wait of any rank ends with."""
    for text in load(card).errors:
        meaning = meaning_of(text)
        if meaning is None:
            found = {each.code for each in rules_that_declare(text)}
            assert not found or card.code in found, text
        elif meaning.code:
            assert card.code == meaning.code or text in _OF_SEVERAL, text


_OF_SEVERAL = frozenset(
    text
    for text, number in Counter(text for card in find_rules().cards for text in load(card).errors).items()
    if number > 1
)


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("ValueError: sampler option is mutually exclusive with shuffle", ("GPU303",)),
        ("RuntimeError: Optimizer state has not been consolidated on this rank. Please call", ("GPU606",)),
        (
            "UnboundLocalError: cannot access local variable 'logger' where it is not associated with a value",
            ("GPU470",),
        ),
        ("KeyError: 'label'", ()),
        ("ValueError: shapes (3,) and (4,) not aligned", ()),
    ],
)
def test_what_an_error_without_a_record_may_be(text: str, codes: tuple[str, ...]) -> None:
    assert tuple(card.code for card in rules_that_declare(text)) == codes


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        (r"Watchdog caught \w+", {"Watchdog caught "}),
        (r"rank\d+: (?:is gone|no answer)|killed", {"is gone", "no answer", "killed"}),
        (r"(?:lost )?peer", {"peer"}),
        (r"(?:lost )+peer\b", {"lost "}),
        (r"[Kk]illed by", {"illed by"}),
        (r"(?i:killed)", set()),
        (r"(?i)killed", set()),
        (r"killed|\d+", set()),
        (r"", set()),
    ],
)
def test_a_word_without_which_a_pattern_fits_nothing(pattern: str, words: set[str]) -> None:
    assert {word for word in words_of(pattern) if word} == words
