"""`python train.py` trains with the Trainer of Transformers on all GPUs by `nn.DataParallel`.

## What goes wrong

Started without a launcher, the `Trainer` of Transformers puts the model into `torch.nn.DataParallel` as soon as it sees
more than one GPU. One process copies the model to all of them in every step: slower than one process for each GPU,
and with a batch as many times larger as there are GPUs. One line of the log tells: `Training with DataParallel so batch
size has been adjusted to`.

## Fix

Start it with a launcher: `torchrun --nproc-per-node=gpu train.py`, and let the program refuse to start without one.
Or show it one GPU, `CUDA_VISIBLE_DEVICES=0`. No automatic fix.

## Silent when

A launch file starts several processes of the program, or the project names a launcher with it; it asks for what a
launcher tells its processes, or is told a setting of several, such as `ddp_backend`; it chooses which GPUs it sees, or
the launch file that starts it shows it one. Where no launch file shows it several, it is advice for who asks for it.

## Sources

https://huggingface.co/docs/transformers/perf_train_gpu_many; `Trainer._wrap_model` of transformers 5.23.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.events.knowledge import UseManaged
from gpudoctor.lint.events.launch_world import LaunchWorld
from gpudoctor.lint.events.process import EnvironmentWrite
from gpudoctor.record import replace
from gpudoctor.rule import Findings, Program, Rule


class SilentDataParallel(Rule):
    code = "GPU952"
    severity = Severity.WARNING
    advises_if_named = True
    needs = (UseManaged,)

    def in_code(self, program: Program) -> Findings:
        gpus = program.shown_gpus
        if not program.has_entry or program.launched_in_several or (gpus is not None and gpus < 2):
            return
        # A launch file that shows several to one process leaves no doubt.
        if gpus is None and program.documented.launchers_naming_it():
            return
        if any(each.name == "CUDA_VISIBLE_DEVICES" for each in program.events(EnvironmentWrite)):
            return
        for charge in program.events(UseManaged):
            if charge.framework == "transformers" and charge.trains:
                shown = "several" if gpus is None else gpus
                told = self.found(
                    charge.location,
                    f"Started by `python` on {shown} GPUs, this trainer copies the model to all of them in every step, "
                    "by `nn.DataParallel`: one process for each GPU is faster.",
                    remedy="Start it with a launcher: `torchrun --nproc-per-node=gpu`.",
                    # Only a launch file tells that it sees several.
                    severity=Severity.INFO if gpus is None else Severity.WARNING,
                )
                # However it was followed: it is what one process does.
                yield replace(told, world=LaunchWorld.SINGLE.value)
                return
