"""Every rank uses the same GPU, the first one, and the others stay idle.

## What goes wrong

A distributed program runs as several processes, the ranks, one for each GPU. Each has to choose its own. `cuda:0` is
the first GPU for all of them, and so is `cuda` or `.cuda()` as long as no rank has called `torch.cuda.set_device`, and
`cuda:{args.gpu}` where a launcher gives all of them the same options. Then all ranks share one GPU: it runs out of
memory, or NCCL stops with `Duplicate GPU detected : rank 0 and rank 1 both on CUDA device`, or training just runs on
one GPU at a fraction of the speed. A model that is only evaluated, put on `cuda:0` beside a training that is
distributed correctly, costs memory there for each rank: that is a warning.

Where the program itself sets `CUDA_VISIBLE_DEVICES` to one number for all ranks, each of them sees that GPU alone:
`cuda:1` ends in `CUDA error: invalid device ordinal`.

## Fix

Read the local rank, call `torch.cuda.set_device(local_rank)` first thing, and use `cuda` or `cuda:<local rank>` from
there on. Unsafe: it changes which GPUs are used, which is the point.

## Silent when

`CUDA_VISIBLE_DEVICES` is set by the program for each process, or to a number that is not known; a rank chooses its GPU
in any file, or by a `with`, even where that corrects an earlier choice before anything is on a GPU; only some ranks get
there; the branch is for one process; it is passed to a framework, which chooses; a framework has made the GPU of the
process the current one before, as `Accelerator()` and `trainer.fit` do; the program sets `RANK` to a number,
so that each rank is a copy of it that is started by hand; the processes that a program starts make no process group, as
those that share the memory of one model.

## Sources

facebookresearch/msn#24, NVIDIA/Megatron-LM#661, Peterande/D-FINE#289,
https://docs.pytorch.org/docs/stable/generated/torch.cuda.set_device.html.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.diagnostic import Finding, Location, Safety, Severity
from gpudoctor.lint.domain.device import Device
from gpudoctor.lint.domain.module import Module
from gpudoctor.lint.domain.tensor import TensorOrigin
from gpudoctor.lint.domain.value import Value
from gpudoctor.lint.events.acting_place import entered
from gpudoctor.lint.events.event_context import Event
from gpudoctor.lint.events.knowledge import Escape, Prepare, UseManaged
from gpudoctor.lint.events.model import Wrap
from gpudoctor.lint.events.placement import DeviceUsed, Move, TensorKept
from gpudoctor.lint.events.process import EnvironmentRead, EnvironmentWrite, InitGroup
from gpudoctor.lint.flow.condition import Literal
from gpudoctor.lint.questions.devices_compared import (
    as_text,
    asked_gpu,
    certain_device,
    current_gpu,
    device_choices,
    devices_managed,
    one_gpu,
    several_choose,
    unless_on_cpu,
)
from gpudoctor.lint.repair.repair import After, Repair, RepairStep, Replace, Substitute
from gpudoctor.lint.repair.snippets import local_rank, local_rank_of, own
from gpudoctor.rule import Findings, Program, Rule
from gpudoctor_rules._error_texts import DUPLICATE_GPU, OUT_OF_MEMORY
from gpudoctor_rules.device._choices import (
    by_all,
    choose_own,
    lacks_variable,
    may_have_chosen,
    on_own_gpus,
    one_visible,
    overruled,
    shown_to_all,
    started_by_hand,
)


class AllRanksOnOneGpu(Rule):
    code = "GPU204"
    severity = Severity.ERROR
    errors = (*DUPLICATE_GPU, *OUT_OF_MEMORY)
    fix_safety = Safety.UNSAFE
    needs = (DeviceUsed, Move)

    def in_code(self, program: Program) -> Findings:
        if devices_managed(program):
            yield from self._beside_own(program)
            return
        # Without a group the processes may be jobs of their own, to which the scheduler gave a GPU each.
        if not several_choose(program) or started_by_hand(program):
            return
        shown = shown_to_all(program) if _come_together(program) else None
        if shown is not None:
            yield self._sees_one(shown)
        if one_visible(program):
            return
        # Actors and learners that share the memory of a model live where it is, and are no ranks. Nor may those be of
        # which it was not seen that they come together.
        if program.first_worker or not (_come_together(program) or program.absence()):
            return
        found = first_choice(program)
        if found is None:
            yield from self._beside_own(program) if on_own_gpus(program) else ()
            return
        event, device = found
        chosen = device.chosen_by
        gpu = f"the GPU that `{chosen}` names" if chosen else f"`cuda:{device.literal_index or 0}`"
        spread = on_own_gpus(program)
        beside = bool(spread) and isinstance(event, Move) and not any(_is_of(program, event, wrap) for wrap in spread)
        yield self.found(
            at=event.location,
            message=f"{_what(event, device)}, and that is {gpu} on every rank: {_cost(bool(spread), beside)}.",
            remedy="Put it on the GPU of the rank, or make it on the one rank that uses it."
            if beside
            else f"Let each rank take its own GPU: `local_rank = {local_rank_of(program)}`, then "
            "`torch.cuda.set_device(local_rank)` before anything is moved, and `cuda` or `cuda:<local rank>` after it.",
            because=[("the device is named here", device.place)],
            # It costs memory on the first GPU, and the training itself is spread as meant.
            severity=Severity.WARNING if spread else None,
            needs=_chosen_by(event),
            repair=None if beside else _take_own(program, event, device),
        )

    def _sees_one(self, shown: EnvironmentWrite) -> Finding:
        number = shown.text or "one"
        return self.found(
            at=shown.location,
            message=f"`CUDA_VISIBLE_DEVICES` is set to `{number}` for all ranks: each of them sees that GPU alone, so "
            "`cuda:1` ends in `CUDA error: invalid device ordinal`, and what says `cuda` shares one GPU.",
            remedy="Set it in the command that starts the program, or name as many GPUs as there are processes.",
            # It may be there for the days on which one process is started.
            severity=Severity.WARNING,
        )

    def _beside_own(self, program: Program) -> Findings:
        """Each rank has a GPU, from a framework perhaps, and the program puts something on the first one."""
        if not program.launched_in_several or one_visible(program):
            return
        placed: Iterator[Move | DeviceUsed] = program.events(Move, DeviceUsed)
        found = (each for each in placed if _takes_the_first(program, each))
        event = next((each for each in found if by_all(program, each)), None)
        if event is None:
            return
        device = event.device if isinstance(event, DeviceUsed) else certain_device(event.device)
        number = (device.literal_index or 0) if isinstance(device, Device) else 0
        model = isinstance(event, Move) and isinstance(event.subject.core, Module)
        asked = own(program, "device")
        subject = f"`{event.subject.label}`" if isinstance(event, Move) and event.subject.label else "This tensor"
        cost = (
            "all of them crowd that one, which runs out of memory"
            if model
            else "other ranks end with `RuntimeError: Expected all tensors to be on the same device`"
        )
        named = f"`{asked}`" if asked else "the device of what it meets"
        early = isinstance(device, Device) and current_gpu(device)
        # A helper that is told the right device by others is right itself.
        others = (each for each in program.events(type(event)) if each.location == event.location)
        yield self.found(
            entered(event, [each for each in others if each.device != event.device]),
            f"{subject} is put on `cuda:{number}` by every rank, though each has a GPU of its own: {cost}.",
            remedy=f"Put it there once the framework has chosen the GPU of the process: on {named}."
            if early
            else f"Name no number: take {f'`{asked}`, or ' if asked else ''}the device of what it meets.",
            because=[("the device is named here", device.place if isinstance(device, Device) else None)],
            severity=Severity.WARNING,
        )


def _takes_the_first(program: Program, event: Move | DeviceUsed) -> bool:
    if isinstance(event, DeviceUsed):
        return event.purpose == "factory" and event.certain and _is_one(event.device)
    target = certain_device(event.device)
    core = event.subject.core
    # What the framework takes over, it moves itself.
    taken = any(core in program.within(each.given.core) for each in program.events(Prepare))
    return target is not None and (one_gpu(target) or _comes_too_early(program, event, target)) and not taken


def _comes_too_early(program: Program, move: Move, device: Device) -> bool:
    """`.cuda()` is the first GPU until a framework makes that of the process the current one."""
    if not current_gpu(device) or move.order > program.gpu_chosen_at:
        return False
    choices = (*device_choices(program), *(each for each in program.events(Escape) if each.may_choose_gpu))
    if any(each.order < move.order for each in choices):
        return False
    core = move.subject.core
    if any(each.order > move.order and each.subject.core == core for each in program.events(Move)):
        return False
    # What a module registers it takes along.
    kept = any(each.tensor.place == move.location for each in program.events(TensorKept))
    return kept or isinstance(core, Module) or move.context.function != "__init__"


def _is_one(device: Value) -> bool:
    return isinstance(device, Device) and one_gpu(device)


def _come_together(program: Program) -> bool:
    wraps = any(not wrap.is_data_parallel for wrap in program.events(Wrap))
    averaged = any(event.averages for event in program.events(UseManaged))
    return wraps or averaged or program.has(InitGroup) or program.may_begin_group


def _is_of(program: Program, move: Move, wrap: Wrap) -> bool:
    """What is moved is the model that is wrapped, a part of it, or a batch."""
    core = move.subject.core
    return not isinstance(core, Module) or core in program.within(wrap.inner) or wrap.inner in program.within(core)


def _cost(spread: bool, beside: bool) -> str:
    if beside:
        return "each keeps a copy there, though it trains on a GPU of its own"
    if spread:
        return "each copies through that GPU first and keeps memory there"
    return "all processes share one GPU, and the others stay idle"


def _take_own(program: Program, event: DeviceUsed | Move, device: Device) -> Repair | None:
    """Choose the GPU of the rank first, and say only `cuda` from there on; or name it where a number stands."""
    title = "Let each rank take its own GPU"
    rank = local_rank(spawned=lacks_variable(program))
    if isinstance(event, DeviceUsed):
        return Repair(title, (Replace(event.location, (rank,), part="0", constant=True),))
    ready = ready_to_choose(program, event)
    if ready is None or device.chosen_by:
        return None
    steps: list[RepairStep] = [After(ready, choose_own(program))]
    if device.literal_index is not None and device.place is not None:
        steps.append(Substitute(device.place, as_text(device), ('"cuda"',), in_file=True))
    return Repair(title, tuple(steps))


def ready_to_choose(program: Program, event: Event) -> Location | None:
    """Behind which line the GPU of the rank can be chosen: the group is made, and the local rank was read."""
    known = [each for each in program.events(InitGroup, EnvironmentRead) if each.order < event.order]
    last = [each for each in known if not isinstance(each, EnvironmentRead) or each.name == "LOCAL_RANK"]
    groups = [each for each in last if isinstance(each, InitGroup)]
    if not groups:
        return None
    # Read for another purpose, in another place, it is of no use.
    near = [each for each in last if each.context.frames == groups[0].context.frames]
    return near[-1].location


def first_choice(program: Program) -> tuple[DeviceUsed | Move, Device] | None:
    """The first thing that puts every rank on one GPU, and which."""
    # `set_device` comes first: it decides where all that says `cuda` goes, so the rest would be a consequence.
    for used in program.events(DeviceUsed):
        # A number from one of several paths is often the single-process default.
        device = used.device if used.purpose == "set_device" and used.certain else None
        if isinstance(device, Device) and one_gpu(device) and by_all(program, used) and not overruled(program, used):
            return used, device
    # Batches follow the model as a rule, so they are blamed only where it has a place of its own.
    for wanted in (_is_model, _is_batch):
        for move in program.events(Move):
            # A launcher gives all of them the same options.
            asked = asked_gpu(move.device, counted=move.call == "cuda") if program.told_alike else None
            target = asked or certain_device(unless_on_cpu(move.device))
            if target is None or not wanted(move) or not by_all(program, move):
                continue
            # `cuda` without a number is the first GPU only as long as nobody has called `set_device`.
            if one_gpu(target) or asked or (current_gpu(target) and not may_have_chosen(program, move)):
                return move, target
    return None


def _chosen_by(event: DeviceUsed | Move) -> list[Literal]:
    """What settings must say for it to go to a GPU."""
    gpu = unless_on_cpu(event.device) if isinstance(event, Move) else None
    return [need for each in gpu.bindings for need in each.condition] if gpu is not None else []


def _what(event: DeviceUsed | Move, device: Device) -> str:
    if isinstance(event, DeviceUsed):
        return "Every rank chooses its GPU by the same number"
    label = f"`{event.subject.label or 'This'}`"
    if not current_gpu(device):
        return f"{label} is moved to a GPU by its number"
    return f"{label} is moved to the current GPU, which no rank has chosen"


def _is_model(move: Move) -> bool:
    """A module that may have weights; a loss function without them takes up no GPU."""
    module = move.subject.core
    # A criterion is moved by habit; blaming its line would hide the one that matters.
    return isinstance(module, Module) and module.parameters is not False


def _is_batch(move: Move) -> bool:
    return move.subject.origin is TensorOrigin.BATCH
