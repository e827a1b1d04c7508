"""Ranks that a launcher has started: who they are, and where their node writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpudoctor.run.external_rank import Given, file_of_node, given_rank

if TYPE_CHECKING:
    from pathlib import Path


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


def test_each_node_has_a_file_of_its_own(tmp_path: Path) -> None:
    path = str(tmp_path / "report.json")
    assert file_of_node(path, 0) == path
    assert file_of_node(path, 2) == str(tmp_path / "report.node2.json")
    # What is no file is not one that others would overwrite.
    assert file_of_node("/dev/null", 1) == "/dev/null"
