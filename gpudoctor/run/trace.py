"""A run as a trace: a file that Perfetto and chrome://tracing show as a timeline, with a process for each rank.

The format is Chrome's: complete events (`X`) with a beginning and a duration, instants (`i`), counters (`C`) and names
(`M`), in microseconds. Slices of one thread lie one in the other or one behind the other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from gpudoctor.run.recording import Process, Recording, Step
from gpudoctor.run.recording.call_counts import RecordedCollective
from gpudoctor.run.timing import MEASURED

MOST_EVENTS = 300_000
"""Of all ranks together: viewers get slow beyond that, and a file of about 40 MB is enough."""
TRAINING, COMMUNICATION, COLLECTIVES = 0, 1, 2
_THREADS = {
    TRAINING: "training",
    COMMUNICATION: "communication of DDP, where it was clocked",
    COLLECTIVES: "collectives, where they were begun",
}
TraceEvent = dict[str, Any]


def trace_of(recording: Recording) -> str:
    """The trace as JSON. Of long runs the steps in the middle are left out, and `otherData` says so."""
    begin = min((_beginning(each) for each in recording.ranks if each.steps), default=0.0)
    room = MOST_EVENTS // max(1, len(recording.ranks))
    names: list[TraceEvent] = []
    events: list[TraceEvent] = []
    left_out = 0
    for number, process in enumerate(recording.ranks):
        pid = number if process.rank is None else process.rank
        names += _names(process, pid)
        kept, dropped = _fitting([list(_of_step(step, pid, begin)) for step in process.steps], room)
        left_out += dropped
        events += kept
        events += _besides(process, pid, begin)
    # Stable: a slice comes before those that begin with it and lie in it.
    events.sort(key=lambda event: event["ts"])
    about = {"made by": "gpudoctor run", "steps left out": left_out}
    return json.dumps({"traceEvents": [*names, *events], "displayTimeUnit": "ms", "otherData": about}) + "\n"


def _beginning(process: Process) -> float:
    return min(step.at - step.took for step in process.steps)


def _names(process: Process, pid: int) -> Iterator[TraceEvent]:
    name = "process" if process.rank is None else f"rank {process.rank}"
    yield {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": f"{name} on {process.host}"}}
    yield {"ph": "M", "name": "process_sort_index", "pid": pid, "tid": 0, "args": {"sort_index": pid}}
    for tid, thread in _THREADS.items():
        yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": thread}}


def _of_step(step: Step, pid: int, begin: float) -> Iterator[TraceEvent]:
    first, last = _micro(step.at - step.took - begin), _micro(step.at - begin)
    yield _slice(f"step {step.number}", "step", pid, TRAINING, first, last)
    for span, began, seconds in step.starts:
        # Two clocks: what sticks out by a little is cut off.
        start, end = (min(max(_micro(at - begin), first), last) for at in (began, began + seconds))
        yield _slice(MEASURED.get(span, span), "part", pid, TRAINING, start, end)
    if step.memory is not None:
        held = {"MiB": round(step.memory / 2**20, 1)}
        yield {"ph": "C", "name": "memory", "pid": pid, "tid": TRAINING, "ts": last, "args": held}


def _besides(process: Process, pid: int, begin: float) -> Iterator[TraceEvent]:
    last = 0
    for each in process.exposed:
        start = _micro(each.began - begin)
        # Of two wrappers whose backwards run into each other, one is shown.
        if each.began and start >= last:
            last = start + _micro(each.took)
            event = _slice("communication", "communication", pid, COMMUNICATION, start, last)
            yield {**event, "args": {"not hidden, ms": round(each.seconds * 1e3, 3)}}
    for one in process.collectives:
        if one.began and one.began >= begin:
            yield _collective(one, pid, begin)


def _collective(each: RecordedCollective, pid: int, begin: float) -> TraceEvent:
    at = f"{each.place.path}:{each.place.line}" if each.place else ""
    about = {"number": each.number, "group": each.group, "elements": each.elements, "line": at}
    event = {"ph": "i", "s": "t", "name": each.name, "cat": "collective", "pid": pid, "tid": COLLECTIVES}
    return {**event, "ts": _micro(each.began - begin), "args": about}


def _slice(name: str, category: str, pid: int, tid: int, start: int, end: int) -> TraceEvent:
    return {"ph": "X", "name": name, "cat": category, "pid": pid, "tid": tid, "ts": start, "dur": end - start}


def _fitting(steps: Sequence[list[TraceEvent]], room: int) -> tuple[list[TraceEvent], int]:
    """The events of the first and the last steps for which there is room, and how many steps are left out."""
    if sum(map(len, steps)) <= room:
        return [event for step in steps for event in step], 0
    first, last = _count(steps, room // 2), _count(steps[::-1], room // 2)
    kept = [*steps[:first], *steps[len(steps) - last :]]
    return [event for step in kept for event in step], len(steps) - len(kept)


def _count(steps: Sequence[list[TraceEvent]], room: int) -> int:
    """How many of the first steps fit."""
    for number, step in enumerate(steps):
        room -= len(step)
        if room < 0:
            return number
    return len(steps)


def _micro(seconds: float) -> int:
    return round(seconds * 1e6)
