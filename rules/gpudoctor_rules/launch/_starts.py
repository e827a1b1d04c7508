"""What the rules about launch files ask."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Location
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


def offered(launch: ProgramStart) -> Iterator[tuple[int, str, Location]]:
    """How many GPUs of a machine it may use, in words, and where that is said."""
    bound = launch.environment.get("CUDA_VISIBLE_DEVICES")
    visible = listed(bound.word.usual) if bound is not None else ()
    chosen = launch.option("gpu-ids")
    if chosen is not None and chosen.text not in (None, "all", ""):
        count = len((chosen.text or "").split(","))
        yield count, f"`--gpu_ids` names {count} GPU{'s' if count > 1 else ''}", chosen.at
    elif visible and bound is not None and all(each.isdecimal() for each in visible):
        yield len(visible), f"it sees {len(visible)} GPU{'s' if len(visible) > 1 else ''}", bound.at
    for name in ("gres", "gpus-per-node"):
        option = launch.slurm(name)
        count = gpus_of(option) or 0
        if option is not None and count:
            yield count, f"SLURM grants {count} GPU{'s' if count > 1 else ''} on each node", option.at


def listed(text: str | None) -> tuple[str, ...]:
    """What stands between commas."""
    return tuple(each.strip() for each in (text or "").split(",") if each.strip())


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
