"""From the files of a recording to plain data. A line that was cut off is left out; nothing here can fail a report."""

from __future__ import annotations

import base64
import json
import os
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from gpudoctor.diagnostic import Location
from gpudoctor.run.recording import (
    Calls,
    Check,
    Collective,
    Crash,
    Exposed,
    Failure,
    Fetch,
    Frame,
    Group,
    Optimizer,
    Option,
    Pass,
    Process,
    Recording,
    Refused,
    Seed,
    Shared,
    Split,
    Step,
    Wrap,
    Written,
)
from gpudoctor.run.recording.call_counts import Again, Clip, Logger, Loss, Read, Result, Subgroup, Sum
from gpudoctor.run.recording.model_facts import Hidden, Norms, Search

Line = dict[str, Any]


def read(folder: Path, *, status: int | None, seconds: float) -> Recording:
    """Put together what the processes of a run have left in `folder`."""
    files = sorted(folder.glob("process-*.jsonl"), key=_began)
    processes = [each for path in files if (each := _process(list(lines_of(path))))]
    ranks = _ranks(processes)
    others = [each for each in processes if each not in ranks and _tells(each)]
    return Recording(tuple(ranks), tuple(others), status=status, seconds=seconds)


def _tells(process: Process) -> bool:
    """A process without a rank did something that a rule may want to know."""
    return bool(process.crash or process.steps or process.groups or process.seeds or process.refused)


def lines_of(path: Path) -> Iterator[Line]:
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


def place_of(given: Any) -> Location | None:
    """A place as instruments write it, `[file, line]`."""
    return Location(shown(given[0]), int(given[1])) if given else None


def frames_of(given: Iterable[Any]) -> tuple[Frame, ...]:
    """Frames as instruments write them, `[file, line, function, own]`."""
    return tuple(Frame(Location(shown(file), int(line or 1)), name, own) for file, line, name, own in given)


def collective_of(given: Line) -> Collective:
    """One entry of the flight recorder."""
    began = (given.get("began") or 0) / 1e9
    place = place_of(given.get("place"))
    number, group = given.get("number") or 0, given.get("group") or ""
    return Collective(given["name"], number, group, given["done"], began, given["elements"], given["wrapper"], place)


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
    return [trained[rank] for rank in sorted(rank for rank in trained if rank is not None)]


def _process(lines: list[Line]) -> Process | None:
    if not lines or lines[0].get("kind") != "process":
        return None
    first = lines[0]
    by_kind: dict[str, list[Line]] = {}
    for line in lines:
        by_kind.setdefault(line["kind"], []).append(line)
    # A program may leave its group and make another one.
    group = (by_kind.get("group") or [{}])[-1]
    launch = first.get("launch", {})
    over = by_kind["over"][-1] if "over" in by_kind else None
    crash = next((_crash(line) for line in by_kind.get("crash", ())), None)
    return Process(
        pid=first["pid"],
        parent=first["parent"],
        rank=group.get("rank", _number(launch.get("RANK"))),
        world=group.get("world", _number(launch.get("WORLD_SIZE")) or 1),
        local_rank=_number(launch.get("LOCAL_RANK")),
        node=_number(launch.get("GROUP_RANK")),
        host=first["host"],
        main=first.get("main") or "",
        torch=first["torch"],
        backend=group.get("backend", ""),
        groups=_each(by_kind, "init_process_group", _group),
        subgroups=_each(by_kind, "new_group", lambda line: Subgroup(line["step"], place_of(line["place"]))),
        wraps=_each(by_kind, "wrap", _wrap),
        optimizers=_each(by_kind, "optimizer", _optimizer),
        samplers=_each(by_kind, "sampler", lambda line: Shared(line["dataset"], place_of(line["place"]))),
        passes=tuple(_passes(by_kind.get("pass", ()))),
        steps=_each(by_kind, "step", _step),
        checks=_each(by_kind, "check", _check),
        exposed=_each(by_kind, "communication", lambda line: Exposed(**_without(line))),
        losses=tuple(_losses(by_kind.get("loss", ()))),
        clips=_each(by_kind, "clip", lambda line: Clip(line["call"], place_of(line["place"]))),
        inputs=_each(by_kind, "input", lambda line: line["print"]),
        loggers=_each(by_kind, "logger", _logger),
        averaged_again=_each(by_kind, "averaged again", lambda line: Again(line["step"], place_of(line["place"]))),
        sums=_each(by_kind, "sum", lambda line: Sum(place=place_of(line["place"]), **_without(line, "place"))),
        reads=tuple(_reads(by_kind.get("read", ()))),
        kept_gradients={line["step"]: line["kept"] for line in by_kind.get("first backward", ())},
        saves=_each(by_kind, "save", _written),
        opens=_each(by_kind, "open", _written),
        collectives=tuple(collective_of(entry) for line in by_kind.get("collectives", ()) for entry in line["entries"]),
        crash=crash,
        hidden=_each(by_kind, "hidden", lambda line: _plain(Hidden, line)),
        norms=_each(by_kind, "norms", lambda line: _plain(Norms, line)),
        searches=_each(by_kind, "search", lambda line: _plain(Search, line)),
        calls=_each(by_kind, "calls", _calls),
        seeds=_each(by_kind, "seed", lambda line: _plain(Seed, line)),
        splits=_each(by_kind, "split", _split),
        failures=_each(by_kind, "failed", lambda line: _plain(Failure, line, at=line["at"])),
        fetches=_each(by_kind, "fetch", lambda line: _plain(Fetch, line, at=line["at"])),
        option=next(iter(_each(by_kind, "local rank", lambda line: _plain(Option, line))), None),
        refused=_each(by_kind, "refused", lambda line: _plain(Refused, line)),
        backwards=over["backwards"] if over else 0,
        backward=place_of(over["backward"]) if over else None,
        counted=max((line.get("steps" if line["kind"] == "over" else "step", 0) for line in lines), default=0),
        over=over is not None,
        cost=over["cost"] if over else max((line["cost"] for line in by_kind.get("step", ())), default=0.0),
        faults=tuple(f"{line['instrument']}: {line['error']} ({line['where']})" for line in by_kind.get("fault", ())),
    )


