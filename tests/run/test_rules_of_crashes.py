"""Which of the mistakes that end with one error a crash shows, on recordings of runs that were never made."""

import pytest

from gpudoctor.diagnostic import Finding, Location, Severity
from gpudoctor.registry import find_rules, load
from gpudoctor.run.internal_errors import Faults
from gpudoctor.run.observe import judged
from gpudoctor.run.recording import Process, RecordedWrap, Recording, Step
from gpudoctor.run.recording.call_counts import RecordedCollective
from gpudoctor.run.recording.process_ends import Crash, StackFrame

HERE = Location("train.py", 7)
WRAP = RecordedWrap("DistributedDataParallel", 70, 71, "Net", False, 4, ("cpu",), HERE)


@pytest.mark.parametrize(("trainable", "code"), [(((70, 2),), "GPU114"), (((70, 4),), "GPU112"), ((), "GPU112")])
def test_why_gradients_are_missing(trainable: tuple[tuple[int, int], ...], code: str) -> None:
    text = "Expected to have finished reduction in the prior iteration before starting a new one."
    crash = Crash("RuntimeError", text, 1, (StackFrame(HERE, "main", own=True),), trainable=trainable)
    ranks = tuple(
        Process(rank, 1, rank, 2, rank, "node", "train.py", "2.13", wraps=(WRAP,), crash=crash) for rank in range(2)
    )
    cards = [card for card in find_rules().cards if card.code in ("GPU112", "GPU114")]
    faults = Faults()
    assert [each.code for each in judged(Recording(ranks, status=1), cards, faults)] == [code]
    assert not faults.told


@pytest.mark.parametrize(
    ("second", "elements", "found"),
    [
        (("mean_hits", "mean_loss"), 1, ["GPU512"]),
        (("mean_loss", "mean_hits"), 1, []),
        (("mean_hits", "mean_hits"), 1, []),
        (("mean_hits", "mean_loss"), 2, []),
    ],
)
def test_two_calls_of_one_size_in_another_order(second: tuple[str, str], elements: int, found: list[str]) -> None:
    """It ends well, so that only the lines tell; where the sizes differ, the job has ended for that."""
    lines = {"mean_loss": 3, "mean_hits": 6}

    def called(order: tuple[str, str], size: int) -> tuple[RecordedCollective, ...]:
        places = ((name, Location("train.py", lines[name])) for name in order)
        return tuple(
            RecordedCollective("all_reduce", number, "0", 0.0, size, False, place, function=name)
            for number, (name, place) in enumerate(places)
        )

    of = called(("mean_loss", "mean_hits"), 1), called(second, elements)
    ranks = tuple(Process(n, 1, n, 2, n, "node", "train.py", "2.13", collectives=each) for n, each in enumerate(of))
    cards = [card for card in find_rules().cards if card.code == "GPU512"]
    faults = Faults()
    assert [each.code for each in judged(Recording(ranks), cards, faults)] == found
    assert not faults.told


@pytest.mark.parametrize(("second", "clears"), [(3, False), (6, True)])
def test_what_one_call_is_given_in_another_order_no_run_clears(second: int, clears: bool) -> None:
    step = Step(number=1, optimizer=0, at=0.0, took=1.0, spans={}, counts={}, memory=None, cost=0.0)

    def of_rank(rank: int, line: int) -> Process:
        place = Location("train.py", line)
        called = RecordedCollective("all_reduce", 1, "0", 0.0, 1, False, place, function="main")
        return Process(rank, 1, rank, 2, rank, "node", "train.py", "2.13", steps=(step,), collectives=(called,))

    rule = load(next(card for card in find_rules().cards if card.code == "GPU512"))
    found = Finding("GPU512", "a-rule", Severity.ERROR, "It is so.", Location("train.py", 3))
    assert rule.could_show(Recording((of_rank(0, 3), of_rank(1, second))).beside([found])) is clears
