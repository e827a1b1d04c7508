"""Several virtual nodes on this machine: the same command once for each, told which node it is on, as launchers tell.

torch's launcher reads its options from variables where the command does not name them. For a command that is written
for `srun`, each task is given the variables of Slurm, where this machine has none.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpudoctor.ranks.loopback import LOOPBACK, free_port
from gpudoctor.record import dataclass
from gpudoctor.run.protocol import VIRTUAL_NODE

_NAME = "localhost"
"""Of each node, for Slurm: the one name that any machine can look up."""
_SCONTROL = "#!/bin/sh\n# Stands in for Slurm's, which programs ask for the names of their nodes.\n{lines}\n"


@dataclass(frozen=True)
class SlurmTasks:
    """What `srun` starts: so many tasks on each of so many nodes."""

    nodes: int
    per_node: int


def node_variables(nodes: int) -> tuple[Mapping[str, str], ...]:
    """For each node what makes it one of several: `torchrun` and our own launcher start their ranks by it."""
    port = str(free_port())
    return tuple(
        {
            **_of_node(node),
            "PET_NNODES": str(nodes),
            "PET_NODE_RANK": str(node),
            "PET_MASTER_ADDR": LOOPBACK,
            "PET_MASTER_PORT": port,
            # As programs are told that start their processes themselves.
            "NNODES": str(nodes),
            "NODE_RANK": str(node),
            "MASTER_ADDR": LOOPBACK,
            "MASTER_PORT": port,
        }
        for node in range(nodes)
    )


def task_variables(tasks: SlurmTasks) -> tuple[Mapping[str, str], ...]:
    """For each task of `srun` its variables; a port is for the program to choose, as in a job."""
    return tuple(_of_task(tasks, node, local) for node in range(tasks.nodes) for local in range(tasks.per_node))


def _of_task(tasks: SlurmTasks, node: int, local: int) -> Mapping[str, str]:
    every = tasks.nodes * tasks.per_node
    names = ",".join([_NAME] * tasks.nodes)
    per_node = f"{tasks.per_node}(x{tasks.nodes})" if tasks.nodes > 1 else str(tasks.per_node)
    return {
        **(_of_node(node) if tasks.nodes > 1 else {}),
        "SLURM_JOB_ID": "1",
        "SLURM_JOBID": "1",
        "SLURM_STEP_ID": "0",
        "SLURM_PROCID": str(node * tasks.per_node + local),
        "SLURM_LOCALID": str(local),
        "SLURM_NODEID": str(node),
        "SLURM_NTASKS": str(every),
        "SLURM_NPROCS": str(every),
        "SLURM_NTASKS_PER_NODE": str(tasks.per_node),
        "SLURM_TASKS_PER_NODE": per_node,
        "SLURM_STEP_NUM_TASKS": str(every),
        "SLURM_NNODES": str(tasks.nodes),
        "SLURM_JOB_NUM_NODES": str(tasks.nodes),
        "SLURM_STEP_NUM_NODES": str(tasks.nodes),
        "SLURM_NODELIST": names,
        "SLURM_JOB_NODELIST": names,
        "SLURM_STEP_NODELIST": names,
        "SLURMD_NODENAME": _NAME,
        "SLURM_LAUNCH_NODE_IPADDR": LOOPBACK,
        "SLURM_SUBMIT_HOST": _NAME,
    }


def _of_node(node: int) -> Mapping[str, str]:
    return {VIRTUAL_NODE: f"virtual-node-{node}"}


def slurm_path(folder: Path, nodes: int) -> str:
    """PATH with what the programs of a job call; it is put into the folder of the recording."""
    made = folder / "slurm"
    made.mkdir(exist_ok=True)
    target = made / "scontrol"
    target.write_text(_SCONTROL.format(lines="\n".join([f"echo {_NAME}"] * nodes)), encoding="ascii")
    target.chmod(0o700)
    return os.pathsep.join((str(made), os.environ.get("PATH", os.defpath)))


def stands_in_for_srun(command: Sequence[str]) -> bool:
    """The command is for `srun`, and there is none on this machine."""
    return command[0].rpartition("/")[2] == "srun" and shutil.which(command[0]) is None