def _each(by_kind: Mapping[str, list[Line]], kind: str, make: Callable[[Line], Any]) -> tuple[Any, ...]:
    return tuple(make(line) for line in by_kind.get(kind, ()))


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None


def _without(line: Line, *names: str) -> Line:
    return {name: value for name, value in line.items() if name not in ("kind", "at", *names)}


def _plain(kind: Callable[..., Any], line: Line, **more: Any) -> Any:
    """A fact whose fields are those of the line; of a place, a location is made."""
    facts = _without(line)
    if "place" in facts:
        facts["place"] = place_of(facts["place"])
    return kind(**facts, **more)


def _calls(line: Line) -> Calls:
    return Calls(line["wrapper"], line["step"], place_of(line["first"]), place_of(line["second"]))


def _split(line: Line) -> Split:
    return Split(tuple(line["parts"]), place_of(line["place"]))


def _crash(line: Line) -> Crash:
    own = {file for file, _, _, own in line["frames"] if own}
    near = any("init_process_group(" in _text(file) for file in own)
    return Crash(line["type"], line["text"], line["step"], frames_of(line["frames"]), near_group=near, at=line["at"])


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _group(line: Line) -> Group:
    rest = _without(line, "place", "initialised")
    return Group(place_of(line["place"]), again=line["initialised"], **rest)


def _wrap(line: Line) -> Wrap:
    rest = _without(line, "place", "devices", "device_ids")
    return Wrap(place=place_of(line["place"]), devices=tuple(line["devices"]), **rest)


def _optimizer(line: Line) -> Optimizer:
    return Optimizer(
        number=line["optimizer"],
        held={each["wrapper"]: (each["trainable"], each["held"]) for each in line["wrapped"]},
        debug=tuple(line["debug"]),
        place=place_of(line["place"]),
        backward=place_of(line["backward"]),
        **_without(line, "optimizer", "wrapped", "debug", "place", "backward"),
    )


def _step(line: Line) -> Step:
    starts = tuple((name, began, seconds) for name, began, seconds in line.get("starts", ()))
    return Step(number=line["step"], at=line["at"], starts=starts, **_without(line, "step", "starts"))


def _check(line: Line) -> Check:
    names = line["names"]
    rest = _without(line, "names", "sums", "idle")
    return Check(sums=tuple(line["sums"]), idle=tuple(line["idle"]), names=tuple(names) if names else None, **rest)


def _logger(line: Line) -> Logger:
    return Logger(given=tuple(line["given"]), place=place_of(line["place"]), **_without(line, "given", "place"))


def _losses(lines: Iterable[Line]) -> Iterator[Loss]:
    """The last line of each, which holds what the others do."""
    for line in {(tuple(line["place"]), line["made_by"]): line for line in lines}.values():
        yield Loss(line["made_by"], line["count"], tuple(line["scales"]), place_of(line["place"]))


def _reads(lines: Iterable[Line]) -> Iterator[Read]:
    """The last line of each, which holds what the others do."""
    for line in {tuple(line["place"]): line for line in lines}.values():
        early, started = line["early"] or ("", None)
        yield Read(
            numbers=tuple((step, value) for step, value in line["numbers"]),
            results=tuple(Result(*each) for each in line["results"]),
            early=early,
            started=place_of(started),
            place=place_of(line["place"]),
            **_without(line, "numbers", "results", "early", "place"),
        )


def _written(line: Line) -> Written:
    return Written(place=place_of(line["place"]), at=line["at"], **_without(line, "place"))


def _passes(lines: Iterable[Line]) -> Iterator[Pass]:
    """The last line of each pass: they repeat each other as the pass goes on."""
    lines = list(lines)
    began = {line["number"]: line["at"] for line in reversed(lines)}
    for line in {line["number"]: line for line in lines}.values():
        places = array("q")
        places.frombytes(zlib.decompress(base64.b64decode(line["places"])))
        rest = _without(line, "places", "prints", "noise", "place", "made", "told_at")
        known = bool(places) and not line["iterable"]
        yield Pass(
            places=tuple(places) if known else None,
            prints=tuple(line["prints"]),
            noise=tuple(line["noise"]),
            began=began[line["number"]],
            until=line["at"],
            made=place_of(line["made"]),
            told_at=place_of(line["told_at"]),
            place=place_of(line["place"]),
            **rest,
        )
