"""A rank uses "the current GPU" before it has chosen one, and that is the first GPU on every rank.

## What goes wrong

Until a process calls `torch.cuda.set_device`, its current GPU is `cuda:0`. Whatever does not name a GPU goes there, on
all ranks: a tensor on plain `cuda`, and the bytes of `all_gather_object` or `broadcast_object_list`. NCCL then ends
with `Duplicate GPU detected : rank 0 and rank 1 both on CUDA device`, or each rank leaves half a gigabyte on GPU 0.
A `barrier` has no tensor at all: NCCL takes the GPU whose number is the rank in the whole job modulo the GPUs of the
machine, and PyTorch warns that it guesses. That is the right one where each machine starts a process for each of its
GPUs, as most do; where it starts fewer, or machines differ, two ranks may wait on one GPU forever. So it is advice.

## Fix

`torch.cuda.set_device(local_rank)` as soon as the local rank is known, before anything touches a GPU. Unsafe: it
changes which GPUs are used, which is the point.

## Silent when

Models or batches themselves go to one GPU on all ranks, which is GPU204; a rank may have chosen its GPU before, by a
`with`, by `device_id=` of `init_process_group`, by `CUDA_VISIBLE_DEVICES` or in code that cannot be read; no program
calls these functions; the barrier names its `device_ids`, or the collective its `device`, or another collective has
shown NCCL the GPU; the backend is not NCCL; a framework chooses.

## Sources

NVIDIA/apex#222, pytorch/pytorch#60752, pytorch/pytorch#124714,
https://docs.pytorch.org/docs/stable/distributed.html.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.diagnostic import Safety, Severity
from gpudoctor.lint.domain.value import Value
from gpudoctor.lint.events.collective import Collective
from gpudoctor.lint.events.event_context import Event
from gpudoctor.lint.events.model import Wrap
from gpudoctor.lint.events.placement import DeviceUsed
from gpudoctor.lint.events.process import ArgumentDeclared, InitGroup
from gpudoctor.lint.questions.devices_compared import current_gpu, device_choices, several_choose
from gpudoctor.lint.repair.repair import After, Before, MoveUp, Repair
from gpudoctor.rule import Findings, Program, Rule
from gpudoctor_rules._error_texts import DUPLICATE_GPU
from gpudoctor_rules.device._choices import by_all, choose_own, may_have_chosen_before, one_visible
from gpudoctor_rules.device.all_ranks_on_one_gpu import first_choice, ready_to_choose


class DeviceNeverSet(Rule):
    code = "GPU206"
    severity = Severity.WARNING
    errors = (
        *DUPLICATE_GPU,
        "Guessing device ID based on global rank. This can cause a hang if rank to GPU mapping is heterogeneous.",
    )
    fix_safety = Safety.UNSAFE
    needs = (Collective, DeviceUsed, Wrap)

    def in_code(self, program: Program) -> Findings:
        # Who calls functions that nobody was seen to call may choose before.
        if not program.whole or not several_choose(program):
            return
        if one_visible(program) or first_choice(program) is not None:
            return
        found = [event for event in _uses(program) if _unchosen(program, event)]
        # What does go to GPU 0 says more than what may.
        event = next((event for event in found if not _guessed(event)), found[0] if found else None)
        if event is None:
            return
        later = next((used for used in device_choices(program) if used.order > event.order), None)
        choice = "no rank has chosen its own yet" if later else "no rank ever chooses its own"
        yield self.found(
            at=event.location,
            severity=Severity.INFO if _guessed(event) else None,
            message=f"{_what(event)}, and {choice}: {_harm(event)}",
            remedy="Choose the GPU first: `torch.cuda.set_device(local_rank)`, as soon as the local rank is known.",
            because=[
                *(("called from here", call) for call in event.context.calls[-1:]),
                ("the GPU of the rank is chosen only here", later.location if later else None),
            ],
            repair=_choose(program, event, later),
        )


def _choose(program: Program, event: Event, later: DeviceUsed | None) -> Repair:
    """As soon as the local rank is known, or right before the first use where that comes earlier."""
    title = "Choose the GPU of the rank first"
    if later is not None:
        return Repair(title, (MoveUp(later.location, event.location),))
    lines = choose_own(program)
    here = Repair(title, (Before(event.location, lines),))
    ready = ready_to_choose(program, event)
    return Repair(title, (After(ready, lines),), otherwise=here) if ready is not None else here


def _uses(program: Program) -> Iterator[Event]:
    """What goes to the current GPU without naming it, in order."""
    nccl, shown = _over_nccl(program), False
    for event in program.events(Collective, DeviceUsed, Wrap):
        if isinstance(event, DeviceUsed):
            if event.certain and current_gpu(event.device):
                yield event
        elif isinstance(event, Collective) and event.of_all_ranks and _without_tensor(event, shown):
            if nccl:
                yield event
        else:
            # NCCL remembers the GPU of the first tensor that it was given; a wrapper compares the models over it.
            shown = shown or not isinstance(event, Collective) or not (event.waits or event.makes_group)


def _without_tensor(event: Collective, shown: bool) -> bool:
    """NCCL has to find a GPU for it by itself; for a barrier it takes one that it was shown before. Objects are packed
    into a tensor there."""
    # Frameworks choose the GPU before.
    if event.by != "torch.distributed":
        return False
    if event.waits:
        return not shown and not event.uneven and "device_ids" not in event.arguments
    return event.objects and "device" not in event.arguments


def _unchosen(program: Program, event: Event) -> bool:
    return by_all(program, event) and not may_have_chosen_before(program, event)


def _is_nccl(backend: Value) -> bool:
    return backend.in_python == "nccl"


def _over_nccl(program: Program) -> bool:
    """Collectives run on GPUs: by NCCL, or by an option whose default it is."""
    usual = {
        option.name
        for option in program.events(ArgumentDeclared)
        if option.default is not None and option.default.all(_is_nccl)
    }
    backends = [init.backend for init in program.events(InitGroup)]
    return bool(backends) and all(
        values is not None and values.all(lambda value: _is_nccl(value) or _option(value) in usual)
        for values in backends
    )


def _option(value: Value) -> str:
    """The name of the option that the user may set: `backend` of `args.backend`."""
    return value.label.rpartition(".")[2] if value.config else ""


def _what(event: Event) -> str:
    if not isinstance(event, Collective):
        return "This goes to the current GPU"
    return "This barrier is for GPUs" if event.waits else f"`{event.call}` sends through the current GPU"


def _guessed(event: Event) -> bool:
    return isinstance(event, Collective) and event.waits


def _harm(event: Event) -> str:
    if _guessed(event):
        return (
            "NCCL guesses which one, the number of the rank modulo the GPUs of the machine. That is another one than "
            "the rank's own where a machine starts fewer processes than it has GPUs."
        )
    return "all ranks use GPU 0 for it."
