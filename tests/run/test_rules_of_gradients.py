"""What a run shows of gradients that were not averaged, from recordings that are written down."""

import pytest

from gpudoctor.record import replace
from gpudoctor.registry import find_rules, load
from gpudoctor.run.recording import ParameterCheck, Recording
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
