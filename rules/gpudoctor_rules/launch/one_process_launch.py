"""A program that is made for several processes is started as one.

## What goes wrong

`torchrun train.py` without `--nproc-per-node` starts one process, whatever GPUs there are: the training runs on one of
them, without a word. `python train.py` starts no launcher at all. A program that joins a process group then ends with
`ValueError: Error initializing torch.distributed using env:// rendezvous: environment variable RANK expected, but not
set`. So do all processes of `srun python train.py` and `mpirun python train.py`: SLURM and MPI tell each its rank, but
under names of their own. A program that takes itself for the only process where `RANK` is not set then trains once in
each of them, a model of its own every time; so does one that makes its group with an option, as `--distributed`, in the
processes of a `torchrun` that does not give it.

## Fix

Say how many processes to start: `torchrun --nproc-per-node=gpu train.py` starts one for each GPU. Give the program its
option.

## Silent when

The number is given and nothing says that there are more GPUs, or comes from a variable or a configuration; one GPU is
all that the command may see; several nodes take part; the program also runs as one process, or starts its processes
itself; the same file also starts the program by `torchrun` in several.

## Sources

https://docs.pytorch.org/docs/stable/elastic/run.html, NVIDIA-Merlin/Transformers4Rec#473,
https://docs.pytorch.org/docs/stable/distributed.html#environment-variable-initialization.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.launchfiles.start import ProgramStart, StartedBy, Starter
from gpudoctor.rule import Findings, Launched, Rule
from gpudoctor_rules._error_texts import NO_RANK
from gpudoctor_rules.launch._starts import gpus_of, is_of_torch, named, offered, starts_several

if TYPE_CHECKING:
    from gpudoctor.api.pack import LaunchFile, ProgramFacts

_OWN_RANK = {
    "srun": "SLURM_PROCID",
    "mpirun": "OMPI_COMM_WORLD_RANK",
    "mpiexec": "OMPI_COMM_WORLD_RANK",
    "horovodrun": "HOROVOD_RANK",
}
"""Where each tells a process its rank; `mpirun` is Open MPI's."""


