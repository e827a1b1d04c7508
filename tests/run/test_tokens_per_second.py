"""How many tokens a second, where batches are sequences of tokens: not all whole numbers are."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpudoctor.cli.run_report import report
from gpudoctor.record import replace
from gpudoctor.report.text import Style
from gpudoctor.run.outcome import Watched
from gpudoctor.run.report_schema import report_of
from tests.support.installs import require_torch
from tests.support.made_runs import healthy
from tests.support.watching import watch

require_torch()


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


def ids(rows: int, columns: int) -> Any:
    import torch

    return torch.arange(rows * columns).reshape(rows, columns)


def zeros(*shape: int) -> Any:
    import torch

    return torch.zeros(*shape)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("made", "shape", "tokens"),
    [
        pytest.param(lambda: {"input_ids": ids(2, 8), "labels": ids(2, 8)}, (2, 8), True, id="as models call them"),
        pytest.param(lambda: (ids(4, 17)[:, :-1], ids(4, 17)[:, 1:]), (4, 16), True, id="the next of each"),
        pytest.param(lambda: (ids(4, 16), zeros(4).long()), (4, 16), False, id="categories, a class each"),
        pytest.param(lambda: (ids(4, 26), ids(4, 1)), (4, 26), False, id="categories, a table of answers"),
        pytest.param(lambda: (zeros(4, 3).long(),) * 2, (4, 3), False, id="answers that are all the same"),
        pytest.param(lambda: ids(4, 17), (4, 17), False, id="a table that may be anything"),
    ],
)
def test_what_a_batch_shows_of_its_tables(made: Callable[[], Any], shape: tuple[int, int], tokens: bool) -> None:
    from gpudoctor.run.instruments.fingerprints import table_of

    assert table_of(made()) == (*shape, tokens)


@pytest.mark.slow
@pytest.mark.parametrize(
    "made",
    [
        pytest.param(lambda: (zeros(4, 3), ids(4, 16)), id="numbers, and many classes"),
        pytest.param(lambda: zeros(4, 16).bool(), id="a mask"),
        pytest.param(lambda: zeros(4, 3, 8, 8).byte(), id="pictures"),
        pytest.param(lambda: (zeros(4, 3, 8, 8).byte(), ids(4, 9)), id="pictures, and letters in them"),
        pytest.param(lambda: "text", id="no tensors"),
    ],
)
def test_what_is_no_table(made: Callable[[], Any]) -> None:
    from gpudoctor.run.instruments.fingerprints import table_of

    assert table_of(made()) is None


TABLES = """
import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader
rows = torch.randint(0, 9, (64, 17))
table = torch.nn.Embedding(9, 9)
optimizer = torch.optim.SGD(table.parameters(), lr=0.1)
for batch in DataLoader(rows, batch_size=8):
    {loss}.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("loss", "tokens"),
    [
        ("cross_entropy(table(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())", 17),
        ("(cross_entropy(table(batch[:, :-1]).transpose(1, 2), batch[:, 1:]) / 2)", 17),
        # A recommender that tells one of nine classes from sixteen categories.
        ("cross_entropy(table(batch[:, :-1]).sum(1), batch[:, -1])", None),
        ("table(batch).mean()", None),
    ],
)
def test_tables_are_tokens_where_each_of_their_numbers_is_predicted(
    tmp_path: Path, loss: str, tokens: int | None
) -> None:
    (tmp_path / "train.py").write_text(TABLES.format(loss=loss))
    told = watch(tmp_path, "--no-lint", "train.py").report
    assert told["faults"] == []
    assert [each["faults"] for each in told["ranks"]] == [[]]
    expected = None if tokens is None else pytest.approx(tokens * told["samples_per_second"], rel=1e-3)
    assert told["tokens_per_second"] == expected
