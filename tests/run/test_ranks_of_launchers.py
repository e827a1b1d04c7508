"""Ranks that a launcher has started: who they are, and where their node writes."""

import sys
from pathlib import Path

import pytest

from gpudoctor.ranks.loopback import free_port
from gpudoctor.run.external_rank import Given, file_of_node, given_rank, node_told
from tests.support.installs import require_torch
from tests.support.watching import watch


@pytest.mark.parametrize(
    ("environment", "given"),
    [
        (
            {"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "WORLD_SIZE": "4", "GROUP_RANK": "1"},
            Given("torchrun", 1, 2, node=1),
        ),
        (
            {"SLURM_LOCALID": "0", "SLURM_NTASKS_PER_NODE": "2", "SLURM_NTASKS": "4", "SLURM_NODEID": "1"},
            Given("srun", 0, 2, node=1),
        ),
        ({"SLURM_LOCALID": "0", "SLURM_NTASKS": "2"}, Given("srun", 0, 2)),
        ({"LOCAL_RANK": "0", "WORLD_SIZE": "1"}, None),
        ({}, None),
    ],
)
def test_the_rank_that_the_environment_makes(environment: dict[str, str], given: Given | None) -> None:
    assert given_rank(environment) == given


@pytest.mark.parametrize(
    ("command", "environment", "node"),
    [
        (["torchrun", "--nnodes", "2", "--node_rank", "1", "train.py"], {}, 1),
        (["torchrun", "--node-rank=2", "train.py"], {"NODE_RANK": "1"}, 2),
        (["accelerate", "launch", "--machine_rank", "1", "train.py"], {}, 1),
        (["torchrun", "train.py"], {"PET_NODE_RANK": "3", "NODE_RANK": "1"}, 3),
        (["torchrun", "train.py"], {"SLURM_NODEID": "1"}, 1),
        (["torchrun", "train.py", "--node-rank"], {}, 0),
        (["torchrun", "train.py"], {}, 0),
    ],
)
def test_the_node_that_a_launcher_is_told(command: list[str], environment: dict[str, str], node: int) -> None:
    assert node_told(command, environment) == node


def test_a_node_whose_ranks_come_to_nothing_has_its_own_file(tmp_path: Path) -> None:
    """The first node is not there: the launcher of the second has no ranks, and the file of the first is left alone."""
    require_torch()
    first = tmp_path / "report.json"
    first.write_text('{"of": "the first"}')
    (tmp_path / "train.py").write_text("")
    port = f"--master-port={free_port()}"
    nodes = ["--nnodes=2", "--node-rank=1", "--nproc-per-node=1", "--master-addr=localhost", port]
    conf = "--rdzv-conf=read_timeout=2,timeout=2,join_timeout=2"
    launcher = [sys.executable, "-m", "torch.distributed.run", *nodes, conf, "train.py"]
    watch(tmp_path, "--no-lint", "--", *launcher, cold=True)
    assert first.read_text() == '{"of": "the first"}'
    assert (tmp_path / "report.node1.json").exists()


def test_each_node_has_a_file_of_its_own(tmp_path: Path) -> None:
    path = str(tmp_path / "report.json")
    assert file_of_node(path, 0) == path
    assert file_of_node(path, 2) == str(tmp_path / "report.node2.json")
    # What is no file is not one that others would overwrite.
    assert file_of_node("/dev/null", 1) == "/dev/null"
