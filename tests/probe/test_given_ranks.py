"""Ranks that batch systems start: what they set is set here, and the ranks meet for real."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from gpudoctor.probe.launcher_env import advice
from gpudoctor.ranks.loopback import free_port
from tests.support import warm
from tests.support.probe_faults import GIVEN_RANKS, Fault, variables

STAGES = ("collectives", "shards")
FIRST, SECOND = "10.99.7.1", "10.99.7.2"


def test_tasks_of_srun(repository: Path, real_ranks: None) -> None:
    port = free_port()
    step = {"SLURM_JOB_ID": "7", "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NODELIST": "localhost", "SLURM_NODEID": "0"}
    tasks = [{**step, "SLURM_PROCID": rank, "SLURM_LOCALID": rank, "MASTER_PORT": str(port)} for rank in "01"]
    document = _together(repository, *tasks)
    assert _verdicts(document) == {"ranks-start": "pass", "collectives": "pass", "shards": "pass"}
    # Two tasks on one node: it is taken stock of once.
    assert [len(document["machine"]), document["world_size"]] == [1, 2]


def test_pods_of_kubeflow(repository: Path, real_ranks: None) -> None:
    job = {"WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": str(free_port()), "PYTHONUNBUFFERED": "0"}
    document = _together(repository, *({**job, "RANK": rank} for rank in "01"))
    assert _verdicts(document) == {"ranks-start": "pass", "collectives": "pass", "shards": "pass"}
    hosts = [machine["host"] for machine in document["machine"]]
    assert [host.rpartition("#")[2] for host in hosts] == ["0", "1"]


def test_a_node_that_goes_silent_is_named(repository: Path, tmp_path: Path, real_ranks: None) -> None:
    document = _with_a_fault(repository, tmp_path, Fault.WATCHER_KILLED)
    checks = {check["name"]: check for check in document["checks"]}
    # What its watcher had not yet passed on when it was killed is not known to have happened.
    order = ("ranks-start", "device-arithmetic", *STAGES)
    failed = [name for name in order if checks[name]["verdict"] == "fail"]
    assert len(failed) == 1
    assert checks[failed[0]]["reason"].startswith("rank 1 on ")
    before, after = order[: order.index(failed[0])], order[order.index(failed[0]) + 1 :]
    assert all(checks[name]["verdict"] == "pass" for name in before)
    assert all(checks[name]["verdict"] == "inconclusive" for name in after)


def test_what_was_found_until_the_job_is_ended(repository: Path, tmp_path: Path, real_ranks: None) -> None:
    document = _with_a_fault(repository, tmp_path, Fault.LAUNCHER_ENDED)
    checks = {check["name"]: check["verdict"] for check in document["checks"]}
    assert document["interrupted"] is True
    assert (checks["device-arithmetic"], checks["collectives"]) == ("pass", "inconclusive")


def _with_a_fault(repository: Path, folder: Path, fault: Fault) -> dict[str, Any]:
    """What two pods report of which one has this fault in the middle."""
    given = {"WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": str(free_port()), GIVEN_RANKS: str(folder)}
    faulty = {**variables(fault, stage="collectives"), "GPUDOCTOR_TEST_TIMEOUT": "15"}
    command = [sys.executable, "-m", "tests.support.given_rank", "device-arithmetic", *STAGES]
    return _report(repository, [command] * 2, [{**given, **faulty, "RANK": rank} for rank in "01"])


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        ({}, False),
        ({"PET_NNODES": "2", "PET_NODE_RANK": "1", "PET_NPROC_PER_NODE": "auto"}, True),
        ({"RANK": "1", "WORLD_SIZE": "16", "MASTER_PORT": "1", "PET_NPROC_PER_NODE": "8", "PET_NNODES": "2"}, True),
        ({"PET_NNODES": "1", "PET_NODE_RANK": "0"}, False),
        ({"RANK": "1", "WORLD_SIZE": "2", "MASTER_PORT": "1", "PET_NNODES": "2", "PET_NODE_RANK": "1"}, False),
    ],
)
def test_pods_that_are_to_start_ranks_of_their_own(environment: dict[str, str], told: bool) -> None:
    assert ("torchrun -m gpudoctor probe" in advice(environment)) is told


def test_workers_of_ray_train(repository: Path, tmp_path: Path, real_ranks: None) -> None:
    pytest.importorskip("ray", reason="ray is not installed")
    report = tmp_path / "report.json"
    script = tmp_path / "train.py"
    script.write_text(
        "import subprocess, sys\n"
        "from ray.train import ScalingConfig\n"
        "from ray.train.torch import TorchTrainer\n"
        "def work():\n"
        f"    command = [sys.executable, '-m', 'tests.support.given_rank', *{STAGES!r}]\n"
        f"    ended = subprocess.run(command, cwd={str(repository)!r}, capture_output=True, text=True)\n"
        "    assert ended.returncode == 0, ended.stderr\n"
        f"    ended.stdout and open({str(report)!r}, 'w').write(ended.stdout)\n"
        "TorchTrainer(work, scaling_config=ScalingConfig(num_workers=2)).fit()\n"
    )
    full = {**os.environ, "PYTHONPATH": _path(repository), "CUDA_VISIBLE_DEVICES": ""}
    ended = subprocess.run([sys.executable, script], env=full, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr
    document = json.loads(report.read_text())
    assert _verdicts(document) == {"ranks-start": "pass", "collectives": "pass", "shards": "pass"}


@pytest.fixture
def two_networks(real_ranks: None) -> Iterator[tuple[str, str]]:
    """Two network namespaces with a cable between them."""
    if shutil.which("ip") is None or os.geteuid() != 0:
        pytest.skip("networks of their own take the command `ip`, and root")
    one, other = (f"gpudoctor-{os.getpid()}-{which}" for which in "ab")
    near, far = (f"gd{os.getpid() % 100000}{which}" for which in "ab")
    commands = [f"netns add {one}", f"netns add {other}", f"link add {near} type veth peer name {far}"]
    for network, cable, address in ((one, near, FIRST), (other, far, SECOND)):
        commands += [f"link set {cable} netns {network}", f"-n {network} addr add {address}/24 dev {cable}"]
        commands += [f"-n {network} link set {each} up" for each in ("lo", cable)]
    try:
        for command in commands:
            done = subprocess.run(["ip", *command.split()], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                pytest.skip(f"`ip {command}` is not allowed here: {done.stderr.strip()}")
        yield one, other
    finally:
        for network in (one, other):
            subprocess.run(["ip", "netns", "delete", network], capture_output=True, check=False)


def test_two_networks(repository: Path, two_networks: tuple[str, str]) -> None:
    document = _over_a_cable(repository, two_networks, given_interface=True)
    assert _verdicts(document) == {"ranks-start": "pass", "collectives": "pass", "shards": "pass"}
    assert len(document["machine"]) == 2


def test_nodes_whose_names_lead_to_themselves(repository: Path, two_networks: tuple[str, str]) -> None:
    document = _over_a_cable(repository, two_networks, given_interface=False)
    (start,) = [check for check in document["checks"] if check["name"] == "ranks-start"]
    assert start["verdict"] == "fail"
    assert "Connection refused" in start["reason"]
    assert "GLOO_SOCKET_IFNAME" in start["remedy"]


def _over_a_cable(repository: Path, networks: tuple[str, str], *, given_interface: bool) -> dict[str, Any]:
    """What two launchers report that see each other through a cable only."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1"]
    launcher += [f"--master-addr={FIRST}", "--master-port=29876", "-m", "tests.support.given_rank", *STAGES]
    commands, environments = [], []
    for node in range(len(networks)):
        commands.append([*launcher[:3], f"--node-rank={node}", *launcher[3:]])
        cable = f"gd{os.getpid() % 100000}{'ab'[node]}"
        environments.append({"GLOO_SOCKET_IFNAME": cable} if given_interface else {})
    return _report(repository, commands, environments, networks)


