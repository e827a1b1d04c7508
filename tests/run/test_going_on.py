"""Ranks that go on after SIGTERM, or after another one has failed, from recordings that are written down."""

from gpudoctor.diagnostic import Location
from gpudoctor.record import replace
from gpudoctor.run.going_on import gone_on, in_words
from gpudoctor.run.recording import OnSigterm, Process, Recording, Step
from gpudoctor.run.recording.process_ends import Crash


def stepping(rank: int, until: float, **more: object) -> Process:
    """A rank that makes a step each second from 1000 s on."""
    steps = tuple(
        Step(number, 0, 1000.0 + number, 1.0, {}, {}, None, 0.0) for number in range(1, 1 + round(until - 1000))
    )
    return Process(rank, 0, rank, 2, rank, "a", "train.py", "2", steps=steps, **more)  # type: ignore[arg-type]


def test_who_ignores_the_signal() -> None:
    ignores = (OnSigterm(True, None),)
    run = Recording((stepping(0, 1011), stepping(1, 1030, on_sigterm=ignores)), told_to_end=1010.0)
    (found,) = gone_on(run)
    assert (found.rank, found.seconds, found.steps, found.failed) == (1, 20.0, 20, None)
    assert in_words(found).startswith(
        "Rank 1 went on for 20 s and 20 steps after the job was told to end (SIGTERM): it ignores SIGTERM."
    )
    handles = (OnSigterm(False, Location("train.py", 7)),)
    (found,) = gone_on(Recording((stepping(0, 1030, on_sigterm=handles),), told_to_end=1010.0))
    assert "what it does at SIGTERM, at train.py:7, does not end it" in in_words(found)


def test_after_another_rank_has_failed() -> None:
    crash = Crash("ValueError", "", 9, (), at=1009.0)
    run = Recording((stepping(0, 1009, crash=crash), stepping(1, 1040)), status=1)
    (found,) = gone_on(run)
    assert (found.rank, found.failed) == (1, 0)
    assert "after rank 0 had failed. " in in_words(found)


def test_who_ends_in_time_is_not_told() -> None:
    two = (stepping(0, 1012), stepping(1, 1013))
    assert gone_on(Recording(two, told_to_end=1010.0)) == ()
    assert gone_on(Recording(two)) == ()
    # A rank that fails alone keeps nobody from ending.
    alone = stepping(0, 1040, crash=Crash("ValueError", "", 9, (), at=1009.0))
    assert gone_on(replace(Recording((alone,)), status=1)) == ()
