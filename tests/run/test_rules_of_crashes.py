"""Which of the mistakes that end with one error a crash shows, on recordings of runs that were never made."""

import pytest

from gpudoctor.diagnostic import Location
from gpudoctor.registry import find_rules
from gpudoctor.run.internal_errors import Faults
from gpudoctor.run.observe import judged
from gpudoctor.run.recording import Crash, Process, RecordedWrap, Recording, StackFrame

HERE = Location("train.py", 7)
WRAP = RecordedWrap("DistributedDataParallel", 70, 71, "Net", False, 4, 4, 64, ("cpu",), 0, 0, 0, False, HERE)


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
