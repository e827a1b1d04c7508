"""What the processes of a run have left, read back: whole lines as records, and what is no record told as a fault."""

import base64
import json
import zlib
from array import array
from pathlib import Path
from typing import Any

from gpudoctor.diagnostic import Location
from gpudoctor.record import replace
from gpudoctor.run.recording import ParameterCheck, Process, Recording
from gpudoctor.run.recording.call_counts import Loss, Result
from gpudoctor.run.recording.random_facts import RecordedSplit
from gpudoctor.run.recording_reader import read
from tests.support import made_runs

FIRST = {"kind": "process", "at": 1.0, "pid": 7, "parent": 1, "host": "node1", "torch": "2.11", "launch": {"RANK": "0"}}
STEP = {"kind": "step", "at": 3.0, "optimizer": 0, "of": 1, "took": 0.5, "memory": None, "peak": None, "cost": 0.1}
STEP |= {"spans": {"wait": 0.25}, "counts": {"reads": 2}}


def process_of(folder: Path, *lines: dict[str, Any]) -> Process:
    text = "".join(f"{json.dumps(line)}\n" for line in (FIRST, *lines))
    (folder / "process-7-1.jsonl").write_text(text, encoding="utf-8")
    (process,) = read(folder, status=0, seconds=1.0).ranks
    return process


def test_a_line_that_is_no_record_costs_itself_alone(tmp_path: Path) -> None:
    wrong = {**STEP, "number": 2, "took": "long"}
    process = process_of(tmp_path, {**STEP, "number": 1}, wrong, {**STEP, "number": 3, "from a later version": 1})
    assert [(step.number, step.spans["wait"], step.counts["reads"]) for step in process.steps] == [
        (1, 0.25, 2),
        (3, 0.25, 2),
    ]
    assert process.faults == ("the line `step`: took is 'long' and not a number",)


def test_a_place_may_be_missing_and_must_be_one(tmp_path: Path) -> None:
    split = {"kind": "split", "at": 1.0, "parts": [1, 2]}
    here = str(tmp_path / "train.py")
    process = process_of(
        tmp_path, {**split, "place": None}, {**split, "place": [here, 3]}, {**split, "place": [here, "x"]}
    )
    assert process.splits == (RecordedSplit((1, 2), None), RecordedSplit((1, 2), Location(here, 3)))
    assert process.faults == ("the line `split`: place is no place",)


def test_of_lines_that_repeat_each_other_the_last_one_counts(tmp_path: Path) -> None:
    loss = {"kind": "loss", "made_by": "MulBackward0", "place": [str(tmp_path / "train.py"), 3]}
    process = process_of(tmp_path, {**loss, "count": 1, "scales": [2]}, {**loss, "count": 5, "scales": [2, 0.5]})
    assert process.losses == (Loss("MulBackward0", 5, (2.0, 0.5), Location(str(tmp_path / "train.py"), 3)),)


def test_a_pass_begins_with_its_first_line(tmp_path: Path) -> None:
    packed = base64.b64encode(zlib.compress(array("q", [4, 2]).tobytes())).decode()
    numbers = "loader steps first_step backwards samples dataset workers told number".split()
    known = {**dict.fromkeys(numbers, 1), "digest": "d", "sampler": "RandomSampler", "prints": [], "places": packed}
    known |= dict.fromkeys(("ended", "gradient", "iterable", "in_memory"), False)
    unknown = "training size batch_size replicas sampler_rank seed epoch shuffle told_at made place".split()
    line = {"kind": "pass", **known, **dict.fromkeys(unknown)}
    (found,) = process_of(tmp_path, {**line, "at": 2.0, "batches": 1}, {**line, "at": 9.0, "batches": 8}).passes
    assert (found.batches, found.began, found.until, found.places) == (8, 2.0, 9.0, (4, 2))


def test_a_read_holds_where_its_numbers_come_from(tmp_path: Path) -> None:
    line = {
        "kind": "read",
        "device": "cpu",
        "count": 2,
        "steps": 2,
        "early": "",
        "started": None,
    }
    result = {"step": 1, "value": 0.5, "sum": 1, "relation": "mean"}
    process = process_of(tmp_path, {**line, "results": [result], "place": [str(tmp_path / "train.py"), 3]})
    assert not process.faults
    assert [each.results for each in process.reads] == [(Result(1, 0.5, 1, "mean"),)]


def test_what_nobody_trains_does_not_drift_apart() -> None:
    """Ranks hold other values from the start, and an optimizer of other parameters never changes them."""

    def held(rank: int, *, trained: bool) -> Process:
        checks = [ParameterCheck(step, 0, (rank, step * trained), ("weight", "bias"), 0) for step in (1, 2, 3)]
        return replace(made_runs.sick().recording.ranks[rank], checks=tuple(checks))

    for trained in (True, False):
        recording = Recording(tuple(held(rank, trained=trained) for rank in (0, 1)), seconds=1.0)
        assert (recording.drift is not None) == trained
