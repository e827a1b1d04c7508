"""Every rank loads a checkpoint onto the GPU that it was saved from, which is the first one.

## What goes wrong

A checkpoint remembers on which device each tensor was. Without `map_location`, `torch.load` puts it there again: rank
0 saved from `cuda:0`, so all ranks (the processes, one for each GPU) restore to `cuda:0`. Each of them keeps a copy
and a CUDA context there, and the first GPU runs out of memory. On a machine with fewer GPUs it ends with `Attempting
to deserialize object on CUDA device 1 but torch.cuda.device_count() is 1`.

## Fix

`map_location="cpu"`: `load_state_dict` copies from there to wherever the model is. Safe.

## Silent when

One process loads, or one process is all there is; what is loaded never becomes the state of a model or an optimizer, as
with data; each rank loads a file of its own; the program saves from the CPU; `map_location` is given in any form; a
model of a library gets another head after that, or a model becomes a part of another one that is saved as a whole, or
some of what is loaded comes into the model's own state, from no entry that the program saves: then the weights were
published, for the CPU, too.

## Sources

pytorch/pytorch#23138, pytorch/examples#969, NVIDIA/apex#222,
https://docs.pytorch.org/docs/stable/generated/torch.load.html.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.diagnostic import Finding, Location, Safety, Severity
from gpudoctor.lint.domain.module import Module
from gpudoctor.lint.domain.optim import Scheduler
from gpudoctor.lint.domain.value import Value
from gpudoctor.lint.events.files import Load, LoadState, Save
from gpudoctor.lint.events.model import Forward, PartExchanged, Wrap
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.questions.devices_compared import one_gpu, train_together
from gpudoctor.lint.repair.repair import Repair, SetArgument
from gpudoctor.rule import Findings, Program, Rule
from gpudoctor_rules._error_texts import OUT_OF_MEMORY
from gpudoctor_rules.device._choices import sees_own


class LoadWithoutMapLocation(Rule):
    code = "GPU209"
    severity = Severity.WARNING
    errors = (
        *OUT_OF_MEMORY,
        "RuntimeError: Attempting to deserialize object on CUDA device 1 but torch.cuda.device_count() is 1. Please "
        "use torch.load with map_location to map your storages to an existing device.",
    )
    fix_safety = Safety.SAFE
    needs = (Load,)

    def in_code(self, program: Program) -> Findings:
        # In one process the copy goes where it is wanted anyway. What no framework is handed, none places.
        if program.managed_by - program.leaving("placing") or not train_together(program) or sees_own(program):
            return
        restored = _restored(program)
        told: set[tuple[Location, ...]] = set()
        for load in program.events(Load):
            use = restored.get(load.result) if load.result is not None else None
            named = _gpu_of_all(load)
            # Data that is loaded stays with its batches; only a state is restored on every rank.
            if load.result is None or (load.names_device and not named) or load.led_there in told:
                continue
            # The rank that wrote a file of its own wrote it from its own GPU. A path from code that could not be read
            # may hold the rank as well.
            if not program.by_every_rank(load) or load.path_differs(Divergence.RANK | Divergence.UNREAD):
                continue
            if use is None:
                # It becomes the state of something unknown, perhaps.
                if load.result in program.escaped:
                    told.add(load.led_there)
                continue
            # Only what this program saves is known to hold tensors of a GPU.
            saved = _saved(program, load)
            if not named and (_from_cpu(program, use, saved) or (saved is None and _published(program, use))):
                continue
            told.add(load.led_there)
            yield self._finding(load, use, saved, _onto(program, use, named, saved))

    def _finding(self, load: Load, use: LoadState, saved: Save | None, onto: str) -> Finding:
        return self.found(
            at=load.location,
            message=f"Every rank loads this checkpoint {onto}: that GPU holds a copy for each rank and runs out of "
            "memory.",
            remedy='Load to the CPU: `torch.load(..., map_location="cpu")`. `load_state_dict` copies it to the '
            "device of the model.",
            because=[
                ("what was loaded becomes state here", use.location),
                ("it is saved here", saved.location if saved is not None else None),
            ],
            doubt="" if saved is not None else "Tensors that were saved from the CPU go there again.",
            repair=Repair("Load to the CPU", (SetArgument(load.location, "map_location", ('"cpu"',), 1),)),
            by=load,
            guarded=True,
        )


def _onto(program: Program, use: LoadState, named: str, saved: Save | None) -> str:
    """Which GPU it comes to."""
    if named:
        return f"onto `{named}`"
    # Another program wrote it, or nobody did who has a GPU.
    if saved is None and not _writes_its_kind(program, use):
        return "onto the GPU that it was saved from, if it was saved from one"
    return "onto the GPU that it was saved from, `cuda:0` as a rule"


def _gpu_of_all(load: Load) -> str:
    """The one GPU that is written there for all ranks; an empty text where there is none."""
    only = load.onto.single if load.onto is not None else None
    return f"cuda:{only.literal_index}" if only is not None and one_gpu(only) else ""


def _restored(program: Program) -> dict[Value, LoadState]:
    """What was loaded and becomes the state of a model or an optimizer, with the first place where it does."""
    found: dict[Value, LoadState] = {}
    for event in program.events(LoadState):
        # A scheduler keeps numbers, and none of them on a GPU.
        if event.loaded is not None and not isinstance(event.target, Scheduler):
            found.setdefault(event.loaded, event)
    return found


def _from_cpu(program: Program, use: LoadState, saved: Save | None) -> bool:
    """What was saved from the CPU is loaded there; a file that the program joins, or any of those that it writes, may
    be the one that it loads."""
    if saved is not None:
        return saved.on_cpu
    saves = [save for save in program.events(Save) if save.checkpoint]
    # A model that is only not moved, by mistake perhaps, lies on the GPU once that is mended.
    owners = {each.target.core for each in _uses(program, use)}
    alike = [save for save in saves if not save.states or any(each.state_of.core in owners for _, each in save.states)]
    return any(save.joins for save in saves) or (bool(alike) and all(save.copied for save in alike))


def _published(program: Program, use: LoadState) -> bool:
    """Weights for a model that gets another head then, for a part of another model, or for one of a library that is
    taken apart: they come from elsewhere, and such files are made to be loaded without a GPU."""
    # Those that a model has some of, too.
    if use.taken:
        return not use.entry or not _writes_its_kind(program, use)
    models = {each.target.core for each in _uses(program, use)}
    if any(each.parent in models and each.order > use.order for each in program.events(PartExchanged)):
        return True
    # The modules that others have taken in.
    parts = frozenset[Value]().union(*program.parts.values())
    elsewhere = models <= parts or all(map(_of_a_library, models))
    return elsewhere and not _writes_its_kind(program, use) and models.isdisjoint(_called(program) - parts)


def _uses(program: Program, use: LoadState) -> Iterator[LoadState]:
    """All that becomes state of what was loaded there."""
    return (each for each in program.events(LoadState) if each.loaded == use.loaded)


def _of_a_library(model: Value) -> bool:
    """Its weights may be had from those who made the library. Layers of PyTorch are what a program builds of."""
    made_by = model.made_by if isinstance(model, Module) and model.cls is None else "unknown"
    return made_by != "unknown" and not made_by.startswith("torch.nn.")


def _called(program: Program) -> set[Value]:
    """The models that are wrapped or called."""
    wrapped = {each.inner.core for each in program.events(Wrap)}
    return wrapped | {each.module.core for each in program.events(Forward)}


def _writes_its_kind(program: Program, use: LoadState) -> bool:
    """The program saves checkpoints like this one: the same model or optimizer, or an entry of the same name."""
    entries = {each.entry for each in _uses(program, use) if each.entry}
    owners = {each.target.core for each in _uses(program, use) if not each.entry}
    return any(
        # What is in it is not known.
        not save.states
        or any(entry in entries or (not entries and state.state_of.core in owners) for entry, state in save.states)
        for save in program.events(Save)
        if save.checkpoint and not save.on_cpu
    )


def _saved(program: Program, load: Load) -> Save | None:
    """Where this program writes the file that it loads."""
    for save in program.events(Save):
        # The very same path value, not the same text: two names built alike may still differ.
        if save.checkpoint and save.is_of(load):
            return save
    return None
