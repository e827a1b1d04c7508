"""SLURM shows each task fewer GPUs than the program takes for granted.

## What goes wrong

With `--gpus-per-task=1` each task sees one GPU, as `cuda:0`. A program that takes the GPU of its local rank asks for
`cuda:1` in the second task and ends with `RuntimeError: CUDA error: invalid device ordinal`; a torchrun in such a task
starts more processes than it sees GPUs. Processes that cannot see each other's GPUs also fall back to slower
transports.

## Fix

Ask for the GPUs of the node: `--gpus-per-node=8`, or `--gres=gpu:8`.

## Silent when

How many tasks or processes there are is not known; the program does not choose its GPU by the local rank.

## Sources

ACEsuit/mace#435, https://slurm.schedmd.com/sbatch.html (`--gpus-per-task`).
"""

from __future__ import annotations

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.launchfiles.start import ProgramStart, StartedBy, StartOption
from gpudoctor.rule import Findings, Launched, Rule
from gpudoctor_rules._error_texts import INVALID_ORDINAL
from gpudoctor_rules.launch._starts import gpus_of


class GpusHiddenPerTask(Rule):
    code = "GPU428"
    severity = Severity.ERROR
    errors = INVALID_ORDINAL
    stops = True

    def in_launch(self, launched: Launched) -> Findings:
        for file, launch in launched.launches:
            option, gpus = _shown_to_each(launch)
            if option is None or gpus is None or launch.started_by("srun") is None:
                continue
            count, tasks = launch.processes, launch.tasks_per_node
            if launch.launcher is not StartedBy.PYTHON:
                if count is not None and count > gpus:
                    yield self.found(
                        option.at,
                        f"Each task sees {gpus} GPU{'s' if gpus > 1 else ''}, and the `{launch.launcher.value}` in it "
                        f"starts {count} processes: those from local rank {gpus} on end with `CUDA error: invalid "
                        "device ordinal`.",
                        remedy=f"Write `--gpus-per-node={count}`, with one task on each node.",
                        because=[("the processes are started", launch.word.at)],
                    )
                continue
            facts = launched.program_of(file, launch)
            if facts is not None and facts.by_local_rank is not None and tasks is not None and tasks > gpus:
                yield self.found(
                    option.at,
                    f"Each task sees {gpus} GPU{'s' if gpus > 1 else ''}, as `cuda:0`, and the program takes the "
                    "GPU of its local rank: all but the first end with `CUDA error: invalid device ordinal`.",
                    remedy=f"Write `--gpus-per-node={tasks}` in its place, so that each task sees all of them.",
                    because=[("the GPU is chosen", facts.by_local_rank)],
                )


def _shown_to_each(launch: ProgramStart) -> tuple[StartOption | None, int | None]:
    bound = launch.slurm("gpu-bind")
    text = bound.text if bound is not None else None
    # It undoes what `--gpus-per-task` brings along.
    if text == "none":
        return None, None
    option = launch.slurm("gpus-per-task")
    if option is not None:
        return option, gpus_of(option)
    if text is not None and text.startswith("single:"):
        return bound, gpus_of(bound)
    return None, None
