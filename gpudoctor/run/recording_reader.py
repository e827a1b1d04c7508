"""From the files of a recording to plain data. A line that was cut off is left out; nothing here can fail a report."""

from __future__ import annotations

import base64
import json
import os
import zlib
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from gpudoctor.diagnostic import Location
from gpudoctor.plain import PlainError, Reader
from gpudoctor.record import replace
from gpudoctor.run.fatal_stacks import fatal_of
from gpudoctor.run.places import is_own
from gpudoctor.run.protocol import FATAL
from gpudoctor.run.recording import Pass, Process, Recording
from gpudoctor.run.recording.call_counts import RecordedCollective, RecordedOption
from gpudoctor.run.recording.process_ends import Crash, Fatal, StackFrame, Terminated

T = TypeVar("T")
JsonLine = dict[str, Any]

_LINES = {
    "groups": "init_process_group",
    "subgroups": "new_group",
    "wraps": "wrap",
    "optimizers": "optimizer",
    "samplers": "sampler",
    "steps": "step",
    "checks": "check",
    "exposed": "communication",
    "clips": "clip",
    "averaged_again": "averaged again",
    "stepped_early": "stepped early",
    "between_steps": "between steps",
    "gathered_into_one": "gathered into one",
    "loggers": "logger",
    "sums": "sum",
    "saves": "save",
    "opens": "open",
    "hidden": "hidden",
    "norms": "norms",
    "searches": "search",
    "calls": "calls",
    "seeds": "seed",
    "on_sigterm": "sigterm",
    "generators": "generators",
    "splits": "split",
    "failures": "failed",
    "fetches": "fetch",
    "refused": "refused",
    "accelerators": "accelerator",
    "divided": "divided again",
    "shared_again": "shared again",
    "padding": "gathered padding",
    "drawn": "drawn",
    "compiled": "compile",
    "cut_up": "layers cut up",
}
"""What a process has of each kind of line, each by itself: the names in the line are those of the record."""
_HELD = {name: get_args(hint)[0] for name, hint in get_type_hints(Process).items() if get_origin(hint) is tuple}
"""The records that a process has several of."""


def read(folder: Path, *, status: int | None, seconds: float) -> Recording:
    """Put together what the processes of a run have left in `folder`."""
    files = sorted(folder.glob("process-*.jsonl"), key=_began)
    processes = [each for path in files if (each := _process(list(lines_of(path)), folder))]
    ranks = _ranks(processes)
    others = [each for each in processes if each not in ranks and _tells(each)]
    return Recording(tuple(ranks), tuple(others), status=status, seconds=seconds)


def _tells(process: Process) -> bool:
    """A process without a rank did something that a rule may want to know."""
    return bool(process.crash or process.steps or process.groups or process.seeds or process.refused)


def _ended_by_signal(path: Path) -> Fatal | Terminated | None:
    """The signal that ended the process, as Python tells it."""
    told = fatal_of(_text(str(path)))
    if told is None:
        return None
    signal, frames = told
    stood = frames_of([[*frame, is_own(frame[0])] for frame in frames])
    return Fatal(signal, stood) if signal else Terminated(stood)


def lines_of(path: Path) -> Iterator[JsonLine]:
    """The whole lines of one process's file."""
    try:
        text = path.read_bytes()
    except OSError:
        return
    for line in text.splitlines():
        # The last line of a process that was killed, or that met a full disk, may be cut off.
        if line.endswith(b"}"):
            try:
                yield json.loads(line)
            except ValueError:
                continue


def shown(path: str) -> str:
    """As lint shows it: relative to the working directory where that is shorter."""
    # Findings of lint and of a run must name one place alike.
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative


def frames_of(given: Iterable[Any]) -> tuple[StackFrame, ...]:
    """Frames as instruments write them, `[file, line, function, own]`."""
    return _READER.read(tuple[StackFrame, ...], given)


def collective_of(given: JsonLine) -> RecordedCollective:
    """One entry of the flight recorder."""
    return _READER.read(RecordedCollective, given)


def _place(given: Any) -> Location:
    """A place as instruments write it, `[file, line]`."""
    try:
        file, line = given
        return Location(shown(file), int(line))
    except (TypeError, ValueError):
        raise PlainError("is no place") from None


def _frame(given: Any) -> StackFrame:
    file, line, name, own = given
    return StackFrame(_place((file, line or 1)), name, own)


def _samples(given: str) -> tuple[int, ...] | None:
    """Places in a data set, as `Pass` has them; where none is known, the text says nothing."""
    places = array("q")
    places.frombytes(zlib.decompress(base64.b64decode(given)))
    return tuple(places) or None


_READER = Reader({Location: _place, StackFrame: _frame, tuple[int, ...] | None: _samples})


def _began(path: Path) -> int:
    """When the file of a process was begun, as its name says."""
    return int(path.stem.rpartition("-")[2])