class OneProcessLaunch(Rule):
    code = "GPU422"
    severity = Severity.WARNING
    errors = NO_RANK

    def in_launch(self, launched: Launched) -> Findings:
        for file, launch in launched.launches:
            starter = launch.started_by("srun", "mpirun")
            if starter is not None and launch.launcher is StartedBy.PYTHON:
                yield from self._of_tasks(launched, file, launch, starter)
            # `srun` and `mpirun` start it several times, and whoever offers one GPU wants one process.
            alone = launch.tasks_per_node == 1 and all(each.name == "srun" for each in launch.starters)
            if not alone or _on_one_gpu(launch) or launch.script is None:
                continue
            if is_of_torch(launch) and launch.processes != 1:
                yield from self._of_switch(launched, file, launch)
            elif is_of_torch(launch) and not _also_in_several(file, launch):
                yield from self._of_torchrun(launched, file, launch)
            elif launch.launcher is StartedBy.PYTHON and not launch.starters:
                yield from self._of_python(launched, file, launch)

    def _of_torchrun(self, launched: Launched, file: LaunchFile, launch: ProgramStart) -> Findings:
        told = launch.option("nproc-per-node")
        granted = next((each for each in offered(launch) if each[0] > 1), None) if not launch.background else None
        if launch.processes != 1 or launch.nodes != 1 or (told is not None and granted is None):
            return
        facts = launched.program_of(file, launch)
        if told is not None and granted is not None:
            if facts is not None and facts.by_local_rank is not None:
                yield self.found(
                    told.at,
                    f"`{launch.launcher.value}` is told to start one process of {named(launch)}, and {granted[1]}: all "
                    "but one stay idle.",
                    remedy="Write `--nproc-per-node=gpu`, or show it one GPU.",
                    because=[("the GPUs are given here", granted[2])],
                )
            return
        several = facts is None or facts.group is not None or facts.frameworks or facts.by_local_rank is not None
        # What says so behind the script is another mistake.
        behind = any(word.shown.lstrip("-").replace("_", "-").startswith("nproc-per-node") for word in launch.arguments)
        if several and not behind and not (facts is not None and facts.starts_its_own):
            yield self.found(
                launch.word.at,
                f"`{launch.launcher.value}` starts one process of {named(launch)}: without `--nproc-per-node` that is "
                "all, and the other GPUs stay idle.",
                remedy="Write `--nproc-per-node=gpu`, or how many processes to start.",
                because=[("the processes meet here", facts.group if facts is not None else None)],
            )

    def _of_switch(self, launched: Launched, file: LaunchFile, launch: ProgramStart) -> Findings:
        """Several processes, none of which is told that it is one of several."""
        facts = launched.program_of(file, launch)
        if facts is None or not {launch.file, launch.at.start} & set(facts.alone_in):
            return
        options = " or ".join(f"`{each}`" for each in facts.alone_without)
        count = f"{launch.processes} processes" if launch.processes is not None else "a process for each GPU"
        yield self.found(
            launch.word.at,
            f"`{launch.launcher.value}` starts {count} of {named(launch)} without {options}: none "
            "of them makes a process group, and each trains a model of its own.",
            remedy=f"Give the program {options}.",
            because=[("with it the processes would meet here", facts.ignored)],
            severity=Severity.ERROR,
        )

    def _of_tasks(self, launched: Launched, file: LaunchFile, launch: ProgramStart, starter: Starter) -> Findings:
        """They tell each process its rank, but not under the names that the group of the program asks for."""
        facts = launched.program_of(file, launch)
        if facts is not None and facts.ignored is not None and (launch.world_size or 0) > 1:
            yield from self._of_strangers(launch, starter, facts)
        if not _waits_for_ranks(facts, launch) or launch.world_size == 1:
            return
        told = _OWN_RANK.get(starter.word.shown.rpartition("/")[2])
        # Others have names of their own for it.
        if told is None:
            return
        yield self.found(
            starter.word.at,
            f"`{starter.word.shown}` tells the processes of {named(launch)} their ranks as `{told}`, and the program "
            "waits for `RANK`: each ends with `ValueError: Error initializing torch.distributed using env:// "
            "rendezvous: environment variable RANK expected, but not set`.",
            remedy=f"Start one `torchrun` on each node in the place of `python`, or set `RANK` from `{told}`.",
            because=[("the process group is made", facts.group if facts is not None else None)],
            severity=Severity.ERROR,
        )

    def _of_strangers(self, launch: ProgramStart, starter: Starter, facts: ProgramFacts) -> Findings:
        """None of the processes knows of the others: the program asks for what only a launcher of PyTorch says."""
        # Each may be told to do something else.
        if not launch.tasks_of or any(word.holes and launch.per_node for word in launch.arguments):
            return
        yield self.found(
            starter.word.at,
            f"`{starter.word.shown}` starts {launch.world_size} processes of {named(launch)} and sets neither `RANK` "
            "nor `WORLD_SIZE`: each takes itself for the only one, and trains a model of its own.",
            remedy="Start one `torchrun` on each node in the place of `python`, or set the variables from those of "
            f"`{starter.word.shown}`.",
            because=[("with a launcher the processes would meet here", facts.ignored)],
        )

    def _of_python(self, launched: Launched, file: LaunchFile, launch: ProgramStart) -> Findings:
        facts = launched.program_of(file, launch)
        if not _waits_for_ranks(facts, launch):
            return
        starter = launch.word.shown if launch.spread_by else "python"
        yield self.found(
            launch.word.at,
            f"`{starter}` starts one process of {named(launch)} and sets no rank, but the program joins a process "
            "group: it ends with `ValueError: Error initializing torch.distributed using env:// rendezvous: "
            "environment variable RANK expected, but not set`.",
            remedy=(
                f"Have it start one for each GPU: {launch.spread_by}."
                if launch.spread_by
                else f"Start it with a launcher: `torchrun --nproc-per-node=gpu {'-m ' if launch.module else ''}"
                f"{launch.script.shown if launch.script else ''}`."
            ),
            because=[("the process group is made", facts.group if facts is not None else None)],
        )


def _waits_for_ranks(facts: ProgramFacts | None, launch: ProgramStart) -> bool:
    """As one process the program ends, for nobody has told it who it is."""
    waits = facts is not None and facts.group is not None and not facts.group_alone
    return waits and "RANK" not in launch.environment


def _on_one_gpu(launch: ProgramStart) -> bool:
    visible = launch.visible
    given = (gpus_of(launch.slurm(name)) for name in ("gres", "gpus-per-node", "gpus", "gpus-per-task"))
    return (visible is not None and len(visible) <= 1) or any(each == 1 for each in given)


def _also_in_several(file: LaunchFile, launch: ProgramStart) -> bool:
    """One of several ways that a file offers: its author knows the difference."""
    script = launch.script.text if launch.script is not None else None
    return any(
        other is not launch
        and (other.script.text if other.script is not None else None) == script
        and (starts_several(other) or other.processes is None)
        for other in file.launches
    )
