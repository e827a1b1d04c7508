"""What a batch file asks of SLURM does not fit what the launcher or the program expects.

## What goes wrong

A training over several nodes waits until all of them have joined. A `torchrun --nnodes=4` in a job of two nodes waits
for two that never come, and one that no `srun` starts runs on the first node of the job alone. Lightning compares
`--ntasks-per-node` with `devices` and ends with `ValueError: You set devices=4 in Lightning, but the number of tasks
per node configured in SLURM --ntasks-per-node=8 does not match`; it refuses `--ntasks`. Where no `srun` starts it, it
takes itself for one of the tasks, and waits for the others.

## Fix

Take the numbers from SLURM (`--nnodes=$SLURM_NNODES`), start one task on each node with `srun` for torchrun, and for
Lightning set `--ntasks-per-node` to `devices`.

## Silent when

A number is not known; another command of the file reaches the other nodes.

## Sources

Lightning-AI/pytorch-lightning#20391, Lightning-AI/pytorch-lightning#102, https://slurm.schedmd.com/sbatch.html.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Finding, Severity
from gpudoctor.lint.launchfiles.start import ProgramStart, StartedBy, StartOption
from gpudoctor.rule import Findings, Launched, Rule
from gpudoctor_rules.launch._starts import is_of_torch, named, reaches_others

if TYPE_CHECKING:
    from gpudoctor.api.pack import LaunchFile, ProgramFacts


class SlurmTasksMismatch(Rule):
    code = "GPU427"
    severity = Severity.ERROR
    errors = (
        "ValueError: You set devices=4 in Lightning, but the number of tasks per node configured in SLURM "
        "--ntasks-per-node=8 does not match.",
    )
    stops = True

    def in_launch(self, launched: Launched) -> Findings:
        for file, launch in launched.launches:
            if is_of_torch(launch):
                yield from self._of_nodes(file, launch)
            facts = launched.program_of(file, launch)
            if facts is not None and "lightning" in facts.frameworks and launch.launcher is StartedBy.PYTHON:
                yield from self._of_lightning(launch, facts)

    def _of_nodes(self, file: LaunchFile, launch: ProgramStart) -> Findings:
        nodes, option = launch.nodes, launch.option("nnodes")
        if nodes is None or nodes < 2 or option is None:
            return
        if launch.started_by("srun") is None:
            asked = launch.directives.get("nodes")
            if asked is not None and not (launch.starters or launch.looped or reaches_others(file)):
                yield self.found(
                    launch.word.at,
                    "The batch file runs on the first node of the job alone, and so does this "
                    f"`{launch.launcher.value}`: it waits for {nodes} nodes, of which the others never start it.",
                    remedy=f"Start it with `srun --ntasks-per-node=1 {launch.word.shown} ...`.",
                    because=[("the job has several nodes", asked.at)],
                )
            return
        granted, said = launch.slurm_nodes, launch.slurm("nodes")
        if granted is not None and granted != nodes and said is not None:
            waits = "it waits for nodes that never come" if nodes > granted else "the others are turned away"
            yield self.found(
                option.at,
                f"`{launch.launcher.value}` is told that {nodes} nodes take part, and SLURM starts it on {granted}: "
                f"{waits}.",
                remedy="Write `--nnodes=$SLURM_NNODES`.",
                because=[("SLURM is asked for the nodes", said.at)],
            )

    def _of_lightning(self, launch: ProgramStart, facts: ProgramFacts) -> Findings:
        each, total = launch.slurm("ntasks-per-node"), launch.slurm("ntasks")
        if each is not None and each.number is not None and launch.started_by("srun") is not None:
            nodes, asked = launch.slurm_nodes, launch.slurm("nodes")
            if facts.nodes is not None and nodes is not None and facts.nodes != nodes and asked is not None:
                yield self.found(
                    asked.at,
                    f"SLURM starts {named(launch)} on {nodes} node{'s' if nodes > 1 else ''}, and its Trainer has "
                    f"`num_nodes={facts.nodes}`: Lightning ends with `ValueError: You set num_nodes={facts.nodes} in "
                    f"Lightning, but the number of nodes configured in SLURM --nodes={nodes} does not match`.",
                    remedy=f"Write `--nodes={facts.nodes}`, or `num_nodes={nodes}`.",
                    because=[("the Trainer is made", facts.devices_at)],
                )
            elif facts.devices is not None and facts.devices > 0 and facts.devices != each.number:
                yield self._of_devices(launch, facts, each, each.number)
        elif each is not None and each.number is not None and not launch.starters and launch.directives:
            # It takes the tasks of the job for processes that somebody has started.
            if facts.devices is not None and facts.devices > 0 and facts.devices != each.number:
                yield self._of_devices(launch, facts, each, each.number)
            elif facts.devices is not None and facts.devices == each.number > 1:
                yield self.found(
                    launch.word.at,
                    f"No `srun` starts {named(launch)}: it is the first of the {each.number} tasks that the batch file "
                    "asks for, and Lightning waits for the others, which nobody starts.",
                    remedy=f"Write `srun {launch.word.shown} ...`.",
                    because=[("the job has several tasks", each.at), ("the Trainer is made", facts.devices_at)],
                )
        elif each is None and total is not None and (total.number or 0) > 1:
            yield self.found(
                total.at,
                f"Lightning refuses `--ntasks`: {named(launch)} ends with `RuntimeError: You set "
                f"--ntasks={total.number} in your SLURM bash script, but this variable is not supported`.",
                remedy=f"Write `--ntasks-per-node={total.number}`, for that many GPUs on each node.",
            )

    def _of_devices(self, launch: ProgramStart, facts: ProgramFacts, each: StartOption, tasks: int) -> Finding:
        begins = f"{tasks} task{'s' if tasks > 1 else ''}"
        srun = "" if launch.starters else f", and start it by `srun {launch.word.shown} ...`"
        return self.found(
            each.at,
            f"SLURM has {begins} of {named(launch)} on each node, and its Trainer has `devices={facts.devices}`: "
            f"Lightning ends with `ValueError: You set devices={facts.devices} in Lightning, but the number of tasks "
            f"per node configured in SLURM --ntasks-per-node={tasks} does not match`.",
            remedy=f"Write `--ntasks-per-node={facts.devices}`{srun}, or `devices={tasks}`.",
            because=[("the Trainer is made", facts.devices_at)],
        )
