"""How many tokens a second, where batches are sequences of whole numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from made_runs import healthy

from gpudoctor.cli.watched import report
from gpudoctor.record import replace
from gpudoctor.report.text import Style
from gpudoctor.run.document import report_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpudoctor.run.outcome import Watched

torch = pytest.importorskip("torch")


def with_passes(**facts: int) -> Watched:
    """A run whose batches were found to be like this."""
    run = healthy()
    ranks = [
        replace(rank, passes=tuple(replace(each, **facts) for each in rank.passes)) for rank in run.recording.ranks
    ]
    return replace(run, recording=replace(run.recording, ranks=tuple(ranks)))


def test_tokens_are_told_beside_samples() -> None:
    run = with_passes(tokens=8 * 32 * 128, sequences=8 * 32)
    told = report_of(run)
    assert told.samples_per_second is not None
    assert told.tokens_per_second == pytest.approx(128 * told.samples_per_second)
    text = " ".join(report(run, Style(colour=False, width=200)))
    assert f"{told.samples_per_second:,.0f} samples/s, {told.tokens_per_second:,.0f} tokens/s over all ranks" in text


def test_other_batches_have_none() -> None:
    assert report_of(healthy()).tokens_per_second is None


@pytest.mark.parametrize(
    ("made", "tokens"),
    [
        pytest.param(lambda: (torch.zeros(4, 16).long(), torch.zeros(4).long()), (64, 4), id="sequences, a class each"),
        pytest.param(lambda: {"ids": torch.ones(2, 8).int(), "labels": torch.ones(2, 8).int()}, (16, 2), id="a dict"),
        pytest.param(lambda: (torch.zeros(4, 3), torch.zeros(4, 16).long()), (0, 0), id="numbers, and many classes"),
        pytest.param(lambda: torch.zeros(4, 16).bool(), (0, 0), id="a mask"),
        pytest.param(lambda: torch.zeros(4, 3, 8, 8).byte(), (0, 0), id="pictures"),
        pytest.param(lambda: "text", (0, 0), id="no tensors"),
    ],
)
def test_what_counts_as_tokens(made: Callable[[], Any], tokens: tuple[int, int]) -> None:
    from gpudoctor.run.instruments.prints import tokens_of

    assert tokens_of(made()) == tokens