def _ranks(processes: Iterable[Process]) -> list[Process]:
    """One process for each rank: of a job that was started again, the last."""
    # Workers of a loader have the rank in their environment, too, and say little. Of equals the one begun last wins.
    ordered = sorted(processes, key=lambda each: bool(each.backend or each.steps))
    trained = {each.rank: each for each in ordered if each.rank is not None}
    alone = [each for each in ordered if each.rank is None and each.steps]
    if not trained and alone:
        return [max(alone, key=lambda each: each.made)]
    return [trained[rank] for rank in sorted(trained)]


def _process(lines: list[JsonLine], folder: Path) -> Process | None:
    if not lines or lines[0].get("kind") != "process":
        return None
    first = lines[0]
    told = _LinesByKind(lines)
    # A program may leave its group and make another one.
    group = (told.of("group") or [{}])[-1]
    launch = first.get("launch", {})
    over = told.of("over")[-1] if told.of("over") else None
    faults = [f"{each['instrument']}: {each['error']} ({each['where']})" for each in told.of("fault")]
    ended = _ended_by_signal(folder / FATAL.format(pid=first["pid"]))
    process = Process(
        pid=first["pid"],
        parent=first["parent"],
        rank=group.get("rank", _number(launch.get("RANK"))),
        world=group.get("world", _number(launch.get("WORLD_SIZE")) or 1),
        local_rank=_number(launch.get("LOCAL_RANK")),
        node=_number(launch.get("GROUP_RANK")),
        on_node=_number(launch.get("LOCAL_WORLD_SIZE")),
        host=first["host"],
        main=first.get("main") or "",
        torch=first["torch"],
        backend=group.get("backend", ""),
        **{name: told.each(kind, _HELD[name]) for name, kind in _LINES.items()},
        passes=tuple(told.read(Pass, _passes(told.of("pass")))),
        losses=told.last("loss", _HELD["losses"], "place", "made_by"),
        reads=told.last("read", _HELD["reads"], "place"),
        schedules=told.last("schedule", _HELD["schedules"], "number"),
        engines=told.last("engine", _HELD["engines"], "number"),
        inputs=tuple(line["print"] for line in told.of("input")),
        collectives=tuple(collective_of(entry) for line in told.of("collectives") for entry in line["entries"]),
        crash=next(map(_crash, told.of("crash")), None),
        option=next(iter(told.each("local rank", RecordedOption)), None),
        backwards=over["backwards"] if over else 0,
        backward=_place(over["backward"]) if over and over["backward"] else None,
        counted=max((line.get(_COUNTED.get(line["kind"], "step"), 0) for line in lines), default=0),
        over=over is not None,
        left=_place(over["left"]) if over and over["left"] else None,
        fatal=ended if isinstance(ended, Fatal) else None,
        terminated=ended if isinstance(ended, Terminated) else None,
        cost=over["cost"] if over else max((line["cost"] for line in told.of("step")), default=0.0),
    )
    return replace(process, faults=(*faults, *told.wrong))


_COUNTED = {"over": "steps", "step": "number"}
"""How the steps that were made are called in a line."""


class _LinesByKind:
    """The lines of one process, by kind."""

    def __init__(self, lines: Iterable[JsonLine]) -> None:
        self._lines: dict[str, list[JsonLine]] = {}
        self.wrong: list[str] = []
        """What was the matter with lines that were left out."""
        for line in lines:
            self._lines.setdefault(line["kind"], []).append(line)

    def of(self, kind: str) -> list[JsonLine]:
        return self._lines.get(kind, [])

    def each(self, kind: str, made: type[T]) -> tuple[T, ...]:
        """A record of each line."""
        return tuple(self.read(made, self.of(kind)))

    def last(self, kind: str, made: type[T], *key: str) -> tuple[T, ...]:
        """A record of the last line of each, which holds what the others do."""
        lines = {repr([line[name] for name in key]): line for line in self.of(kind)}
        return tuple(self.read(made, lines.values()))

    def read(self, made: type[T], lines: Iterable[JsonLine]) -> Iterator[T]:
        """Records of these lines, without those that are none."""
        return (each for line in lines if (each := self._one(made, line)) is not None)

    def _one(self, made: type[T], line: JsonLine) -> T | None:
        try:
            return _READER.read(made, line)
        except PlainError as error:
            self.wrong.append(f"the line `{line['kind']}`: {error}")
            return None


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None


def _crash(line: JsonLine) -> Crash:
    own = {file for file, _, _, own in line["frames"] if own}
    near = any("init_process_group(" in _text(file) for file in own)
    return replace(_READER.read(Crash, line), near_group=near)


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _passes(lines: list[JsonLine]) -> Iterator[JsonLine]:
    """The last line of each pass, with when it began: they repeat each other as the pass goes on."""
    began = {line["number"]: line["at"] for line in reversed(lines)}
    for line in {line["number"]: line for line in lines}.values():
        yield {**line, "began": began[line["number"]], "until": line["at"]}
