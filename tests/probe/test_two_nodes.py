"""Two launchers on this machine stand in for two nodes: given ranks are used, and the report tells the nodes apart."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from gpudoctor.ranks.loopback import free_port
from tests.support import warm
from tests.support.probe_faults import Fault, variables

pytestmark = pytest.mark.usefixtures("real_ranks")


def test_two_nodes_report_together(repository: Path) -> None:
    first, second = _nodes(repository, "gpudoctor", "probe", "--workload", "linear", "--output-format", "json")
    document = json.loads(first.stdout or second.stdout)
    assert sorted([bool(first.stdout), bool(second.stdout)]) == [False, True]
    hosts = [machine["host"] for machine in document["machine"]]
    assert len(set(hosts)) == 2
    assert all(host.endswith(("#0", "#1")) for host in hosts)
    verdicts = {check["name"]: check["verdict"] for check in document["checks"]}
    assert verdicts["ranks-start"] == verdicts["collectives"] == verdicts["checkpoint"] == "pass"
    (start,) = [check for check in document["checks"] if check["name"] == "ranks-start"]
    assert start["reason"] == "2 ranks on 2 nodes are connected over gloo"
    assert document["world_size"] == 2


def test_a_rank_that_dies_on_another_node_is_named(repository: Path) -> None:
    faulty = variables(Fault.KILLED, stage="collectives")
    first, second = _nodes(repository, "tests.support.given_rank", "collectives", "shards", **faulty)
    checks = _checks(first.stdout or second.stdout)
    assert checks["collectives"]["verdict"] == "fail"
    assert "rank 1 on " in checks["collectives"]["reason"]
    assert "was killed (SIGKILL)" in checks["collectives"]["reason"]
    # The others went on with new workers.
    assert checks["shards"]["verdict"] == "pass"


def test_a_rank_that_hangs_on_another_node_is_named(repository: Path) -> None:
    faulty = {**variables(Fault.HANGS, stage="collectives"), "GPUDOCTOR_TEST_TIMEOUT": "15"}
    first, second = _nodes(repository, "tests.support.given_rank", "collectives", **faulty)
    check = _checks(first.stdout or second.stdout)["collectives"]
    assert check["verdict"] == "fail"
    assert "rank 1 on " in check["reason"]
    assert "hangs at: all_reduce of 1 float32 (probe_faults.py:" in check["reason"]


def test_a_worker_that_cannot_start_is_named(repository: Path) -> None:
    first, second = _nodes(repository, "tests.support.given_rank", "collectives", GPUDOCTOR_TEST_FAULT="no such fault")
    start = _checks(first.stdout or second.stdout)["ranks-start"]
    assert start["verdict"] == "fail"
    assert "ended before it could take part: KeyError" in start["reason"]


def test_an_address_where_nobody_answers(repository: Path) -> None:
    ended = _alone(repository, "127.0.0.1")
    assert ended.returncode == 2
    assert "no store of torch answers there" in ended.stderr


def test_a_name_without_an_address_is_told_in_the_time_asked_for(repository: Path) -> None:
    began = time.monotonic()
    ended = _alone(repository, "no-such-node.invalid", "--timeout", "2", starting=90.0)
    assert ended.returncode == 2
    assert "that name stands for no address here: `getent hosts no-such-node.invalid`" in ended.stderr
    assert time.monotonic() - began < 45.0


def test_a_rank_that_never_comes_is_told_in_the_time_asked_for(repository: Path) -> None:
    began = time.monotonic()
    ended = _alone(repository, "127.0.0.1", "--timeout", "3", "--output-format", "json", starting=90.0, rank=0)
    assert "rank 1 never started, and the others waited 3 s for it" in _checks(ended.stdout)["ranks-start"]["reason"]
    assert time.monotonic() - began < 45.0


def _alone(
    repository: Path, address: str, *options: str, starting: float = 1.0, rank: int = 1
) -> "subprocess.CompletedProcess[str]":
    given = {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": address}
    path = os.pathsep.join([str(repository), str(repository / "rules")])
    code = f"import gpudoctor.probe.stages as stages; stages.START_SECONDS = {starting}; "
    return warm.run(
        ["-c", f"{code}from gpudoctor.cli import main; raise SystemExit(main(['probe', *{options!r}]))"],
        env={**os.environ, "PYTHONPATH": path, **given, "MASTER_PORT": str(free_port())},
    )


def _checks(text: str) -> dict[str, dict[str, Any]]:
    return {check["name"]: check for check in json.loads(text)["checks"]}


def _nodes(repository: Path, *command: str, **environment: str) -> tuple[subprocess.CompletedProcess[str], ...]:
    """Run a module under two launchers that find each other on a port of this machine."""
    port = free_port()
    launcher = ["torch.distributed.run", "--nnodes=2", "--nproc-per-node=1", "--monitor-interval=0.1"]
    launcher += ["--master-addr=127.0.0.1", f"--master-port={port}"]
    path = os.pathsep.join([str(repository), str(repository / "rules")])
    full = {**os.environ, "PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": "", **environment}
    started = [
        warm.Process([sys.executable, "-m", *launcher, f"--node-rank={node}", "-m", *command], cwd=repository, env=full)
        for node in range(2)
    ]
    outputs = [process.communicate(timeout=600) for process in started]
    return tuple(
        subprocess.CompletedProcess(process.args, process.wait(0), *output)
        for process, output in zip(started, outputs, strict=True)
    )
