"""Who has started this process, from the environment that launchers really set."""

import pytest

from gpudoctor.probe.join import world_of
from gpudoctor.probe.launcher_env import AssignedRank, first_host, place_given

MEETING = {"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"}
TORCHRUN = {
    **MEETING,
    "RANK": "5",
    "WORLD_SIZE": "8",
    "LOCAL_RANK": "1",
    "GROUP_RANK": "1",
    "TORCHELASTIC_RUN_ID": "none",
}
POD = {**MEETING, "RANK": "1", "WORLD_SIZE": "2"}
SRUN = {
    "SLURM_JOB_ID": "41234",
    "SLURM_PROCID": "3",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "1",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_STEP_NODELIST": "gpu-[03-04]",
}


@pytest.mark.parametrize(
    ("environment", "place"),
    [
        ({}, None),
        (TORCHRUN, AssignedRank(5, 8, 1, 1, "10.0.0.1", 29500, "torchrun")),
        ({**TORCHRUN, "RANK": "0", "WORLD_SIZE": "1"}, AssignedRank(0, 1, 1, 1, "10.0.0.1", 29500, "torchrun")),
        (SRUN, AssignedRank(3, 4, 1, 1, "gpu-03", 21234, "srun")),
        ({**SRUN, **MEETING}, AssignedRank(3, 4, 1, 1, "10.0.0.1", 29500, "srun")),
        # The script of a batch job, and a step of one task: neither is one rank of several.
        ({name: value for name, value in SRUN.items() if "STEP" not in name}, None),
        ({**SRUN, "SLURM_STEP_NUM_TASKS": "1"}, None),
        # A pod of Kubeflow's PyTorchJob: one rank a pod, and no word of local ranks.
        (POD, AssignedRank(1, 2, 0, 1, "10.0.0.1", 29500, "the variables RANK and WORLD_SIZE")),
        # Left over in a shell.
        ({**MEETING, "RANK": "0", "WORLD_SIZE": "1"}, None),
        ({"RANK": "0", "WORLD_SIZE": "2"}, None),
        ({**TORCHRUN, "RANK": "first"}, None),
    ],
)  # fmt: skip
def test_place(environment: dict[str, str], place: AssignedRank | None) -> None:
    assert place_given(environment) == place


@pytest.mark.parametrize(
    ("nodes", "first"),
    [("n1", "n1"), ("n1,n2", "n1"), ("gpu-[03-05,09],big1", "gpu-03"), ("a[7,9]-ib", "a7-ib"), ("log,gpu[1-2]", "log")],
)
def test_first_host(nodes: str, first: str) -> None:
    assert first_host(nodes) == first


def _rank(node: int, local_rank: int, *gpus: str, host: str = "") -> dict[str, object]:
    return {"host": host or f"n{node}", "node": node, "local_rank": local_rank, "gpus": list(gpus)}


class TestWorld:
    def test_a_gpu_for_each_rank(self) -> None:
        world = world_of([_rank(0, 0, "A", "B"), _rank(0, 1, "A", "B"), _rank(1, 0, "C", "D"), _rank(1, 1, "C", "D")])
        assert (world.backend, world.device, world.shared, world.nodes) == (
            "nccl",
            "cuda",
            False,
            ("n0", "n0", "n1", "n1"),
        )

    def test_slurm_shows_each_task_its_own(self) -> None:
        world = world_of([_rank(0, 0, "A"), _rank(0, 1, "B")])
        assert (world.backend, world.shared) == ("nccl", False)

    def test_two_ranks_on_one(self) -> None:
        world = world_of([_rank(0, 0, "A"), _rank(0, 1, "A")])
        assert (world.backend, world.device, world.shared, world.meaningful) == ("gloo", "cuda", True, False)

    def test_a_node_without_gpus(self) -> None:
        world = world_of([_rank(0, 0, "A"), _rank(1, 0)])
        assert (world.backend, world.device) == ("gloo", "cpu")

    def test_two_nodes_on_one_host(self) -> None:
        assert world_of([_rank(0, 0, host="vm"), _rank(1, 0, host="vm")]).nodes == ("vm#0", "vm#1")
