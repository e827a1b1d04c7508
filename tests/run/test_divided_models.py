"""What ranks that share one model do is no mistake: they read the same data, and hold parts that differ."""

from types import SimpleNamespace
from typing import Any

import pytest

from gpudoctor.record import replace
from gpudoctor.registry import find_rules, load
from gpudoctor.run.recording import ParameterCheck, Process, Recording
from gpudoctor.run.recording.call_counts import RecordedCollective
from gpudoctor.run.recording.model_facts import LayersCutUp
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
    ("drawn", "told"),
    [
        # Each rank draws half of its own eight places in each epoch.
        ((((0, 2, 4, 6), (2, 4, 8, 14)), ((1, 3, 5, 7), (3, 5, 9, 15))), True),
        # Both share eight places.
        ((((0, 2, 4, 6), (0, 1, 2, 7)), ((1, 3, 5, 7), (3, 4, 5, 6))), False),
        # All ranks have chosen eight others for the second epoch.
        ((((0, 2, 4, 6), (8, 10, 12, 14)), ((1, 3, 5, 7), (9, 11, 13, 15))), False),
        # Each rank has split the data at random.
        ((((0, 2, 4, 6), (2, 4, 8, 9)), ((1, 3, 5, 7), (3, 5, 9, 8))), False),
    ],
)
def test_a_share_of_what_is_the_share_of_a_rank_already(
    drawn: tuple[tuple[tuple[int, ...], ...], ...], told: bool
) -> None:
    recording = read_by((2, 0), (2, 1))
    ranks = (
        replace(
            rank,
            passes=tuple(
                replace(rank.passes[0], number=number, shuffle=True, places=places, samples=4, size=8)
                for number, places in enumerate(epochs, 1)
            ),
        )
        for rank, epochs in zip(recording.ranks, drawn, strict=True)
    )
    assert bool(found("GPU305", replace(recording, ranks=tuple(ranks)))) == told


def test_all_ranks_may_read_all_where_they_share_the_layers() -> None:
    recording = read_by((1, 0), (1, 0))
    assert found("GPU305", recording)
    cut = LayersCutUp((0, 1), PLACE)
    sharing = tuple(replace(rank, cut_up=(cut,)) for rank in recording.ranks)
    assert not found("GPU305", replace(recording, ranks=sharing))


@pytest.mark.parametrize(
    ("call", "told"), [("all_to_all", False), ("reduce_scatter", False), ("all_reduce", True), ("all_gather", True)]
)
def test_experts_of_a_rank_are_its_own(call: str, told: bool) -> None:
    """No metric is exchanged that way, however small the tensors are."""
    exchanged = RecordedCollective(call, 1, "0", began=1.0, elements=8, of_wrapper=False, place=PLACE)
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
    assert [(each.name, each.elements) for each in noted] == [("all_gather", 40), ("all_reduce", 100)]
    assert exchanges._notes
    recording = Recording((replace(healthy().recording.ranks[0], collectives=tuple(noted)),), seconds=1.0)
    assert recording.averages_by_hand


def test_a_collective_that_goes_on_is_told_with_the_ranks_of_its_group() -> None:
    require_torch()
    import torch.distributed as dist

    from gpudoctor.run.instruments import listener

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        dist.new_group([0])
        names = list(dist.distributed_c10d._world.pg_names.values())
        assert len(names) == 2
        for name in names:
            entry = {"process_group": (name, ""), "profiling_name": "gloo:all_reduce"}
            members = listener._members()
            assert listener._collective({**entry, "state": "scheduled"}, members)["members"] == [0]
            assert listener._collective({**entry, "state": "completed"}, members)["members"] == []
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize(
    ("orders", "exchanged", "told"),
    [
        ([(0, 2), (1, 3)], 0, True),
        ([(0, 2), (0, 2)], 0, False),
        # One rank is a batch ahead.
        ([(0, 2), (0, 2, 4)], 0, False),
        # They may have handed each other their batches.
        ([(0, 2), (1, 3)], 1, False),
    ],
)
def test_ranks_that_share_layers_need_the_same_batches(
    orders: list[tuple[int, ...]], exchanged: int, told: bool
) -> None:
    like = healthy().recording.ranks[0]
    cut = LayersCutUp((0, 1), PLACE)
    passes = (replace(like.passes[0], places=places, exchanged_first=exchanged, made=PLACE) for places in orders)
    ranks = (replace(like, rank=rank, world=2, passes=(each,), cut_up=(cut,)) for rank, each in enumerate(passes))
    assert bool(found("GPU321", Recording(tuple(ranks), seconds=1.0))) == told


@pytest.mark.parametrize("cut", [False, True])
def test_tensor_parallelism_leaves_parameters_whole_without_a_missing_root(cut: bool) -> None:
    like = healthy().recording.ranks[0]
    optimizers = (replace(like.optimizers[0], whole=(0,), backward=PLACE),)
    cut_up = (LayersCutUp((0, 1), PLACE),) if cut else ()
    every = replace(like, world=2, optimizers=optimizers, cut_up=cut_up)
    ranks = (replace(every, rank=rank, checks=(ParameterCheck(1, 0, (rank,), None, 0),)) for rank in range(2))
    assert bool(found("GPU931", Recording(tuple(ranks), seconds=1.0))) == (not cut)
