"""What a run shows of gradients that were not averaged, from recordings that are written down."""

import pytest

from gpudoctor.cli.run_report import compared, report
from gpudoctor.record import replace
from gpudoctor.registry import find_rules, load
from gpudoctor.report.text import Style
from gpudoctor.run.recording import ParameterCheck, RecordedWrap, Recording
from tests.support.made_runs import PLACE, healthy


@pytest.mark.parametrize(
    ("unsynced", "words"),
    [({1, 2, 3, 4}, "in 4 steps"), ({3}, "of step 3"), ({3, 4}, "of step 3"), (set(), ""), ({9}, "")],
)
def test_steps_whose_gradients_nobody_averaged(unsynced: set[int], words: str) -> None:
    """The parameters differ after the fourth step: also where only the rest of an epoch stays under `no_sync()`."""
    like = healthy().recording.ranks[0]
    count = 9 if 9 in unsynced else 4
    steps = tuple(
        replace(each, counts={"forwards": 1, "local at the end" if each.number in unsynced else "synced backwards": 1})
        for each in like.steps[:count]
    )
    optimizers = (replace(like.optimizers[0], held={1: (4, 4)}, backward=PLACE),)
    sums = {1: (1, 1), 2: (2, 2), 4: (3, 4)}
    ranks = (
        replace(
            replace(like, rank=rank, world=2, steps=steps, optimizers=optimizers),
            checks=tuple(ParameterCheck(step, 0, (both[rank],), None, 0) for step, both in sums.items()),
        )
        for rank in range(2)
    )
    card = next(card for card in find_rules().cards if card.code == "GPU702")
    told = [each.message for each in load(card).in_run(Recording(tuple(ranks), seconds=1.0))]
    assert [words in each for each in told] == [True] * bool(words)


def _with_backwards(*made: int) -> Recording:
    run = healthy().recording
    ranks = (
        replace(rank, passes=tuple(replace(each, backwards=backwards) for each in rank.passes))
        for rank, backwards in zip(run.ranks, made, strict=True)
    )
    return replace(run, ranks=tuple(ranks))


@pytest.mark.parametrize(
    ("made", "suspected", "told"),
    [((191, 191), True, True), ((200, 195), True, True), ((191, 191), False, False), ((200, 200), True, False),
     ((100, 100), True, False)],
)  # fmt: skip
def test_ranks_that_left_out_batches_and_came_to_their_end(made: tuple[int, int], suspected: bool, told: bool) -> None:
    """Of batches that are put together, half or more have no backward of their own."""
    run = replace(_with_backwards(*made), suspected=frozenset({"GPU503"} if suspected else ()))
    card = next(card for card in find_rules().cards if card.code == "GPU503")
    assert ["gradients of different iterations" in each.message for each in load(card).in_run(run)] == [True] * told


@pytest.mark.parametrize("wraps", [(), (RecordedWrap("DistributedDataParallel", 1, 2, "Net", False, 4, (), PLACE),)])
def test_ranks_that_drift_apart_for_no_reason_that_is_known(wraps: tuple[RecordedWrap, ...]) -> None:
    run = healthy().recording
    ranks = (
        replace(
            rank, wraps=wraps, checks=tuple(ParameterCheck(step, 0, (step + rank.pid,), ("w",), 0) for step in (1, 2))
        )
        for rank in run.ranks
    )
    run = replace(run, ranks=tuple(ranks), status=0)
    told = "After step 1 the ranks held different values in parameter w" if wraps else ""
    watched = compared(run, (), None, find_rules())
    assert watched.unexplained.partition(" (")[0] == told
    text = " ".join("\n".join(report(watched, Style(80))).split())
    assert ("No mistake was seen" in text, bool(wraps) and told in text) == (not wraps, bool(wraps))
