"""Files that the program writes: by `torch.save`, and those that its own code opens."""

from __future__ import annotations

import os
import sys
from typing import Any

import torch

from gpudoctor.run.instruments.fingerprints import tensors_in
from gpudoctor.run.instruments.state import Span, State
from gpudoctor.run.places import called_by_own
from gpudoctor.run.stand_ins import standing_for

_MOST_PATHS = 500
_FETCHES = ("urllib.Request", "http.client.send", "fcntl.flock", "fcntl.lockf")
"""What Python tells of downloads, and of locks that keep ranks from doing them at once."""
_MOST_FETCHES = 500
_SPECIAL, _IN_MEMORY = ("/dev/", "/proc/", "/sys/"), "/dev/shm/"
"""Folders in which nothing is kept, and one in them whose files are files."""


def watch(state: State) -> None:
    """Write a line for each checkpoint, and for each file that the user's own code opens for writing."""
    save = torch.save
    told = state.recorder.guarded(_tell)

    @standing_for(save)
    def watched(obj: Any, f: Any, *args: Any, **keywords: Any) -> None:
        told(state, obj, f)
        with Span(state, "save"):
            save(obj, f, *args, **keywords)

    torch.save = watched
    torch.serialization.save = watched
    opened = state.recorder.guarded(_OpenedFiles(state).note)
    fetched = state.recorder.guarded(_Fetched(state).note)

    def audit(event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            opened(*args)
        elif event in _FETCHES:
            fetched(event)

    sys.addaudithook(audit)


def _tell(state: State, obj: Any, file: Any) -> None:
    target = getattr(file, "name", None) if hasattr(file, "write") else file
    if isinstance(target, (str, os.PathLike)):
        path = os.path.realpath(os.fspath(target))
        state.write(
            "save",
            path=path,
            step=state.steps,
            shards=sum(_is_part(each) for each in tensors_in(obj)),
            exchanges=state.exchanges,
            place=state.recorder.place(),
            own=called_by_own(),
        )


class _OpenedFiles:
    def __init__(self, state: State) -> None:
        self._state = state
        self._seen: set[str] = set()

    def note(self, path: Any, mode: Any, flags: int) -> None:
        if not isinstance(path, (str, bytes)) or not isinstance(mode, str) or mode[:1] not in "wxa":
            return
        name = os.path.realpath(os.fsdecode(path))
        special = name.startswith(_SPECIAL) and not name.startswith(_IN_MEMORY)
        if name in self._seen or len(self._seen) >= _MOST_PATHS or special:
            return
        place = self._state.recorder.place()
        # Also where it is none of the user's: the next opening must not search the stack again.
        self._seen.add(name)
        if place is not None:
            self._state.write("open", path=name, mode=mode, step=self._state.steps, place=place)


class _Fetched:
    def __init__(self, state: State) -> None:
        self._state = state
        self._seen: set[Any] = set()
        self._left = _MOST_FETCHES

    def note(self, event: str) -> None:
        # A logger that talks to its server all the time must not cost anything.
        self._left -= 1
        place = self._state.recorder.place() if self._left >= 0 else None
        if place is not None and (event, *place) not in self._seen:
            self._seen.add((event, *place))
            self._state.write("fetch", locks=event.startswith("fcntl"), place=place)


def _is_part(tensor: torch.Tensor) -> bool:
    """A shard: other ranks have the rest of it."""
    return any(each.is_shard() for each in getattr(tensor, "placements", ()))
