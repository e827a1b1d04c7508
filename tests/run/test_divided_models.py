"""What ranks that share one model do is no mistake: they read the same data, and hold parts that differ."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gpudoctor.record import replace
from gpudoctor.registry import find_rules, load
from gpudoctor.run.recording import Process, RecordedCollective, Recording
from tests.support.installs import require_torch
from tests.support.made_runs import PLACE, healthy, sick


def found(code: str, recording: Recording) -> list[str]:
    """What a rule says of a run."""
    card = next(card for card in find_rules().cards if card.code == code)
    return [finding.message for finding in load(card).in_run(recording)]


def read_by(*shares: tuple[int, int]) -> Recording:
    """Ranks that train with samplers made for so many replicas and this one of them."""

    def rank_of(number: int, replicas: int, share: int) -> Process:
        like = healthy().recording.ranks[0]
        made = replace(like.passes[0], replicas=replicas, sampler_rank=share, made=PLACE)
        return replace(like, rank=number, world=len(shares), passes=(made,))

    return Recording(tuple(rank_of(number, *each) for number, each in enumerate(shares)), seconds=1.0)


@pytest.mark.parametrize(
    ("shares", "told"),
    [
        ([(2, 0), (2, 0), (2, 1), (2, 1)], False),
        ([(2, 0), (2, 1), (2, 0), (2, 1)], False),
        ([(4, 0), (4, 0), (4, 0), (4, 0)], True),
        ([(4, 0), (4, 1), (4, 0), (4, 1)], True),
        ([(2, 0), (2, 0)], True),
        ([(2, 0), (2, 0), (2, 0), (2, 1)], True),
    ],
)
def test_a_shard_may_be_for_several_ranks_where_none_is_left_out(shares: list[tuple[int, int]], told: bool) -> None:
    assert bool(found("GPU305", read_by(*shares))) == told


@pytest.mark.parametrize(
    ("call", "told"), [("all_to_all", False), ("reduce_scatter", False), ("all_reduce", True), ("all_gather", True)]
)
def test_experts_of_a_rank_are_its_own(call: str, told: bool) -> None:
    """No metric is exchanged that way, however small the tensors are."""
    exchanged = RecordedCollective(call, 1, "0", done=True, began=1.0, elements=8, of_wrapper=False, place=PLACE)
    recording = sick().recording
    ranks = tuple(replace(each, wraps=(), collectives=(exchanged,)) for each in recording.ranks)
    assert bool(found("GPU101", replace(recording, ranks=ranks))) == told


def test_before_torch_2_8_the_calls_of_the_program_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    require_torch()
    import torch

    from gpudoctor.run.instruments import listener
    from gpudoctor.run.instruments.collective_calls import Exchanges
    from gpudoctor.run.recording_reader import collective_of

    monkeypatch.setattr(listener, "_DUMPS", ("there is none",))
    monkeypatch.setattr(listener, "CALLED", listener.CALLED.copy())
    state: Any = SimpleNamespace(recorder=SimpleNamespace(place=lambda: ["train.py", 9]))
    exchanges = Exchanges(state)
    exchanges._note("all_gather", ([torch.ones(40), torch.ones(40)], torch.ones(40), None))
    exchanges._note("all_reduce", (torch.ones(100),))
    noted = [collective_of(entry) for entry in listener.collectives()]
    assert [(each.name, each.elements, each.done) for each in noted] == [
        ("all_gather", 40, True),
        ("all_reduce", 100, True),
    ]
    assert exchanges._notes
    recording = Recording((replace(healthy().recording.ranks[0], collectives=tuple(noted)),), seconds=1.0)
    assert recording.averages_by_hand
