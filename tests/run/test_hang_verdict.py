"""Which of four a hang is, from where the ranks stood."""

from argparse import Namespace
from pathlib import Path
from typing import cast

import pytest

from gpudoctor.diagnostic import Finding, Location, Related, Severity
from gpudoctor.record import replace
from gpudoctor.registry import find_rules
from gpudoctor.run.hang import Watch, _apart
from gpudoctor.run.hang_verdict import HangKind, verdict_of
from gpudoctor.run.internal_errors import Faults
from gpudoctor.run.observe import Follower, Order, judged
from gpudoctor.run.outcome import Watched, hangs_untold, where
from gpudoctor.run.recording import Recording, Waiting
from gpudoctor.run.recording.call_counts import RecordedCollective
from gpudoctor.run.recording.process_ends import StackFrame

HERE, THERE = Location("train.py", 9), Location("train.py", 20)


def in_collective(rank: int, number: int = 5, name: str = "all_reduce", group: str = "0") -> Waiting:
    collective = RecordedCollective(name, number, group, 0.0, 1, False, HERE, (0, 1))
    return Waiting(rank, HERE, "mean", collective, (), waits=True)


def naming(rank: int, root: str) -> Waiting:
    return replace(in_collective(rank, name="broadcast"), root=root)


def elsewhere(rank: int) -> Waiting:
    return Waiting(rank, THERE, "load", None, ())


def at_the_lock(rank: int) -> Waiting:
    return Waiting(rank, HERE, "lock", None, ())


def receiving(rank: int) -> Waiting:
    inner = StackFrame(Location("torch/distributed/distributed_c10d.py", 2400), "recv", own=False)
    return Waiting(rank, HERE, "step", None, (inner,), waits=True)


def silent(rank: int, why: str) -> Waiting:
    return Waiting(rank, None, "", None, (), silence=why)


@pytest.mark.parametrize(
    ("waiting", "kind", "ranks"),
    [
        ([in_collective(0), silent(1, "has ended")], HangKind.RANK_ENDED, (1,)),
        ([in_collective(0), silent(1, "does not answer")], HangKind.INTERPRETER_STUCK, (1,)),
        ([in_collective(0), silent(1, "is stopped")], HangKind.INTERPRETER_STUCK, (1,)),
        ([in_collective(0), elsewhere(1), in_collective(2)], HangKind.RANK_MISSING, (1,)),
        ([in_collective(0), in_collective(1), in_collective(2, 4)], HangKind.COLLECTIVES_DIFFER, (2,)),
        ([in_collective(0), in_collective(1, name="broadcast")], HangKind.COLLECTIVES_DIFFER, ()),
        ([in_collective(0), in_collective(1)], HangKind.KERNEL_STUCK, ()),
        ([naming(0, "src=0"), naming(1, "src=0")], HangKind.KERNEL_STUCK, ()),
        ([naming(0, "src=0"), naming(1, "src=1")], HangKind.COLLECTIVES_DIFFER, ()),
        ([in_collective(0), in_collective(1, group="1")], HangKind.COLLECTIVES_DIFFER, ()),
        ([in_collective(0, group="1"), in_collective(2)], HangKind.KERNEL_STUCK, ()),
        ([receiving(0), receiving(1)], HangKind.NOBODY_SENDS, ()),
        ([receiving(0), in_collective(1)], HangKind.NOBODY_SENDS, (0,)),
        ([receiving(0), elsewhere(1)], HangKind.RANK_MISSING, (1,)),
        ([elsewhere(0), elsewhere(1)], HangKind.NO_COLLECTIVE, ()),
        ([elsewhere(0), elsewhere(1), at_the_lock(2), elsewhere(3)], HangKind.NO_COLLECTIVE, (2,)),
        ([silent(0, "does not answer"), silent(1, "has ended")], HangKind.INTERPRETER_STUCK, (0,)),
        # Who has ended explains the others, wherever they are.
        ([elsewhere(0), silent(1, "has ended"), silent(2, "does not answer")], HangKind.RANK_ENDED, (1,)),
    ],
)
def test_what_keeps_the_ranks(waiting: list[Waiting], kind: HangKind, ranks: tuple[int, ...]) -> None:
    verdict = verdict_of(waiting)
    assert (verdict.kind, verdict.ranks) == (kind, ranks)


def test_who_computes_may_only_be_slow() -> None:
    works, stands = replace(elsewhere(1), works=True), elsewhere(2)
    slow, mixed = verdict_of([in_collective(0), works]), verdict_of([in_collective(0), works, stands])
    assert slow is not None
    assert mixed is not None
    assert slow.text == "Rank 1 did not reach what the others wait in, but computes, and may only be slow."
    assert "slow" not in mixed.text


def test_no_hang_no_verdict() -> None:
    assert verdict_of(()) is None


