"""Which rank a process is that Ray names by its pid, and by the address of its node where that is another one."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpudoctor.logs.log_facts import LogFact, LoggedCrash, Notice
from gpudoctor.logs.speakers import Speaker, pid_tag
from gpudoctor.record import replace

LEARNED_FROM = r"Setting up process group for: |pid=\d+\) (?:world_)?rank=\d"
_LISTED = re.compile(r"ip=(?P<host>[\w.:]+), pid=(?P<pid>\d+)\) (?:world_)?rank=(?P<rank>\d+)")
"""Ray Train's list of its workers; their own lines say it in versions that have none."""
_JOINS = re.compile(r"Setting up process group for: \S+ \[rank=(?P<rank>\d+), ")
_ENDED = re.compile(r"(?:Worker IP address: (?P<host>[\d.]+) .*)?Worker PID: (?P<pid>\d+)")
_ACTOR = re.compile(
    r"^\s*pid: (?P<pid>\d+)\s+namespace: \S*\s+ip: (?P<host>[\d.]+)\s(?:.*\n)*?.*(?P<how>Worker exit type: .*)", re.M
)
"""How it ended, in the error of whoever had called it."""
_NO_HOST = (None, "0.0.0.0", "127.0.0.1")
_PID = re.compile(r"\bpid=(?P<pid>\d+)$")


class RayWorkers:
    """Those that one log has told of."""

    def __init__(self) -> None:
        self._ranks: dict[str, dict[str, int]] = {}

    def learn(self, by: Speaker, text: str) -> None:
        """A line that may tell the rank of a worker, be it that of who says it."""
        if listed := _LISTED.search(text):
            self._ranks.setdefault(listed["pid"], {})[listed["host"]] = int(listed["rank"])
        elif (joins := _JOINS.search(text)) and (own := _PID.search(by.tag)):
            self._ranks.setdefault(own["pid"], {})[by.host] = int(joins["rank"])

    def told_of(self, by: Speaker, text: str) -> Speaker:
        """Whom a line is about, which Ray says of a worker that has ended."""
        ended = _ENDED.search(text)
        if ended is None or by.is_known:
            return by
        return self._worker(by, ended)

    def ends_in(self, told: LogFact) -> Iterator[LogFact]:
        """A fact, and before it the end of the rank that its process lost, where it says how that was."""
        crash = told if isinstance(told, LoggedCrash) and self._ranks else None
        while crash is not None:
            actor = _ACTOR.search(crash.text) if "Worker exit type" in crash.text else None
            if actor is not None and (worker := self._worker(crash.by, actor)).rank is not None:
                yield Notice(worker, crash.at, actor["how"])
                break
            crash = crash.raised_first
        yield told

    def _worker(self, by: Speaker, ended: re.Match[str]) -> Speaker:
        host = ended["host"] if ended["host"] not in _NO_HOST else by.host
        return self.named(replace(by, tag=pid_tag(ended["pid"]), host=host))

    def named(self, by: Speaker) -> Speaker:
        """The same process, with its rank where it is one of these."""
        if not self._ranks or by.rank is not None or (own := _PID.search(by.tag)) is None:
            return by
        of = self._ranks.get(own["pid"], {})
        # No address stands in front of the lines of the node that collects them.
        rank = of.get(by.host, next(iter(of.values())) if len(of) == 1 and "" in (by.host, *of) else None)
        return by if rank is None else replace(by, rank=rank)
