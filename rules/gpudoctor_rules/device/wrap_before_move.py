"""A model is wrapped in DistributedDataParallel while it is still on the CPU.

## What goes wrong

`DistributedDataParallel` takes the model where it is. Given `device_ids` for a model on the CPU, its constructor ends
with `ValueError: DistributedDataParallel device_ids and output_device arguments only work with
single-device/multiple-device GPU modules or CPU modules, but got device_ids [0], output_device None, and module
parameters {device(type='cpu')}.`. Without `device_ids` the NCCL backend, which works on GPUs only, ends with `No
backend type associated with device type cpu`. Moving the model after the wrap comes too late.

## Fix

Move the model before the wrap: `model.to(local_rank)`. Unsafe: lint has to guess which name is the right device.

## Silent when

The model moves itself, was made on a GPU, comes from code that could not be read, or some path moves it; no
`device_ids` are given and the backend can work on the CPU.

## Sources

zai-org/CogVLM#328, THUDM/SwissArmyTransformer#173,
https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Safety, Severity
from gpudoctor.lint.domain.rank import Rank
from gpudoctor.lint.events.model import Wrap
from gpudoctor.lint.events.process import InitGroup
from gpudoctor.lint.questions.names import name_of
from gpudoctor.lint.repair.repair import Holds, Repair, Replace, Source
from gpudoctor.lint.repair.snippets import local_rank
from gpudoctor.record import replace
from gpudoctor.rule import CrashText, Findings, Program, Rule


class WrapBeforeMove(Rule):
    code = "GPU207"
    severity = Severity.ERROR
    errors = (
        "ValueError: DistributedDataParallel device_ids and output_device arguments only work with "
        "single-device/multiple-device GPU modules or CPU modules, but got device_ids [0], output_device 0, and "
        "module parameters {device(type='cpu')}.",
    )
    fix_safety = Safety.UNSAFE
    shows_when = ("ended_well",)
    needs = (Wrap,)
    looks_at = ((Wrap, "model_on_cpu"),)
    crash = CrashText(
        "device_ids and output_device arguments only work with",
        because="the model was not on the GPU that `device_ids` names",
        remedy="Move the model to its GPU first, and wrap it then.",
    )

    def in_code(self, program: Program) -> Findings:
        for wrap in fails_at_wrap(program):
            model = name_of(wrap.inner.core)
            yield self.found(
                at=wrap.location,
                message=f"{model} is still on the CPU when DistributedDataParallel {_how(wrap)}: "
                "every rank ends with an error here.",
                remedy="Move the model to the GPU of its rank before the wrap: `.to(local_rank)`.",
                because=[("the model is made here, on the CPU", wrap.inner.core.place)],
                repair=_move(program, wrap),
                by=wrap,
                needs=wrap.chosen_where,
            )


def _move(program: Program, wrap: Wrap) -> Repair:
    ids = wrap.ids[0].index if wrap.ids and wrap.ids[0] is not None else None
    # The number that the wrapper is given is that of the GPU.
    number = Holds(ids) if isinstance(ids, Rank) else local_rank(spawned=program.spawned)
    title = "Move the model to the GPU first"
    steps = [
        Repair(title, (Replace(wrap.location, (Source(wrap.location, part), ".to(", number, ")"), part=part),))
        for part in ("0", "module")
    ]
    return replace(steps[0], otherwise=steps[1])


def fails_at_wrap(program: Program) -> list[Wrap]:
    """The wraps whose constructor raises, because the model is on the CPU."""
    gpu_only = _gpu_only(program)
    wraps = (wrap for wrap in program.events(Wrap) if wrap.is_ddp and wrap.model_on_cpu)
    # Without `device_ids` DDP trains on the CPU with gloo: only NCCL refuses.
    return [wrap for wrap in wraps if wrap.inner.core not in program.escaped and (_has_ids(wrap) or gpu_only)]


def _has_ids(wrap: Wrap) -> bool:
    # DDP takes an empty list for None.
    return wrap.names_ids is True and wrap.ids != ()


def _gpu_only(program: Program) -> bool:
    """Every process group of the program is one of NCCL alone."""
    backends = [init.only_backend for init in program.events(InitGroup)]
    # No backend given means gloo for the CPU beside NCCL for GPUs, with which such a model trains.
    return bool(backends) and all(each == "nccl" for each in backends)


def _how(wrap: Wrap) -> str:
    return "is given `device_ids` for it" if _has_ids(wrap) else "wraps it, and NCCL works on GPUs only"