def _together(repository: Path, *environments: Mapping[str, str]) -> dict[str, Any]:
    """What the ranks report that are given by these variables, started side by side."""
    command = [sys.executable, "-m", "tests.support.given_rank", *STAGES]
    return _report(repository, [command] * len(environments), environments)


def _report(
    repository: Path, commands: list[list[str]], environments: Any, networks: Sequence[str] = ("", "")
) -> dict[str, Any]:
    """What the one of them reports that does."""
    kept = {**os.environ, "PYTHONPATH": _path(repository), "CUDA_VISIBLE_DEVICES": ""}
    started = [
        warm.Process(command, cwd=repository, env={**kept, **own}, network=network)
        for command, own, network in zip(commands, environments, networks, strict=True)
    ]
    return _told([process.communicate(timeout=600) for process in started])


def _told(outputs: Sequence[tuple[str, str]]) -> dict[str, Any]:
    (text,) = [out for out, _ in outputs if out] or [""]
    assert text, outputs
    found: dict[str, Any] = json.loads(text)
    return found


def _verdicts(document: Mapping[str, Any]) -> dict[str, str]:
    wanted = ("ranks-start", *STAGES)
    return {check["name"]: check["verdict"] for check in document["checks"] if check["name"] in wanted}


def _path(repository: Path) -> str:
    return os.pathsep.join([str(repository), str(repository / "rules")])
