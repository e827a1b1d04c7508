"""The trace of a run, as viewers of Chrome's format read it."""

import itertools
import json
from typing import Any

import pytest

from gpudoctor.run import trace
from gpudoctor.run.recording import Recording
from gpudoctor.run.trace import trace_of
from tests.support.made_runs import EVERY, crashed, healthy, sick

pytestmark = pytest.mark.slow

NAMES = {"process_name", "process_sort_index", "thread_name"}


def checked(text: str) -> dict[str, Any]:
    """The trace; fails where a viewer would not show it as it is meant."""
    found: dict[str, Any] = json.loads(text)
    events = found["traceEvents"]
    timed = [each for each in events if each["ph"] != "M"]
    assert {each["name"] for each in events if each["ph"] == "M"} <= NAMES
    assert {each["ph"] for each in timed} <= {"X", "i", "C"}
    assert all(isinstance(each[key], int) for each in timed for key in ("pid", "tid", "ts"))
    assert [each["ts"] for each in timed] == sorted(each["ts"] for each in timed)
    assert all(each["ts"] >= 0 for each in timed)
    threads: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for each in timed:
        if each["ph"] == "X":
            threads.setdefault((each["pid"], each["tid"]), []).append(each)
    for slices in threads.values():
        _nested(slices)
    return found


def _nested(slices: list[dict[str, Any]]) -> None:
    """Each slice lies in the one that is open, or behind it."""
    around: list[int] = []
    for each in slices:
        assert each["dur"] >= 0
        while around and each["ts"] >= around[-1]:
            around.pop()
        assert not around or each["ts"] + each["dur"] <= around[-1]
        around.append(each["ts"] + each["dur"])


@pytest.mark.parametrize("name", EVERY)
def test_viewers_can_read_it(name: str) -> None:
    checked(trace_of(EVERY[name]().recording))


def test_each_rank_is_a_process_with_its_steps_in_order() -> None:
    events = checked(trace_of(healthy().recording))["traceEvents"]
    for rank in range(2):
        own = [each for each in events if each["pid"] == rank]
        assert own[0]["args"] == {"name": f"rank {rank} on here"}
        steps = [each["name"] for each in own if each.get("cat") == "step"]
        assert steps == [f"step {number}" for number in range(1, 201)]
        parts = [each["name"] for each in own if each.get("cat") == "part"][:8]
        assert parts == ["data", "forward", "backward", "optimizer"] * 2
        assert sum(each.get("cat") == "communication" for each in own) > 0


def test_it_does_not_grow_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "MOST_EVENTS", 8_000)
    found = checked(trace_of(sick().recording))
    assert len(found["traceEvents"]) < 9_000
    assert found["otherData"]["steps left out"] > 30_000
    kept = [each["name"] for each in found["traceEvents"] if each.get("cat") == "step" and each["pid"] == 7]
    assert (kept[0], kept[-1]) == ("step 1", "step 5000")
    numbers = [int(name.split()[1]) for name in kept]
    assert sum(after - before > 1 for before, after in itertools.pairwise(numbers)) == 1


def test_a_run_without_steps_has_an_empty_one() -> None:
    for recording in (crashed().recording, Recording(())):
        assert checked(trace_of(recording))["traceEvents"] == []
