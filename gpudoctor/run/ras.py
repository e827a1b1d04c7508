"""NCCL's RAS service, which each process has from NCCL 2.24 on: it knows of the ranks on other nodes, too.

It is asked through the port of one of our own ranks only: another job may have the port on this node. From 2.28.7 on
it answers in JSON, before that in a text for people.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gpudoctor.ranks.process_tree import PROC
from gpudoctor.record import dataclass
from gpudoctor.run.protocol import ASKED_BY

PORT = 28028
"""Where the service listens, if NCCL_RAS_ADDR does not say otherwise."""
_ADDRESS, _WORLD = ASKED_BY
_GATHER = 2
"""Seconds that the service may take to hear of the others."""
_PATIENCE = 3.0
_LARGEST = 16 << 20
_LISTENS = "0A"
"""The state of a socket that waits for connections, as the kernel writes it."""


@dataclass(frozen=True)
class RasRank:
    """A rank that is not where the others are: it has called a collective less often than they have, or does not
    answer. `rank` is that in the largest communicator; `host` and `pid` are empty where they are not known."""

    rank: int
    host: str = ""
    pid: int | None = None
    operation: str = ""
    calls: int = 0
    most: int = 0
    dead: bool = False

    @property
    def in_words(self) -> str:
        """What the service says of it, without its name."""
        host = f", on {self.host}" if self.host else ""
        process = f" (process {self.pid})" if self.pid is not None else ""
        if self.operation:
            return f"has called {self.operation} {self.calls} times, others {self.most} times{host}{process}"
        return f"{'is gone' if self.dead else 'cannot be reached'}, as NCCL says{host}{process}"


def ranks_apart(processes: Iterable[tuple[int, Mapping[str, str]]]) -> tuple[RasRank, ...]:
    """What the service of one of these processes says; empty where none of them has one, or all ranks are alike. With
    each come variables that it has set itself: the kernel knows only those that it was started with."""
    for pid, own in processes:
        variables = {**dict(_environment(pid)), **own}
        port = _number(variables.get(_ADDRESS, "").rpartition(":")[2]) or PORT
        if _listens(pid, port):
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
                return read(ask(port), _number(variables.get(_WORLD, "")))
    return ()


def _environment(pid: int) -> Iterator[tuple[str, str]]:
    with contextlib.suppress(OSError):
        for variable in (PROC / str(pid) / "environ").read_bytes().decode("utf-8", "replace").split("\0"):
            name, _, value = variable.partition("=")
            yield name, value


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def _listens(pid: int, port: int) -> bool:
    """The process itself has this port of the machine."""
    sockets = {f"socket:[{inode}]" for table in ("tcp", "tcp6") for inode in _listening(PROC / "net" / table, port)}
    if not sockets:
        return False
    with contextlib.suppress(OSError):
        return any(_link(entry) in sockets for entry in (PROC / str(pid) / "fd").iterdir())
    return False


def _listening(table: Path, port: int) -> Iterator[str]:
    with contextlib.suppress(OSError):
        for line in table.read_text(encoding="ascii").splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTENS and int(fields[1].rpartition(":")[2], 16) == port:
                yield fields[9]


def _link(entry: Path) -> str:
    with contextlib.suppress(OSError):
        return os.readlink(entry)
    return ""


def ask(port: int) -> str:
    """The answer to a question for the state of all ranks.

    Raises:
        OSError: Nobody listens, or nothing comes.
    """
    with socket.create_connection(("localhost", port), timeout=_PATIENCE) as line:
        line.sendall(f"timeout {_GATHER}\nset format json\nverbose status\n".encode())
        answer, deadline = bytearray(), time.monotonic() + _PATIENCE
        while len(answer) < _LARGEST and time.monotonic() < deadline and (part := line.recv(1 << 16)):
            answer += part
    return answer.decode("utf-8", "replace")


def read(answer: str, world: int | None) -> tuple[RasRank, ...]:
    """What an answer says of the communicator of all ranks, the largest where `world` is not known: in others they have
    other numbers.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: It is no answer as it is known.
    """
    begin = answer.find("{")
    found = _of_json(json.loads(answer[begin:]), world) if begin >= 0 else _of_text(answer, world)
    return tuple(sorted({each.rank: each for each in found}.values(), key=lambda each: each.rank))


def _of_json(answer: Mapping[str, Any], world: int | None) -> Iterator[RasRank]:
    communicators = answer["communicators"]
    size = world or max((each["size"] for each in communicators), default=0)
    for each in communicators:
        if each["size"] == size:
            yield from _behind(each["ranks"])
            for rank in each["missing_ranks"]:
                dead = bool(rank["status"].get("considered_dead"))
                yield RasRank(rank["rank"], rank["host"], rank["pid"], dead=dead)


def _behind(ranks: Sequence[Mapping[str, Any]]) -> Iterator[RasRank]:
    for operation in ranks[0]["collective_counts"] if ranks else ():
        calls = {each["rank"]: each["collective_counts"].get(operation, 0) for each in ranks}
        most = max(calls.values())
        for each in ranks:
            if calls[each["rank"]] < most:
                yield RasRank(each["rank"], each["host"], each["pid"], operation, calls[each["rank"]], most)


_GROUP = re.compile(r"\s*(?P<group>\d+)\s+\d+\s+\d+\s+[\d-]+\s+(?P<size>\d+)\s+\d+\s+[A-Z]+\s+[A-Z]+\s*$")
"""Communicators of one size and state: their number, how many, nodes, ranks per node, and ranks per communicator."""
_KIND = re.compile(r"#(?P<group>\d+)-\d+ \([0-9a-f]+\) (?P<kind>[A-Z]+)")
_DIFFERENT = re.compile(r"\s+Communicator ranks have different (?P<operation>\w+) operation counts")
_SEVERAL = re.compile(r"\s+\d+ ranks have (?:launched up to operation (?P<calls>\d+)|not launched any operations)")
_ONE = re.compile(
    r"\s+Rank (?P<rank>\d+)(?: has (?:launched up to operation (?P<calls>\d+)|(?P<none>not launched any operations)))? "
    r"-- (?:GPU .* managed by process (?P<pid>\d+) on node (?P<host>\S+))?"
)
_DEAD = re.compile(r"\s+Process (?P<pid>\d+) on node (?P<host>\S+) managing GPU")


def _of_text(answer: str, world: int | None) -> Iterator[RasRank]:
    dead: set[tuple[str, str]] = set()
    sizes: dict[str, int] = {}
    kind, operation, calls = "", "", 0
    counted: dict[str, list[RasRank]] = {}
    most: dict[str, int] = {}
    for line in answer.splitlines():
        if line.startswith("DEAD"):
            kind = "DEAD"
        elif found := _GROUP.match(line):
            sizes[found["group"]] = int(found["size"])
        elif found := _KIND.match(line):
            whole = sizes.get(found["group"]) == (world or max(sizes.values(), default=0))
            kind, operation = found["kind"] if whole else "", ""
        elif kind == "MISMATCH" and (found := _DIFFERENT.match(line)):
            operation = found["operation"]
        elif kind == "DEAD" and (found := _DEAD.match(line)):
            dead.add((found["pid"], found["host"]))
        elif found := _SEVERAL.match(line):
            calls = int(found["calls"] or 0)
            most[operation] = max(calls, most.get(operation, 0))
        elif found := _ONE.match(line):
            pid = int(found["pid"]) if found["pid"] else None
            rank, host = int(found["rank"]), found["host"] or ""
            if kind == "INCOMPLETE":
                yield RasRank(rank, host, pid, dead=(found["pid"], host) in dead)
            elif operation:
                own = 0 if found["none"] else int(found["calls"] or calls)
                most[operation] = max(own, most.get(operation, 0))
                counted.setdefault(operation, []).append(RasRank(rank, host, pid, operation, own))
    for name, ranks in counted.items():
        for each in ranks:
            if each.calls < most[name]:
                yield RasRank(each.rank, each.host, each.pid, name, each.calls, most[name])
