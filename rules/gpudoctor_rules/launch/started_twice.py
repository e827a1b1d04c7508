"""Two launchers start processes of one training, each as many as there are GPUs.

## What goes wrong

`srun` starts its command once for each task, and `torchrun` starts a process for each GPU. With eight tasks on a node
and `--nproc-per-node=8`, 64 processes share eight GPUs: their ranks clash, and the training hangs or ends with `CUDA
error` or `EADDRINUSE`. It is the same with `mpirun`, and with a program that calls `mp.spawn` itself.

## Fix

Let one of them start the processes: one task for each node with torchrun (`--ntasks-per-node=1`), or one for each GPU
with `python`.

## Silent when

One task runs on each node; how many tasks or processes there are is not known.

## Sources

interTwin-eu/itwinai#360, Lightning-AI/pytorch-lightning#18650, https://slurm.schedmd.com/srun.html.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.launchfiles.start import ProgramStart, StartedBy
from gpudoctor.rule import Findings, Launched, Rule
from gpudoctor_rules.launch._starts import named, starts_several

if TYPE_CHECKING:
    from gpudoctor.api.pack import LaunchFile

_LAUNCHERS = ("torchrun", "accelerate", "deepspeed")


class StartedTwice(Rule):
    code = "GPU426"
    severity = Severity.ERROR
    stops = True

    def in_launch(self, launched: Launched) -> Findings:
        for file, launch in launched.launches:
            if launch.launcher is not StartedBy.PYTHON:
                yield from self._of_launcher(launched, file, launch)
            yield from self._of_spawning(launched, file, launch)

    def _of_launcher(self, launched: Launched, file: LaunchFile, launch: ProgramStart) -> Findings:
        script = launch.script
        if script is not None and script.text in _LAUNCHERS and launched.path_of(file, launch) is None:
            yield self.found(
                script.at,
                f"`{launch.launcher.value}` is told to start `{script.text}`, which is a launcher, too: it takes the "
                "word for a script, and finds no such file.",
                remedy=f"Leave one of them out: `{script.text}` starts the processes itself.",
            )
            return
        starter, tasks = launch.started_by("srun", "mpirun"), launch.tasks_per_node
        if starter is None or tasks is None or tasks < 2 or not starts_several(launch):
            return
        count = launch.processes
        whole = f"{tasks * count} processes" if count is not None else "several processes for each GPU"
        said = launch.slurm("ntasks-per-node") or launch.slurm("ntasks")
        yield self.found(
            launch.word.at,
            f"`{starter.word.shown}` starts {tasks} tasks on each node, and each is a `{launch.launcher.value}` that "
            f"starts {count if count is not None else 'a process for each GPU'}: {whole} meet on one node.",
            remedy="Start one task on each node (`--ntasks-per-node=1`), or leave the launcher out.",
            because=[("the tasks are requested here", said.at if said is not None else None)],
        )

    def _of_spawning(self, launched: Launched, file: LaunchFile, launch: ProgramStart) -> Findings:
        facts = launched.program_of(file, launch)
        if facts is None or facts.spawns is None:
            return
        starter, tasks = launch.started_by("srun", "mpirun"), launch.tasks_per_node
        by = f"`{starter.word.shown}`" if starter is not None and (tasks or 0) > 1 else ""
        if launch.launcher is not StartedBy.PYTHON and starts_several(launch):
            by = f"`{launch.launcher.value}`"
        if by:
            yield self.found(
                launch.word.at,
                f"{by} starts {named(launch)} several times, and each of these starts processes for all GPUs itself.",
                remedy=f"Start it once, with `python {launch.script.shown if launch.script else ''}`.",
                because=[("the program starts its processes", facts.spawns)],
            )
