"""Whether somebody has started this process as one rank of several: torchrun, srun, Ray, Kubeflow. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gpudoctor.record import dataclass

_FIRST_PORT, _PORTS = 20000, 20000


@dataclass(frozen=True)
class AssignedRank:
    """The rank that this process was given. `node` counts nodes, `address` and `port` are where all ranks meet."""

    rank: int
    size: int
    local_rank: int
    node: int
    address: str
    port: int
    by: str
    """Who started it, for messages."""


def place_given(environment: Mapping[str, str]) -> AssignedRank | None:
    """The place that the environment names; None where this process is alone and starts ranks of its own."""
    return _by_variables(environment) or _by_slurm(environment)


def _by_variables(environment: Mapping[str, str]) -> AssignedRank | None:
    """RANK and WORLD_SIZE, as torchrun, Ray Train and Kubeflow's PyTorchJob set them."""
    rank, size = _number(environment, "RANK"), _number(environment, "WORLD_SIZE")
    port = _number(environment, "MASTER_PORT")
    elastic = "TORCHELASTIC_RUN_ID" in environment
    if _counts_pods(environment):
        return None
    # A single rank may be left over from an earlier shell; torchrun's is meant.
    if rank is None or size is None or port is None or (size < 2 and not elastic):
        return None
    by = "torchrun" if elastic else "Ray" if "RAY_JOB_ID" in environment else "the variables RANK and WORLD_SIZE"
    local = _number(environment, "LOCAL_RANK") or 0
    node = _number(environment, "GROUP_RANK")
    if node is None:
        node = _number(environment, "NODE_RANK")
    # A pod with one rank of its own has no word for its node.
    node = node if node is not None else rank if "LOCAL_RANK" not in environment else 0
    return AssignedRank(rank, size, local, node, environment.get("MASTER_ADDR", "127.0.0.1"), port, by)


def advice(environment: Mapping[str, str]) -> str:
    """What to type where this process is one node of several, and no rank of it was given; empty where it is not."""
    nodes = _number(environment, "PET_NNODES") or 1
    if place_given(environment) is not None or not (_counts_pods(environment) or "PET_NODE_RANK" in environment):
        return ""
    if nodes < 2 and not _counts_pods(environment):
        return ""
    return (
        "this node only: PET_NNODES and its like make it one of several, and `torchrun -m gpudoctor probe` reads them "
        "and examines all together"
    )


def _counts_pods(environment: Mapping[str, str]) -> bool:
    """Whether RANK is the number of a pod in which torchrun is to start several ranks, as PET_NPROC_PER_NODE says."""
    alone = "TORCHELASTIC_RUN_ID" not in environment and "LOCAL_RANK" not in environment
    return alone and "RANK" in environment and (_number(environment, "PET_NPROC_PER_NODE") or 1) > 1


def _by_slurm(environment: Mapping[str, str]) -> AssignedRank | None:
    """A task of a step of `srun`; the script of a batch job has no step, and starts its own."""
    rank, size = _number(environment, "SLURM_PROCID"), _number(environment, "SLURM_STEP_NUM_TASKS")
    nodes = environment.get("SLURM_STEP_NODELIST", "")
    if rank is None or size is None or size < 2 or not nodes:
        return None
    job = _number(environment, "SLURM_JOB_ID") or 0
    port = _number(environment, "MASTER_PORT") or _FIRST_PORT + job % _PORTS
    local, node = _number(environment, "SLURM_LOCALID") or 0, _number(environment, "SLURM_NODEID") or 0
    return AssignedRank(rank, size, local, node, environment.get("MASTER_ADDR") or first_host(nodes), port, "srun")


def first_host(nodes: str) -> str:
    """The first of SLURM's list: `gpu-03` of `gpu-[03-05,09],big1`."""
    head = re.match(r"([^,\[]*)(?:\[([^\]]*)\])?([^,]*)", nodes)
    if head is None:
        return nodes
    first = re.split(r"[-,]", head[2])[0] if head[2] else ""
    return f"{head[1]}{first}{head[3]}"


def _number(environment: Mapping[str, str], name: str) -> int | None:
    text = environment.get(name, "")
    return int(text) if text.isdecimal() else None
