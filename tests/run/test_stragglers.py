"""A rank that lags behind, from recordings that are written down."""

from pathlib import Path

import pytest

from gpudoctor.diagnostic import Location
from gpudoctor.registry import find_rules, load
from gpudoctor.run.recording import Process, Recording, Step
from tests.support.installs import require_torch
from tests.support.watching import REST, TRAINING, watch

PLACE = Location("train.py", 30, 5)


def lagging(recording: Recording) -> list[str]:
    """What the rule says of a run."""
    card = next(card for card in find_rules().cards if card.code == "GPU809")
    assert card.run_only
    return [finding.message for finding in load(card).in_run(recording)]


def run_of(*ranks: list[dict[str, float]]) -> Recording:
    """A run of ranks whose steps took so many seconds for each part; all steps end together."""
    longest = [max(sum(parts.values()) for parts in row) for row in zip(*ranks, strict=True)]
    return Recording(tuple(_process(rank, list(zip(parts, longest, strict=True))) for rank, parts in enumerate(ranks)))


def _process(rank: int, rows: list[tuple[dict[str, float], float]]) -> Process:
    steps = tuple(
        Step(
            number=at,
            optimizer=0,
            at=float(at),
            took=longest,
            # What the others are ahead they wait in the backward.
            spans={**parts, "backward": parts.get("backward", 0.0) + longest - sum(parts.values())},
            counts={},
            memory=None,
            cost=0.0,
        )
        for at, (parts, longest) in enumerate(rows)
    )
    return Process(
        pid=rank, parent=0, rank=rank, world=2, local_rank=rank, host="a", main="train.py", torch="2", steps=steps,
        backward=PLACE,
    )  # fmt: skip


FAST = {"wait": 0.001, "forward": 0.02, "backward": 0.03, "optimizer": 0.002}


@pytest.mark.parametrize(
    ("slow", "where"),
    [
        pytest.param({**FAST, "wait": 0.05}, "What is slow is data: it waits for its batches", id="data"),
        pytest.param({**FAST, "copy": 0.05}, "slow is transfer: it copies its batches to its GPU", id="transfer"),
        pytest.param({**FAST, "forward": 0.07}, "What is slow is compute: it is in its forward", id="compute"),
        pytest.param({**FAST, "save": 0.05}, "What is slow is what it saves: it is in `torch.save`", id="saving"),
        pytest.param({**FAST, "other": 0.05}, "it is between the calls", id="something of its own"),
    ],
)
def test_the_rank_and_what_keeps_it_are_named(slow: dict[str, float], where: str) -> None:
    (message,) = lagging(run_of([FAST] * 20, [slow] * 20, [FAST] * 20))
    assert message.startswith("Rank 1 makes the other ranks wait for")
    assert where in message


def test_alike_ranks_are_no_finding() -> None:
    assert lagging(run_of([FAST] * 20, [{**FAST, "wait": 0.004}] * 20)) == []


def test_another_rank_each_time_is_no_finding() -> None:
    slow = {**FAST, "wait": 0.05}
    assert lagging(run_of([FAST, slow] * 10, [slow, FAST] * 10)) == []


def test_a_few_steps_say_nothing() -> None:
    assert lagging(run_of([FAST] * 5, [{**FAST, "wait": 0.05}] * 5)) == []


def test_who_is_not_seen_waiting_does_not_wait() -> None:
    recording = run_of([{**FAST, "other": 0.05}] * 20, [{**FAST, "wait": 0.05}] * 20)
    assert lagging(recording) == []


SLOW_LINK = """
class OverSlowLink(torch.Tensor):
    @classmethod
    def __torch_function__(cls, called, types, args=(), keywords=None):
        with torch._C.DisableTorchFunctionSubclass():
            if called.__name__ != "to":
                return called(*args, **(keywords or {}))
            time.sleep(0.05 * dist.get_rank())
            return torch.empty(0, device="meta")

"""
"""Batches that take long to another device on rank 1; that device is one that a CPU has."""


def test_a_slow_link_is_told_as_transfer_in_a_run(tmp_path: Path) -> None:
    require_torch()
    program = TRAINING.replace("range(2)", "range(8)").replace(
        "        optimizer.zero", "        x.as_subclass(OverSlowLink).to('meta')\n        optimizer.zero"
    )
    program = program.replace("import os, sys", "import os, sys, time").replace(
        "dist.init_", f"{SLOW_LINK}dist.init_", 1
    )
    (tmp_path / "train.py").write_text(program + REST)
    watched = watch(tmp_path, "--no-lint", "--nproc-per-node", "2", "train.py")
    (message,) = [each["message"] for each in watched.report["findings"] if each["code"] == "GPU809"]
    assert message.startswith("Rank 1 makes the other ranks wait for")
    assert "slow is transfer: it copies its batches to its GPU" in message
