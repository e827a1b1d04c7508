"""Logs of jobs that `gpudoctor run` has watched, and of ranks that write into each other's lines."""

from pathlib import Path

import pytest

from gpudoctor.logs.error_texts.error_text import FailureRole
from tests.logs.samples import PEER, TRACEBACK, prefixed, read

TOLD_TO_END = "W1 torch/distributed/elastic/agent/server/api.py:753] Received 15 death signal, shutting down workers\n"
BEGIN = "\ngpudoctor run\n  2 ranks (gloo) made 13 steps in 37.0 s; the job was ended by gpudoctor.\n\n"
FINDING = """train.py:8:1: error: GPU501 collective-on-some-ranks
  Rank 0 waits in `all_reduce` for the others forever: rank 1 is elsewhere at
  line 24.

    7 | if dist.get_rank() == 0:
    8 |     dist.all_reduce(value)

  Read more: gpudoctor explain GPU501
"""
NO_RULE = """  Rank 0 waits in all_reduce number 19 at lock.py:12 in `train`. Rank 1 is at
  lock.py:26 in `after`. The ranks did not advance, and no rule knows why.

  No mistake was seen and lint suspects none.
"""


@pytest.mark.parametrize(
    ("report", "line", "code", "begin"),
    [
        (FINDING, 8, "GPU501", "Rank 0 waits in `all_reduce` for"),
        (NO_RULE, 12, "", "Rank 0 waits in all_reduce number 19"),
    ],
)
def test_what_a_watched_run_has_told_counts(report: str, line: int, code: str, begin: str, tmp_path: Path) -> None:
    found = read(tmp_path, TOLD_TO_END + BEGIN + report)
    first = found.first
    assert first.place is not None
    assert (first.by.rank, first.place.line, first.meaning.code, found.sure) == (0, line, code, True)
    assert first.text.startswith(begin)
    assert "\n" not in first.text


def test_a_report_of_lint_tells_of_no_run(tmp_path: Path) -> None:
    first = read(tmp_path, FINDING + TOLD_TO_END).first
    assert first.role is FailureRole.STOPPED


def test_another_finding_of_a_run_does_not_hide_its_error(tmp_path: Path) -> None:
    report = "train.py:9:1: warning: GPU807 slow-loader\n  The loader takes half of the time.\n\n"
    first = read(tmp_path, TRACEBACK + BEGIN + report).first
    assert first.summary == "KeyError: 'label'"


def test_ranks_that_write_into_lines_of_each_other(tmp_path: Path) -> None:
    own, lost = (prefixed(name, text).splitlines() for name, text in (("[rank1]: ", TRACEBACK), ("[rank0]: ", PEER)))
    lines = [f"{one}{other}\n" for one, other in zip(own, lost, strict=False)]
    first = read(tmp_path, "".join(lines) + "\n".join(lost[len(own) :])).first
    assert (first.by.rank, first.place.line, first.summary) == (1, 20, "KeyError: 'label'")
