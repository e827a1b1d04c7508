"""What the ranks have written about themselves, read while they write it: where each stands, and what it found out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpudoctor.record import dataclass, field

LOST = "lost"
"""The process of a rank of which nothing is heard any more, not even by who watched it."""


@dataclass
class RankState:
    """One rank as its lines tell. Plain data, so that it can travel to another node as JSON."""

    rank: int
    pid: int = 0
    host: str = ""
    stage: str = ""
    """The stage that it is in, or was in last."""
    began: float = 0.0
    """When it entered that stage (`time.time()`)."""
    inside: bool = False
    marks: int = 0
    """How far it has come in this stage."""
    mark: str = ""
    """What it was about to do when it last spoke."""
    done: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The facts of the stages that it has come through."""
    error: dict[str, str] = field(default_factory=dict)
    """kind, message and traceback of what it raised, with the stage; empty where it raised nothing."""
    error_at: float = 0.0
    over: bool = False
    """It has come to its end by itself."""
    process: str = "unknown"
    """running, stopped, gone, lost, or unknown."""
    exit_code: int | None = None
    stack: str = ""
    """Where it stood when it was asked, as faulthandler writes it."""
    output: str = ""
    """The last lines of its standard error."""

    @property
    def progress(self) -> tuple[int, bool, int]:
        """Grows with the way that the rank has come: who has the least is behind."""
        return len(self.done), self.inside, self.marks


class Journal:
    """Follows the files of some ranks in a folder."""

    def __init__(self, folder: Path, ranks: tuple[int, ...]) -> None:
        self.states = {rank: RankState(rank) for rank in ranks}
        self._paths = {rank: folder / f"rank{rank}.jsonl" for rank in ranks}
        self._read = dict.fromkeys(ranks, 0)

    def read(self) -> Mapping[int, RankState]:
        """Take in what is new, and say where everybody stands."""
        for rank, path in self._paths.items():
            for line in self._new_lines(rank, path):
                _take_in(self.states[rank], json.loads(line))
        return self.states

    def _new_lines(self, rank: int, path: Path) -> list[bytes]:
        try:
            with path.open("rb") as file:
                file.seek(self._read[rank])
                text = file.read()
        except OSError:
            return []
        # The last line may be in the middle of being written.
        whole = text[: text.rfind(b"\n") + 1]
        self._read[rank] += len(whole)
        return whole.splitlines()


def _take_in(state: RankState, entry: dict[str, Any]) -> None:
    match entry["event"]:
        case "alive":
            state.pid, state.host = entry["pid"], entry["host"]
        case "begin":
            state.stage, state.began, state.inside = entry["stage"], entry["at"], True
            state.marks, state.mark = 0, ""
        case "mark":
            state.marks, state.mark = state.marks + 1, entry["text"]
        case "end":
            state.done[entry["stage"]] = entry["facts"]
            state.inside = False
        case "error":
            state.error = {name: entry[name] for name in ("stage", "kind", "message", "traceback")}
            state.error_at, state.inside = entry["at"], False
        case "finished" | "left":
            state.over = True
