"""What the rules about launch files ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.lint.launchfiles.start import OF_TORCH, ProgramStart, StartedBy, StartOption

if TYPE_CHECKING:
    from gpudoctor.api.pack import LaunchFile

LOCAL = ("localhost", "127.", "0.0.0.0", "[::1]", "::1")
OTHER_NODES = frozenset(
    {"srun", "ssh", "pdsh", "clush", "mpirun", "mpiexec", "orterun", "blaunch", "pbsdsh", "parallel", "jsrun"}
)
"""Commands that reach other machines."""


def named(launch: ProgramStart) -> str:
    """The program that is started, for people."""
    return f"`{launch.script.shown}`" if launch.script is not None else "the program"


def starts_several(launch: ProgramStart) -> bool:
    """The launcher makes several processes on a machine, where nobody tells it otherwise."""
    count = launch.usual_processes
    if count is not None:
        return count > 1
    option = launch.option("nproc-per-node")
    if option is not None:
        return option.counts_gpus
    # It takes all the GPUs that it sees.
    return launch.launcher is StartedBy.DEEPSPEED and launch.closed and launch.option("num-gpus", "include") is None


def gpus_of(option: StartOption | None) -> int | None:
    """`gpu:4`, `gpu:a100:4` and `4` are four GPUs."""
    text = option.text if option is not None else None
    if text is None or "," in text:
        return None
    last = text.rpartition(":")[2].partition("(")[0]
    if last.isdecimal():
        return int(last)
    return 1 if text == "gpu" else None


def meets_by_c10d(launch: ProgramStart) -> bool:
    """The nodes agree on their ranks themselves."""
    backend = launch.option("rdzv-backend")
    return backend is not None and backend.text != "static"


def told_by_variables(launch: ProgramStart) -> bool:
    """Variables of torchrun stand for its options."""
    return any(name.startswith("PET_") for name in launch.environment)


def reaches_others(file: LaunchFile) -> bool:
    """The file itself starts something on other machines."""
    return bool(file.commands & OTHER_NODES)


def is_of_torch(launch: ProgramStart) -> bool:
    return launch.launcher in OF_TORCH
