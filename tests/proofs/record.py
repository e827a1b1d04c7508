"""What the ranks of one proof did, as plain data for the claims."""

import json
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from gpudoctor.record import replace
from gpudoctor.run import recording_reader
from gpudoctor.run.recording import Recording

Line = dict
RECORDING = "recording"
"""The folder in which the instruments of `gpudoctor run` write."""
HANG = "hang.pickle"
"""Where the ranks were when they stood still, as `gpudoctor run` would say."""


@dataclass(frozen=True)
class Pass:
    """One pass over a loader: what was handed out, and whether a backward happened between its batches."""

    about: Line
    rows: tuple[str, ...]
    index: tuple[object, ...]
    batches: int
    trains: bool


@dataclass(frozen=True)
class Rank:
    """One process of the program under test."""

    rank: int
    lines: tuple[Line, ...]
    stdout: str = ""
    stderr: str = ""
    ending: str = "exited"
    status: int = 0

    def of(self, *kinds: str) -> Iterator[Line]:
        return (line for line in self.lines if line["kind"] in kinds)

    @cached_property
    def passes(self) -> tuple[Pass, ...]:
        """The passes over loaders, in the order in which they began."""
        return tuple(self._pass(line) for line in self.of("pass"))

    @property
    def training_passes(self) -> tuple[Pass, ...]:
        """Those that train; all of them where none does."""
        return tuple(each for each in self.passes if each.trains) or self.passes

    def _pass(self, about: Line) -> Pass:
        places = [
            i for i, line in enumerate(self.lines) if line["kind"] == "batch" and line["number"] == about["number"]
        ]
        if not places:
            return Pass(about, (), (), 0, trains=False)
        batches = [self.lines[i] for i in places]
        # The step of the last batch comes after it, so look as far as the next batch of any loader.
        end = next(
            (i for i in range(places[-1] + 1, len(self.lines)) if self.lines[i]["kind"] in ("batch", "pass")), None
        )
        between = self.lines[places[0] : end]
        return Pass(
            about=about,
            rows=tuple(row for line in batches for row in line["rows"]),
            index=tuple(place for line in batches for place in line["index"] or ()),
            batches=len(batches),
            trains=any(line["kind"] == "backward" for line in between),
        )


@dataclass(frozen=True)
class Run:
    """One execution of a program: its ranks, and the launcher where it has one."""

    ranks: tuple[Rank, ...]
    launcher: Rank | None = None
    seconds: float = 0.0
    recording: Recording | None = None
    """What `gpudoctor run` would have seen."""

    @property
    def processes(self) -> tuple[Rank, ...]:
        return self.ranks if self.launcher is None else (*self.ranks, self.launcher)

    @property
    def ended_well(self) -> bool:
        return all(each.ending == "exited" and each.status == 0 for each in self.processes)

    def name(self, process: Rank) -> str:
        return "launcher" if process is self.launcher else f"rank {process.rank}"

    @property
    def stderr(self) -> str:
        return "\n".join(process.stderr for process in self.processes)


def read(folder: Path, outcome: list[Line], seconds: float) -> Run:
    """Put together what the processes of a proof left in `folder`."""
    ranks, launcher = [], None
    for path in sorted(folder.glob("journal-*.jsonl")):
        lines = tuple(_whole_lines(path))
        if not lines:
            # It was killed before it had written who it is.
            continue
        identity = lines[0]
        if len(lines) == 1 and identity["forked"]:
            continue
        rank = Rank(
            rank=next((line["rank"] for line in lines if "rank" in line), identity["number"]),
            lines=lines,
            stdout=_text(folder / f"{identity['output']}.out"),
            stderr=_text(folder / f"{identity['output']}.err"),
            **_ending(lines, outcome),
        )
        if identity["role"] == "launcher" and not identity["forked"]:
            launcher = rank
        else:
            ranks.append(rank)
    if not ranks and launcher is not None:
        ranks, launcher = [launcher], None
    return Run(tuple(sorted(ranks, key=lambda rank: rank.rank)), launcher, seconds, _recording(folder, seconds))


def _recording(folder: Path, seconds: float) -> Recording:
    hang = folder / HANG
    recording = recording_reader.read(folder / RECORDING, status=None, seconds=seconds)
    return replace(recording, hang=pickle.loads(hang.read_bytes())) if hang.exists() else recording


def _ending(lines: tuple[Line, ...], outcome: list[Line]) -> Line:
    """The guardian knows how its own children ended; the children of a launcher have written it themselves."""
    identity = lines[0]
    if identity["forked"]:
        return {}
    if identity["role"] != "spawned":
        return outcome[identity["number"]]
    if lines[-1]["kind"] == "exit":
        return {"ending": "exited", "status": lines[-1]["status"]}
    return {"ending": "killed", "status": -9}


def _whole_lines(path: Path) -> Iterator[Line]:
    for text in path.read_text().splitlines():
        # The last line of a killed process may be cut off.
        if text.endswith("}"):
            yield json.loads(text)


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""
