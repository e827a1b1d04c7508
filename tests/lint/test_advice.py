"""A rule that is on may know of advice, too: that is for those who have asked for the rule."""

from pathlib import Path

import pytest

from tests.support.linting import lint

FOLDER = Path(__file__).parent.parent.parent / "fixtures" / "rules" / "data" / "same_augmentation_on_all_ranks"


def severities(program: str, **options: tuple[str, ...]) -> list[str]:
    found = lint(FOLDER / program, folder=FOLDER, **options)
    return [seen.severity for seen in found if seen.code == "GPU315"]


def test_advice_is_left_out_by_default() -> None:
    assert severities("bad_page.py") == []


@pytest.mark.parametrize("selector", ["GPU315", "GPU3", "same-augmentation-on-all-ranks", "ALL"])
def test_advice_is_told_where_the_rule_is_selected(selector: str) -> None:
    assert severities("bad_page.py", select=(selector,)) == ["info"]
    assert severities("bad_page.py", extend=(selector,)) == ["info"]


def test_what_is_more_than_advice_is_told_by_default() -> None:
    assert severities("bad_noise.py") == ["perf"]
