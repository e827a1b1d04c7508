"""The settings of a launch contradict each other, or what the program says.

## What goes wrong

Accelerate and DeepSpeed take their numbers from a file, from the command and from the program, and where these differ
one of them silently wins, or the start fails. `num_processes` counts over all machines: less than one for each is none.
`distributed_type: 'NO'` starts one process, whatever `num_processes` says, and so does `MULTI_GPU` or `FSDP` with one,
which `--multi_gpu` on the command refuses. DeepSpeed wants `train_batch_size` to be the product of the micro batch, the
accumulation steps and the number of processes, and ends with `AssertionError: Check batch related parameters` where it
is not; beside `--num_gpus` or `--include` it does not look at `CUDA_VISIBLE_DEVICES`, and takes other GPUs. A
`PyTorchJob` of four pods that are told `--nnodes=2` leaves two of them out. Lightning ends where `devices` times
`num_nodes` is not what torchrun starts. A number of processes that is written into the program holds for one launch
alone: under another one a test of it ends the program, ranks wait for others that were never started, or a sampler
leaves a part of the data out.

The Trainer of Transformers compares the file with its own arguments, and ends with `ValueError: Please correct the
following DeepSpeed config values that mismatch TrainingArguments values`. Accelerate refuses a `mixed_precision` other
than that of the file, and settings that stand in its own YAML beside a `deepspeed_config_file`: `ValueError: When using
deepspeed_config_file, the following accelerate config variables will be ignored`.

## Fix

Leave the number to one of them: write `"auto"` in the DeepSpeed file, and leave `train_batch_size` out; ask
`torch.distributed.get_world_size()` in the program.

## Silent when

A number is `"auto"` or not known; the command overrides what the file says.

## Sources

deepspeedai/DeepSpeed#6914, deepspeedai/DeepSpeed#662, huggingface/accelerate#2818, huggingface/accelerate#146;
`HfTrainerDeepSpeedConfig` of transformers 4.46 and 5.23, `DeepSpeedPlugin` of accelerate 1.15.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.launchfiles.launched import IN_ACCELERATE
from gpudoctor.lint.launchfiles.start import OF_TORCH, ProgramStart, StartedBy
from gpudoctor.rule import Findings, Launched, Rule
from gpudoctor_rules.launch._engine_settings import OF_ENGINE_ALONE, disagreeing, told_by, told_by_command, whole_batch
from gpudoctor_rules.launch._starts import named

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpudoctor.api.pack import EngineUser, LaunchFile, Location, ProgramFacts, SettingsFile

_NOTHING = ("", "none", "None")
_STEPS = "gradient_accumulation_steps"
_PARTS = ("train_micro_batch_size_per_gpu", _STEPS)


class LaunchConfigMismatch(Rule):
    code = "GPU430"
    severity = Severity.WARNING
    errors = (
        "AssertionError: Check batch related parameters. train_batch_size is not equal to micro_batch_per_gpu * "
        "gradient_acc_step * world_size",
        "ValueError: Please correct the following DeepSpeed config values that mismatch TrainingArguments values",
    )

    def in_launch(self, launched: Launched) -> Findings:
        for file in launched.files:
            for settings in file.settings:
                if settings.of == "accelerate":
                    yield from self._of_accelerate(launched, file, settings)
                # Of what a program reads itself it is told there.
                elif not any(os.path.realpath(file.path) in facts.settings_read for facts in launched.facts.values()):
                    yield from self._of_batch(settings)
                else:
                    yield from self._of_trainer(launched, file, settings)
            for launch in file.launches:
                if launch.launcher is StartedBy.DEEPSPEED:
                    yield from self._of_visible(launch)
                if launch.launcher is StartedBy.ACCELERATE:
                    yield from self._of_count(launch)
                yield from self._of_pods(launch)
                yield from self._of_settings(launched, file, launch)
                yield from self._of_program(launched, file, launch)

    def _of_accelerate(self, launched: Launched, file: LaunchFile, settings: SettingsFile) -> Findings:
        processes, machines = settings.number("num_processes"), settings.number("num_machines") or 1
        kind = settings.text("distributed_type").upper().removeprefix("DISTRIBUTEDTYPE.")
        if processes is None or _overridden(launched, file):
            return
        at = settings.values["num_processes"].at
        if machines > 1 and processes % machines:
            yield self.found(
                at,
                f"`num_processes` counts over all {machines} machines, and {processes} cannot be divided evenly "
                "among them.",
                remedy="Write the number of GPUs of all machines together.",
                because=[("the machines are counted", settings.values["num_machines"].at)],
            )
        elif kind == "NO" and processes > 1:
            yield self.found(
                settings.values["distributed_type"].at,
                f"`distributed_type: 'NO'` starts one process, and `num_processes` says {processes}: one GPU trains.",
                remedy="Write `distributed_type: MULTI_GPU`; or `num_processes: 1`, if one GPU is meant.",
                because=[("the processes are counted", at)],
                # The two contradict each other, and only the author knows which one was left over.
                severity=Severity.INFO,
            )
        elif kind in ("MULTI_GPU", "FSDP") and processes == 1:
            yield self.found(
                at,
                f"`distributed_type: {kind}` with one process: one GPU works, and nothing tells.",
                remedy="Write the number of GPUs.",
            )
        yield from self._of_engine_file(launched, file, settings)
        chosen = settings.values.get("gpu_ids")
        count = len(chosen.text.split(",")) if chosen is not None and chosen.text not in ("all", "") else None
        if chosen is not None and count is not None and machines == 1 and count < processes:
            yield self.found(
                chosen.at,
                f"`gpu_ids` names {count} GPU{'s' if count > 1 else ''} for {processes} processes: those without "
                "one end with `CUDA error: invalid device ordinal`.",
                remedy="Give both the same number, or write `gpu_ids: all`.",
                because=[("the processes are counted", at)],
            )

    def _of_engine_file(self, launched: Launched, file: LaunchFile, settings: SettingsFile) -> Findings:
        """What Accelerate refuses beside a file that configures DeepSpeed."""
        named_there = settings.values.get(IN_ACCELERATE)
        if named_there is None or named_there.text in _NOTHING:
            return
        asked = [launch.options for _, launch in launched.launches if launch.launcher is StartedBy.ACCELERATE]
        for key in OF_ENGINE_ALONE:
            written, option = settings.values.get(key), key.rpartition(".")[2].replace("_", "-")
            # On the command line it may be said.
            if written is None or written.text in _NOTHING or any(option in options for options in asked):
                continue
            yield self.found(
                written.at,
                f"`{key.rpartition('.')[2]}` stands here beside `deepspeed_config_file`: the start ends with "
                "`ValueError: When using `deepspeed_config_file`, the following accelerate config variables will be "
                "ignored`.",
                remedy="Say it in the file of DeepSpeed, and leave it out here.",
                because=[("the file is named here", named_there.at)],
                severity=Severity.ERROR,
            )
            return

    def _of_trainer(self, launched: Launched, file: LaunchFile, settings: SettingsFile) -> Findings:
        """The Trainer of Transformers is told other numbers by the program that names the file."""
        path = os.path.realpath(file.path)
        users = [each for facts in launched.facts.values() for each in facts.engine_users if each.path == path]
        for user in users:
            if user.framework == "transformers":
                yield from self._disagree(settings, told_by(user), user.at)
            elif user.framework == "accelerate":
                yield from self._of_precision(settings, user)

    def _disagree(self, settings: SettingsFile, told: Mapping[str, object], at: Location) -> Findings:
        found = list(disagreeing(settings, told))
        if not found:
            return
        key, name, value = found[0]
        also = "".join(f", `{key}` {settings.text(key)} and `{name}` {value}" for key, name, value in found[1:])
        yield self.found(
            settings.values[key].at,
            f"The Trainer is told other settings than DeepSpeed: `{key}` is {settings.text(key)} here, and `{name}` "
            f"{value}{also}. Each rank ends with `ValueError: Please correct the following DeepSpeed config values "
            "that mismatch TrainingArguments values`.",
            remedy='Write `"auto"` here: the Trainer fills in what it is told.',
            because=[("the Trainer is told so here", at)],
            severity=Severity.ERROR,
        )

    def _of_precision(self, settings: SettingsFile, user: EngineUser) -> Findings:
        told = dict(user.settings).get("mixed_precision")
        other = {"fp16": "bf16", "bf16": "fp16", "fp8": "fp16"}.get(told) if isinstance(told, str) else None
        if other is None or settings.text(f"{other}.enabled").lower() != "true":
            return
        yield self.found(
            settings.values[f"{other}.enabled"].at,
            f"The `Accelerator` is told `{told}`, and `{other}` is switched on here: each rank ends with `ValueError: "
            f"--mixed_precision arg cannot be set to {told} when {other} is set in the DeepSpeed config file`.",
            remedy=f'Switch on `{told}` here, or write `"auto"`.',
            because=[("the `Accelerator` is told so here", user.at)],
            severity=Severity.ERROR,
        )

    def _of_batch(self, settings: SettingsFile, world: int = 0, launch: ProgramStart | None = None) -> Findings:
        whole = settings.number("train_batch_size")
        parts = [settings.number(name) for name in _PARTS]
        micro, steps = parts
        if whole is None or micro is None or steps is None:
            return
        product = micro * steps * (world or 1)
        if (whole != product) if world else (whole % product if product else False):
            told = f"{micro} * {steps} * {world}" if world else f"{micro} * {steps}"
            count = "of processes" if world else "of any number of processes"
            yield self.found(
                settings.values["train_batch_size"].at,
                f"`train_batch_size` is {whole}, and the product of micro batch, accumulation steps and number "
                f"{count} cannot be that ({told}): DeepSpeed ends with `AssertionError: Check batch related "
                "parameters`.",
                remedy='Leave `train_batch_size` out, or write `"auto"`: it follows from the others.',
                because=[("the processes are started", launch.word.at if launch is not None else None)],
            )

    def _of_whole_batch(self, settings: SettingsFile, launch: ProgramStart) -> Findings:
        """The Trainer of Transformers multiplies what it is told, and compares."""
        whole, product = settings.number("train_batch_size"), whole_batch(launch)
        if whole is not None and product is not None and whole != product:
            yield self.found(
                settings.values["train_batch_size"].at,
                f"`train_batch_size` is {whole}, and the Trainer computes {product} from what it is told, for "
                f"{launch.world_size} processes: each rank ends with `ValueError: Please correct the following "
                "DeepSpeed config values that mismatch TrainingArguments values`.",
                remedy='Write `"auto"` here: the Trainer fills in what it is told.',
                because=[("the Trainer is told so here", launch.word.at)],
                severity=Severity.ERROR,
            )

    def _of_visible(self, launch: ProgramStart) -> Findings:
        bound, option = launch.environment.get("CUDA_VISIBLE_DEVICES"), launch.option("num-gpus", "include")
        visible = launch.visible
        if bound is None or option is None or not visible or not all(each.isdecimal() for each in visible):
            return
        taken = _taken(launch)
        if taken is not None and taken != visible:
            yield self.found(
                bound.at,
                f"DeepSpeed does not look at `CUDA_VISIBLE_DEVICES` beside `--{option.name.replace('-', '_')}`: it "
                f"takes the GPUs {', '.join(taken)}, and not {', '.join(visible)}.",
                remedy=f"Leave the variable out and write `--include localhost:{','.join(visible)}`.",
                because=[("DeepSpeed is told what to take", option.at)],
            )

    def _of_count(self, launch: ProgramStart) -> Findings:
        count = launch.option("num-processes")
        if launch.option("multi-gpu") is not None and count is not None and count.text == "1":
            yield self.found(
                count.at,
                "`--multi_gpu` with one process: the start ends with `ValueError: You need to use at least 2 processes "
                "to use --multi_gpu`.",
                remedy="Write the number of GPUs, or leave `--multi_gpu` out.",
                severity=Severity.ERROR,
            )

    def _of_pods(self, launch: ProgramStart) -> Findings:
        option, container = launch.option("nnodes"), launch.container
        copies = container.copies if container is not None else None
        if option is None or option.number is None or container is None or copies in (None, option.number):
            return
        waits = "each waits for nodes that never come" if option.number > (copies or 0) else "the others are left out"
        yield self.found(
            option.at,
            f"{copies} pod{'s run' if copies != 1 else ' runs'} this command, and it is told that {option.number} "
            f"node{'s take' if option.number != 1 else ' takes'} part: {waits}.",
            remedy=f"Write `--nnodes={copies}`.",
            because=[("the pods are counted here", container.copies_at)],
            severity=Severity.ERROR,
        )

    def _of_program(self, launched: Launched, file: LaunchFile, launch: ProgramStart) -> Findings:
        facts, count = launched.program_of(file, launch), launch.world_size
        if facts is None or count is None:
            return
        written = launch.option("nproc-per-node", "num-processes", "num-gpus", "include")
        at = written.at if written is not None else launch.word.at
        yield from self._of_devices(launch, facts, count, at)
        if facts.refused == count:
            yield self.found(
                at,
                f"This starts {count} processes, and with so many {named(launch)} ends before its training, in "
                f"`{facts.refused_by}`.",
                remedy="Start as many as the program asks for, or let it ask for the world size.",
                because=[("the program ends here", facts.refused_at)],
            )
        elif facts.processes is not None and facts.processes != count:
            yield self.found(
                at,
                f"This starts {count} processes, and {named(launch)} is written for {facts.processes}: "
                + (
                    "ranks beyond them do not fit."
                    if count > facts.processes
                    else "it waits for others, or leaves out their part of the data."
                ),
                remedy="Leave the number out of the program: the launcher tells it to all ranks.",
                because=[("the number is written here", facts.processes_at)],
            )

    def _of_devices(self, launch: ProgramStart, facts: ProgramFacts, count: int, at: Location) -> Findings:
        """Lightning compares what its Trainer is told with what torchrun starts."""
        # Where nobody can say how many nodes it is told, it is as many as there are.
        devices, nodes = facts.devices, facts.nodes or launch.nodes or 1
        if launch.launcher not in OF_TORCH or devices is None or devices < 1 or "lightning" not in facts.frameworks:
            return
        if devices * nodes != count:
            yield self.found(
                at,
                f"This starts {count} processes, and the Trainer of {named(launch)} has `devices={devices}`: each ends "
                "with `ValueError: You set devices and num_nodes in Lightning, but the product does not match the "
                "world size`.",
                remedy='Write `devices="auto"`, or start as many processes as the Trainer is told.',
                because=[("the Trainer is made", facts.devices_at)],
                severity=Severity.ERROR,
            )

    def _of_settings(self, launched: Launched, file: LaunchFile, launch: ProgramStart) -> Findings:
        found = launched.engine_settings(file, launch)
        if found is None:
            return
        count = launch.world_size
        facts, steps = launched.program_of(file, launch), found.number(_STEPS)
        read = facts.settings_read if facts is not None else ()
        told = any(found in each.settings and os.path.realpath(each.path) in read for each in launched.files)
        if count is not None and launch.launcher is not StartedBy.PYTHON and not told:
            yield from self._of_batch(found, count, launch)
        if facts is not None and "transformers" in facts.frameworks:
            yield from self._disagree(found, told_by_command(launch, facts), launch.word.at)
            yield from self._of_whole_batch(found, launch)
        users = facts.engine_users if facts is not None else ()
        for user in users:
            if user.framework == "accelerate" and not user.path:
                yield from self._of_precision(found, user)
        if facts is None or facts.accumulation is None or steps is None or steps == facts.accumulation:
            return
        yield self.found(
            found.values[_STEPS].at,
            f"The program accumulates over {facts.accumulation} batches, and this file says {steps}: `Gradient "
            "accumulation steps mismatch`, and DeepSpeed's value counts.",
            remedy=f'Write `"{_STEPS}": "auto"`.',
            because=[("the program says so here", facts.accumulation_at)],
        )


def _overridden(launched: Launched, file: LaunchFile) -> bool:
    """A command that uses this file says how many processes there are itself."""
    return any(
        (option := launch.option("config-file")) is not None
        and (option.text is None or option.text.rpartition("/")[2] == file.shown.rpartition("/")[2])
        and (not launch.closed or launch.option("num-processes") is not None)
        for _, launch in launched.launches
        if launch.launcher is StartedBy.ACCELERATE
    )


def _taken(launch: ProgramStart) -> tuple[str, ...] | None:
    count, include = launch.option("num-gpus"), launch.option("include")
    if include is not None:
        text = include.text or ""
        host, _, listed = text.partition(":")
        return tuple(listed.split(",")) if host == "localhost" and listed and "@" not in text else None
    if count is None or count.number is None or (launch.nodes or 2) > 1:
        return None
    return tuple(map(str, range(count.number)))