@pytest.mark.parametrize(
    ("stack", "told"),
    [
        ((("pdb.py", "interaction"), ("pdb.py", "user_line"), ("train.py", "load")), "for somebody to type"),
        ((("torch/utils/data/dataloader.py", "_get_data"), ("train.py", "load")), "for the workers of its loader at"),
        ((("threading.py", "join"), ("threading.py", "_shutdown")), "come to the end of its program"),
    ],
)
def test_where_a_rank_stands_that_waits_for_nobody(stack: tuple[tuple[str, str], ...], told: str) -> None:
    frames = tuple(StackFrame(Location(path, 7), name, own=path == "train.py") for path, name in stack)
    assert told in where(replace(elsewhere(1), stack=frames))
    assert told not in where(elsewhere(1))


@pytest.mark.parametrize(("at", "untold"), [(None, True), (Location("train.py", 3), True), (HERE, False)])
def test_a_hang_is_told_beside_findings_that_do_not_speak_of_it(at: Location | None, untold: bool) -> None:
    found = (Finding("GPU301", "missing-distributed-sampler", Severity.ERROR, "It repeats.", at),) if at else ()
    recording = Recording(ranks=(), hang=(in_collective(0), elsewhere(1)))
    assert hangs_untold(Watched(recording, found, (), lambda _: (), linted=False)) is untold
    assert not hangs_untold(Watched(Recording(ranks=()), found, (), lambda _: (), linted=False))


def test_a_hang_is_told_beside_a_finding_that_leads_to_its_line() -> None:
    at, on_the_way = Location("train.py", 3), (Related("the ranks train on these batches", HERE),)
    found = Finding("GPU301", "missing-distributed-sampler", Severity.ERROR, "It repeats.", at, related=on_the_way)
    recording = Recording(ranks=(), hang=(in_collective(0), elsewhere(1)))
    assert hangs_untold(Watched(recording, (found,), (), lambda _: (), linted=False))


def told(rank: int, came_with: str, at: Location = HERE) -> Waiting:
    """A rank on virtual GPUs that came with something else than another one."""
    return Waiting(rank, at, "mean", None, (StackFrame(at, "mean", own=True),), waits=True, told=came_with)


@pytest.mark.parametrize(
    ("hang", "found"),
    [
        # Both went round, one of them once more.
        ([replace(in_collective(0), before=HERE), replace(in_collective(1), place=THERE, before=HERE)], ["GPU517"]),
        ([in_collective(0), replace(in_collective(1), place=THERE, before=HERE)], ["GPU501"]),
        # The same line, and another of two groups to which both belong.
        ([in_collective(0), in_collective(1, group="1")], ["GPU512"]),
        (
            [in_collective(0), told(1, "waits with `all_reduce` of 8 bytes, where [...] `all_reduce` of 4 bytes,")],
            ["GPU518"],
        ),
        ([naming(0, "src=0"), naming(1, "src=1")], []),
        ([in_collective(0), told(1, "waits with `barrier` of 0 bytes, where [...] `all_reduce` of 4 bytes,")], []),
        (
            [
                in_collective(0),
                told(1, "waits with `all_reduce` of 8 bytes, where [...] `all_reduce` of 4 bytes,", THERE),
            ],
            ["GPU501"],
        ),
    ],
)
def test_the_mistake_that_a_wait_shows(hang: list[Waiting], found: list[str]) -> None:
    cards = [card for card in find_rules().cards if card.code in ("GPU501", "GPU512", "GPU517", "GPU518")]
    faults = Faults()
    assert [each.code for each in judged(Recording((), status=None, hang=tuple(hang)), cards, faults)] == found
    assert not faults.told


@pytest.mark.parametrize(("group", "apart"), [("0", False), ("1", True)])
def test_ranks_in_one_call_of_two_groups_do_not_come_to_each_other(group: str, apart: bool) -> None:
    """In one group they may only be slow."""
    assert _apart([in_collective(0), in_collective(1, group=group)]) is apart
    assert _apart([naming(0, f"src={group}"), naming(1, "src=0")]) is apart


@pytest.mark.parametrize("told_to_end", [True, False])
def test_who_ends_because_somebody_told_it_to_has_not_gone_on(told_to_end: bool, tmp_path: Path) -> None:
    follower = Follower(Order(("python",)), tmp_path, lambda _: None)
    follower.hang = follower.stood = (in_collective(0), elsewhere(1))
    # They write and end, for longer than it takes.
    follower._watch = cast("Watch", Namespace(look=tuple, standing_still=False, has_moved_since=lambda _: True))
    follower.look(told_to_end)
    follower._stirred = -1000.0
    follower.look(told_to_end)
    assert bool(follower.stood) is told_to_end


def test_while_all_is_well_ranks_are_looked_at_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watch, looks = Watch(tmp_path, 30.0), list[float]()
    monkeypatch.setattr(watch, "_follow", looks.append)
    for tenth in range(100):
        monkeypatch.setattr("time.monotonic", lambda tenth=tenth: 1000 + tenth / 10)
        assert watch.look() == ()
    assert len(looks) == 10
