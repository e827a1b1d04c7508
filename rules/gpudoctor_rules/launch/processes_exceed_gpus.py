"""More processes are started than the command may see GPUs.

## What goes wrong

Each process takes the GPU of its local rank. With `CUDA_VISIBLE_DEVICES=0,1` and four processes on a machine, those
with the local ranks 2 and 3 find no GPU and end with `RuntimeError: CUDA error: invalid device ordinal`. What SLURM
grants with `--gres=gpu:2` limits them in the same way, also where `srun`, `mpirun` or `horovodrun` start the processes
and the program takes the GPU of its local rank. Lightning and Fabric start the processes for their `devices`
themselves, and end before that: `MisconfigurationException: You requested gpu: [0, 1, 2, 3] But your machine only has:
[0, 1]`. A container sees no GPU at all unless it is told to: `docker run` without `--gpus`, `apptainer exec` without
`--nv`, a service of Compose without `gpus: all`.

## Fix

Start as many processes as the command may see GPUs, and give containers theirs.

## Silent when

Either number is not known, and has no default as in `${GPUS:-0,1}`; the GPUs are hidden on purpose, with
`CUDA_VISIBLE_DEVICES=` or `-1`, so that the processes train on the CPU; DeepSpeed is told which GPUs to take and does
not look at the variable.

## Sources

tatsu-lab/stanford_alpaca#67, HRNet/HRNet-Semantic-Segmentation#171,
https://docs.nvidia.com/cuda/cuda-c-programming-guide/#cuda-environment-variables;
`_sanitize_gpu_ids` of lightning 2.6.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Location, Severity
from gpudoctor.lint.launchfiles.start import ProgramStart, StartedBy
from gpudoctor.rule import Findings, Launched, Rule
from gpudoctor_rules._error_texts import DUPLICATE_GPU, INVALID_ORDINAL
from gpudoctor_rules.launch._starts import is_of_torch, listed, named, offered, starts_several

if TYPE_CHECKING:
    from gpudoctor.api.pack import LaunchFile


class ProcessesExceedGpus(Rule):
    code = "GPU423"
    severity = Severity.ERROR
    errors = (*INVALID_ORDINAL, *DUPLICATE_GPU)
    stops = True

    def in_launch(self, launched: Launched) -> Findings:
        told: set[Location] = set()
        for file, launch in launched.launches:
            yield from self._of_devices(launched, file, launch)
            yield from self._of_slots(launch)
            yield from self._of_tasks(launched, file, launch)
            yield from self._of_container(launched, file, launch)
            yield from self._of_driver(launch)
            (count, counted_at), tasks = _processes(launched, file, launch), launch.tasks_per_node
            if (
                counted_at in told
                or count is None
                or tasks is None
                or launch.launcher in (StartedBy.PYTHON, StartedBy.DEEPSPEED)
            ):
                continue
            # Several launchers on a machine are a mistake of their own.
            if tasks > 1 or count < 2 or "cpu" in launch.options:
                continue
            for gpus, said, at in (*offered(launch), *_configured(launched, file, launch)):
                if gpus < count:
                    told.add(counted_at)
                    counted, given = ("the processes are counted here", counted_at), ("the GPUs are given here", at)
                    # A script that others call is right for those that give it enough.
                    of_caller = bool(file.commands) and launch.file != file.shown == at.path
                    usual = "Where nothing else is said, " if _by_default(launch, at) else ""
                    yield self.found(
                        at if of_caller else counted_at,
                        f"{usual}`{launch.launcher.value}` starts {count} processes on a machine, and {said}: those "
                        f"from local rank {gpus} on end with `CUDA error: invalid device ordinal`.",
                        remedy=f"Start {gpus} process{'es' if gpus > 1 else ''}, or give {count} GPUs.",
                        because=[counted if of_caller else given],
                    )
                    break

    def _of_driver(self, launch: ProgramStart) -> Findings:
        """`$(nvidia-smi -L | wc -l)` counts the GPUs of the machine, those that nobody shows as well."""
        option, visible = launch.option("nproc-per-node", "num-processes"), launch.visible
        counted = option is not None and option.counts_gpus and option.text is None
        if option is None or not counted or not visible or launch.environment["CUDA_VISIBLE_DEVICES"].granted:
            return
        gpus = len(visible)
        yield self.found(
            option.at,
            f"`{launch.launcher.value}` starts one process for each GPU of the machine, for `nvidia-smi` does not look "
            f"at `CUDA_VISIBLE_DEVICES`, which shows {gpus}: where there are more, those from local rank {gpus} on end "
            "with `CUDA error: invalid device ordinal`.",
            remedy="Write `--nproc-per-node=gpu`, which counts those that are shown."
            if is_of_torch(launch)
            else f"Start {gpus} process{'es' if gpus > 1 else ''}.",
            because=[("the GPUs are given here", launch.environment["CUDA_VISIBLE_DEVICES"].at)],
            severity=Severity.WARNING,
        )

    def _of_container(self, launched: Launched, file: LaunchFile, launch: ProgramStart) -> Findings:
        """Docker gives a container no GPU unless it is told to, or set up for it."""
        container, facts = launch.container, launched.program_of(file, launch)
        uses = facts is not None and facts.by_local_rank is not None
        if container is None or container.gpus != "" or not uses or not starts_several(launch):
            return
        yield self.found(
            container.at,
            f"{container.begins} is given no GPU, and each process of {named(launch)} takes one: they end "
            "with `RuntimeError: Found no NVIDIA driver on your system`.",
            remedy=f"Give it some: {container.gpus_remedy}.",
            because=[("the GPU is chosen here", facts.by_local_rank if facts is not None else None)],
            severity=Severity.WARNING,
        )

    def _of_slots(self, launch: ProgramStart) -> Findings:
        """`horovodrun` and `mpirun` are told how many processes each host takes, one for each GPU."""
        starter = launch.started_by("mpirun")
        hosts, asked = (starter.options.get(name) for name in ("hosts", "ntasks")) if starter else (None, None)
        if starter is None or hosts is None or asked is None or hosts.text is None or asked.number is None:
            return
        count = sum(starter.slots)
        if "oversubscribe" not in starter.options and 0 < count < asked.number:
            yield self.found(
                asked.at,
                f"`{starter.word.shown}` is asked for {asked.number} processes, and its hosts have {count} "
                f"slot{'s' if count > 1 else ''}: it starts none of them.",
                remedy=f"Ask for {count} process{'es' if count > 1 else ''}, or name hosts with more GPUs.",
                because=[("the slots are counted here", hosts.at)],
            )

    def _of_tasks(self, launched: Launched, file: LaunchFile, launch: ProgramStart) -> Findings:
        """`srun` and `mpirun` start the processes themselves, and each takes the GPU of its local rank."""
        starter, count = launch.started_by("srun", "mpirun"), launch.tasks_per_node
        facts = launched.program_of(file, launch)
        uses = facts is not None and facts.by_local_rank is not None
        if launch.launcher is not StartedBy.PYTHON or starter is None or not uses or count is None or count < 2:
            return
        # Lightning compares the tasks with what it is told, and ends before.
        if facts is not None and "lightning" in facts.frameworks and facts.devices not in (None, count):
            return
        options = [launch.slurm(name) or starter.options.get(name) for name in ("ntasks-per-node", "ntasks")]
        slots_at = launch.container.slots_at if launch.container is not None else None
        counted_at = slots_at or next((each.at for each in options if each is not None), starter.word.at)
        for gpus, said, at in offered(launch):
            if gpus < count and "gpus-per-task" not in {*launch.directives, *starter.options}:
                yield self.found(
                    counted_at,
                    f"`{starter.word.shown}` starts {count} processes of {named(launch)} on a machine, and {said}: "
                    f"those from local rank {gpus} on end with `CUDA error: invalid device ordinal`.",
                    remedy=f"Start {gpus} process{'es' if gpus > 1 else ''} on each machine, or ask for {count} GPUs.",
                    because=[
                        ("the GPUs are given here", at),
                        ("the GPU is chosen here", facts.by_local_rank if facts is not None else None),
                    ],
                )
                return

    def _of_devices(self, launched: Launched, file: LaunchFile, launch: ProgramStart) -> Findings:
        """Lightning starts its own processes, one for each of the devices that it is told."""
        if launch.launcher is not StartedBy.PYTHON or launch.tasks_per_node != 1:
            return
        facts, said = launched.program_of(file, launch), launch.given.get("trainer.devices")
        told = int(said) if isinstance(said, str) and said.isdecimal() else None
        count = told or (facts.devices if facts is not None and "trainer.devices" not in launch.given else None)
        visible, bound = launch.visible, launch.environment.get("CUDA_VISIBLE_DEVICES")
        if count is None or not visible or bound is None or len(visible) >= count:
            return
        gpus = len(visible)
        yield self.found(
            bound.at,
            f"{named(launch)} asks Lightning for {count} devices, and is shown {gpus} GPU{'s' if gpus > 1 else ''}: it "
            "ends with `MisconfigurationException: You requested gpu: ... But your machine only has: ...`.",
            remedy=f"Show it {count} GPUs, or ask for {gpus} device{'s' if gpus > 1 else ''}.",
            because=[("the devices are asked for here", facts.devices_at if facts is not None else None)],
        )


def _processes(launched: Launched, file: LaunchFile, launch: ProgramStart) -> tuple[int | None, Location]:
    """How many processes are started on a machine, and where that is said."""
    option = launch.option("nproc-per-node", "num-processes")
    settings = launched.accelerate_settings(file, launch)
    if option is not None:
        count = launch.usual_processes
        if count is None and settings is not None and option.number is not None and launch.nodes is None:
            count = option.number // (settings.number("num_machines") or 1)
        return count, option.at
    total = settings.values.get("num_processes") if settings is not None else None
    on_cpu = settings is not None and ("CPU" in settings.text("distributed_type") or settings.text("use_cpu") == "true")
    if settings is not None and total is not None and total.number is not None and not on_cpu:
        return total.number // (settings.number("num_machines") or 1), total.at
    bound = launch.environment.get("PET_NPROC_PER_NODE")
    return launch.processes, launch.word.at if bound is None else bound.at


def _by_default(launch: ProgramStart, at: Location) -> bool:
    """One of the numbers is a default, and may be another one."""
    option, bound = launch.option("nproc-per-node"), launch.environment.get("CUDA_VISIBLE_DEVICES")
    shown = bound is not None and at is bound.at and bound.word.text is None
    return shown or (option is not None and option.text is None)


def _configured(launched: Launched, file: LaunchFile, launch: ProgramStart) -> Iterator[tuple[int, str, Location]]:
    """The GPUs in the settings of Accelerate, where the command asks for more processes than these do."""
    settings = launched.accelerate_settings(file, launch)
    chosen = settings.values.get("gpu_ids") if settings is not None else None
    if settings is None or chosen is None or chosen.text == "all" or (settings.number("num_machines") or 1) > 1:
        return
    count = len(listed(chosen.text))
    if count and not {"gpu-ids", "num-machines"} & launch.options.keys() and launch.option("num-processes") is not None:
        yield count, f"`gpu_ids` names {count} GPU{'s' if count > 1 else ''}", chosen.at
