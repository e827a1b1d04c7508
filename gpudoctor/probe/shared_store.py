"""What all processes of a probe can read and write, on whichever node: keys with JSON, in a store of torch.

It lies next to the launcher's, and asks for no collective, so that it works where training does not.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import socket
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from gpudoctor.errors import UsageError
from gpudoctor.plain import plain
from gpudoctor.probe.launcher_env import AssignedRank
from gpudoctor.probe.stages import START_SECONDS

LOOK_EVERY = 0.2
_AGAIN = 1.0
"""Seconds between two questions for a name."""
_Answer = TypeVar("_Answer")


class Board:
    """The store, for a process that was given this place. Others may take `patience` seconds to come."""

    def __init__(self, place: AssignedRank, timeout: float | None = None) -> None:
        import torch.distributed as dist

        self.patience = timeout or START_SECONDS
        where = f"{place.by} said that the ranks meet at {place.address}:{place.port}"
        if not _resolves(place.address, self.patience):
            raise UsageError(f"{where}, and that name stands for no address here: `getent hosts {place.address}`")
        store = _within(self.patience, lambda: _store(place, self.patience))
        if store is None:
            raise UsageError(
                f"{where}, and no store of torch answers there: is MASTER_ADDR the first node, MASTER_PORT free "
                "(`ss -ltnp`), and no firewall in between?"
            )
        self._store = dist.PrefixStore("gpudoctor", store)

    def put(self, key: str, value: Any) -> None:
        """Write; a store whose host has gone is of no use to anybody any more."""
        with contextlib.suppress(RuntimeError):
            self._store.set(key, json.dumps(plain(value)).encode())

    def has(self, key: str) -> bool:
        """Whether it is written, or nothing will be any more."""
        try:
            return bool(self._store.check([key]))
        except RuntimeError:
            return True

    def get(self, key: str, within: float) -> Any:
        """What is written there, None where it is not within that many seconds."""
        until = time.monotonic() + within
        while not self.has(key):
            if time.monotonic() > until:
                return None
            time.sleep(LOOK_EVERY)
        try:
            return json.loads(self._store.get(key))
        except RuntimeError:
            return None


def _resolves(name: str, seconds: float) -> bool:
    """Whether a name gets an address in time: others may be about to give it one."""
    until = time.monotonic() + seconds
    while not _within(until - time.monotonic(), lambda: socket.getaddrinfo(name, None)):
        if time.monotonic() + _AGAIN > until:
            return False
        time.sleep(_AGAIN)
    return True


def _within(seconds: float, ask: Callable[[], _Answer]) -> _Answer | None:
    """What it gives, None where it raises or takes longer: native code that waits cannot be told for how long."""
    answers: list[_Answer] = []

    def asking() -> None:
        with contextlib.suppress(RuntimeError, OSError):
            answers.append(ask())

    thread = threading.Thread(target=asking, daemon=True)
    thread.start()
    thread.join(max(0.0, seconds))
    return answers[0] if answers else None


def _store(place: AssignedRank, seconds: float) -> Any:
    """The launcher's store where there is one; else the first rank opens one at the address that all were given."""
    import torch.distributed as dist

    patience = datetime.timedelta(seconds=seconds)
    if place.rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        with contextlib.suppress(RuntimeError):
            return dist.TCPStore(place.address, place.port, is_master=True, wait_for_workers=False, timeout=patience)
    # Where the port is taken, Ray listens on it already, and keeps such a store.
    return dist.TCPStore(place.address, place.port, is_master=False, timeout=patience)
