"""Which rank a process is that NCCL names by its node, its pid and its GPU."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpudoctor.logs.log_facts import Notice
from gpudoctor.logs.speakers import pid_tag
from gpudoctor.record import replace

_JOINED = re.compile(
    r"(?P<host>[\w-][\w.-]*):(?P<pid>\d+):\d+ \[(?P<device>\d+)\] NCCL INFO (?:.*\s)?"
    r"rank (?P<rank>\d+) nranks (?P<size>\d+)\b"
)


class NcclProcesses:
    """Keeps what NCCL has warned of until the file ends: it may tell later who a process is.

    Its GPU is the local rank where each process of a node has one of its own by number; under Ray, and wherever a
    process sees one GPU, all have number 0. A process is its node and its tag.
    """

    def __init__(self) -> None:
        self._warned: list[Notice] = []
        self._ranks: dict[tuple[str, str], tuple[int, int]] = {}
        self._users: dict[tuple[str, int], set[str]] = {}

    def learn(self, text: str) -> None:
        """A line in which a process joins a group: in the largest one its rank is that of the job."""
        if found := _JOINED.search(text):
            tag, size = pid_tag(found["pid"]), int(found["size"])
            self._uses(found["host"], int(found["device"]), tag)
            if size > self._ranks.get((found["host"], tag), (0, 0))[0]:
                self._ranks[found["host"], tag] = size, int(found["rank"])

    def hold(self, notice: Notice) -> bool:
        """Whether it is one of these, which `end` gives back."""
        by = notice.by
        if not by.host or by.rank is not None or by.local_rank is None or "NCCL WARN" not in notice.text:
            return False
        self._uses(by.host, by.local_rank, by.tag)
        self._warned.append(notice)
        return True

    def end(self) -> Iterator[Notice]:
        """All that was held, with what is known at the end."""
        for notice in self._warned:
            by = notice.by
            _, rank = self._ranks.get((by.host, by.tag), (0, None))
            shared = len(self._users[by.host, by.local_rank or 0]) > 1
            yield replace(notice, by=replace(by, rank=rank, local_rank=None if shared else by.local_rank))

    def _uses(self, host: str, device: int, tag: str) -> None:
        self._users.setdefault((host, device), set()).add(tag)
