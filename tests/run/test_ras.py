"""What NCCL's RAS service says of ranks that cannot be asked here; a stand-in answers, as its sources say it does."""

import json
import os
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from gpudoctor.ranks.process_tree import ON_LINUX
from gpudoctor.run import ras
from gpudoctor.run.hang_verdict import HangKind, verdict_of
from gpudoctor.run.ras import RasRank, ranks_apart
from gpudoctor.run.recording import Waiting

pytestmark = pytest.mark.skipif(not ON_LINUX, reason="whose port it is, is asked of Linux")

SUMMARY = """OK
ERROR: Unknown command set format json
NCCL version 2.24.3 compiled with CUDA 12.4
CUDA runtime version 12040, driver version 12040

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      2          2            1          4        4

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         2         2         4         4   RUNNING  {errors}
    1         2         1         2         2         4   RUNNING      OK

"""
BEHIND = (
    SUMMARY.format(errors="MISMATCH")
    + """Errors
======

Warnings
========

#0-0 (27a079b828ff1a75) MISMATCH
  Communicator ranks have different AllReduce operation counts
  3 ranks have launched up to operation 26
  Rank 3 has launched up to operation 25 -- GPU 1 managed by process 715 on node 172.16.64.210

#1-0 (a7a079b828ff1a75) MISMATCH
  Communicator ranks have different Broadcast operation counts
  Rank 0 has launched up to operation 9 -- GPU 0 managed by process 714 on node 172.16.64.210
  Rank 1 has not launched any operations -- GPU 1 managed by process 715 on node 172.16.64.210

"""
)
GONE = (
    SUMMARY.format(errors="INCOMPLETE")
    + """Errors
======

DEAD
  1 job process is considered dead (unreachable via the RAS network)
  Process 715 on node 172.16.64.210 managing GPU 1

#0-0 (27a079b828ff1a75) INCOMPLETE
  Missing communicator data from 2 ranks
  Rank 2 -- GPU 0 managed by process 714 on node 172.16.64.210
  Rank 3 -- GPU 1 managed by process 715 on node 172.16.64.210

"""
)


def rank_of(rank: int, calls: int, host: str = "node0") -> dict[str, Any]:
    counts = {"Broadcast": 1, "AllReduce": calls}
    return {"rank": rank, "host": host, "pid": 700 + rank, "collective_counts": counts}


def communicator(*ranks: dict[str, Any], missing: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    return {"size": len(ranks) + len(missing), "ranks": list(ranks), "missing_ranks": list(missing)}


def document(*communicators: dict[str, Any]) -> str:
    return "OK\nOK\n" + json.dumps({"nccl_version": "2.28.7", "communicators": communicators}, indent=2)


def lost(rank: int, *, dead: bool) -> dict[str, Any]:
    return {"rank": rank, "host": "node1", "pid": 700 + rank, "status": {"unresponsive": True, "considered_dead": dead}}


class StandIn:
    """Answers once, and remembers what it was asked."""

    def __init__(self, answer: str) -> None:
        self.server = socket.create_server(("localhost", 0))
        self.port = self.server.getsockname()[1]
        self.asked = b""
        self._answer = answer.encode()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        line, _ = self.server.accept()
        with line:
            while b"status\n" not in self.asked:
                self.asked += line.recv(4096)
            line.sendall(self._answer)

    def close(self) -> None:
        self.server.close()
        self._thread.join(5)


@pytest.fixture
def answering(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    stand_in = StandIn(request.param)
    monkeypatch.setattr(ras, "PORT", stand_in.port)
    yield stand_in
    stand_in.close()


FOUR = [rank_of(rank, 26) for rank in range(4)]
ANSWERS = [
    (BEHIND, (RasRank(3, "172.16.64.210", 715, "AllReduce", 25, 26),)),
    (GONE, (RasRank(2, "172.16.64.210", 714), RasRank(3, "172.16.64.210", 715, dead=True))),
    (SUMMARY.format(errors="OK"), ()),
    (
        document(communicator(*FOUR[:3], rank_of(3, 25, "node1")), communicator(rank_of(0, 7), rank_of(1, 0))),
        (RasRank(3, "node1", 703, "AllReduce", 25, 26),),
    ),
    (document(communicator(*FOUR)), ()),
    (
        document(communicator(*FOUR[:2], missing=(lost(2, dead=False), lost(3, dead=True)))),
        (RasRank(2, "node1", 702), RasRank(3, "node1", 703, dead=True)),
    ),
    ("OK\nOK\n{ cut off", ()),
]


@pytest.mark.parametrize(("answering", "ranks"), ANSWERS, indirect=["answering"])
def test_who_is_not_where_the_others_are(answering: StandIn, ranks: tuple[RasRank, ...]) -> None:
    assert ranks_apart([(os.getpid(), {})]) == ranks
    assert answering.asked == b"timeout 2\nset format json\nverbose status\n"


@pytest.mark.parametrize("answering", [BEHIND], indirect=True)
def test_the_service_of_another_job_is_not_asked(answering: StandIn) -> None:
    assert ranks_apart([(os.getppid(), {})]) == ()
    assert not answering.asked
    with socket.create_connection(("localhost", answering.port)) as line:
        line.sendall(b"status\n")


def test_without_a_service_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("localhost", 0)) as taken:
        monkeypatch.setattr(ras, "PORT", taken.getsockname()[1])
    assert ranks_apart([(os.getpid(), {})]) == ()


def test_a_service_that_says_nothing_keeps_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ras, "_PATIENCE", 0.2)
    with socket.create_server(("localhost", 0)) as mute:
        monkeypatch.setattr(ras, "PORT", mute.getsockname()[1])
        assert ranks_apart([(os.getpid(), {})]) == ()


@pytest.mark.parametrize(
    ("rank", "silence", "kind"),
    [
        (RasRank(9, "node1", 7, "AllReduce", 3, 4), "", HangKind.RANK_MISSING),
        (RasRank(9, "node1", 7), "cannot be reached", HangKind.RANK_MISSING),
        (RasRank(9, dead=True), "has ended", HangKind.RANK_ENDED),
    ],
)
def test_what_it_says_decides_which_kind_of_hang_it_is(rank: RasRank, silence: str, kind: HangKind) -> None:
    told = Waiting(rank.rank, None, "", None, (), silence=silence, told=rank.in_words)
    verdict = verdict_of([Waiting(0, None, "", None, (), waits=True), told])
    assert (verdict.kind, verdict.ranks) == (kind, (9,))
