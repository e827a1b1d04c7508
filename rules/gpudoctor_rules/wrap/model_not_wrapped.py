"""Several processes train a model that no wrapper keeps in sync.

## What goes wrong

Training on several GPUs starts the same program once for each GPU; each such process is called a rank. PyTorch does not
know that the ranks belong together just because a process group exists. Unless the model is wrapped, each rank computes
gradients from its own batches and applies only those. `DataParallel` is no such wrapper: it serves the GPUs of one
process. No error is raised. The ranks train separate models, rank 0 saves its own, and the work of the other GPUs is
thrown away.

## Fix

Wrap the model once it is on its GPU, and call the wrapper in the training loop: it averages the gradients over the
ranks during `backward()`. Unsafe, because the training changes; that is the point. Checkpoints are then written from
`model.module` and loaded into it, so that they are those of the bare model as before.

## Silent when

No process group is made; the model or its optimizer is passed to code that could not be read; a framework such as
Accelerate is in charge (Ray and DeepSpeed wrap only what they are given); the program sends gradients or parameters
between the ranks itself (a run names those that do so and began with different weights), or the results of models that
are made anew again and again; only some ranks train; nothing is stepped, or only once; the model's own `forward` calls
collectives, as where each rank holds a part of it.

## Sources

https://docs.pytorch.org/tutorials/intermediate/ddp_tutorial.html, innnky/so-vits-svc#70, speechbrain/speechbrain#1517,
kubeflow/pytorch-operator#122.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Safety, Severity
from gpudoctor.lint.domain.module import Module, StateDict, WrapperKind
from gpudoctor.lint.events.collective import Collective
from gpudoctor.lint.events.files import LoadState, Save
from gpudoctor.lint.events.knowledge import UseManaged
from gpudoctor.lint.events.model import Forward, ForwardTalks, PartsNamed, Wrap
from gpudoctor.lint.events.placement import Move
from gpudoctor.lint.events.process import InitGroup
from gpudoctor.lint.events.training_step import Backward, MakeOptimizer, OptimizerStep
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.questions.gradient_use import averaged_by_hand, is_repeated, stepped_after
from gpudoctor.lint.questions.names import name_of
from gpudoctor.lint.repair.repair import (
    After,
    Always,
    Code,
    Either,
    Holds,
    Imported,
    Repair,
    RepairStep,
    Replace,
    Source,
)
from gpudoctor.lint.repair.snippets import local_rank, own
from gpudoctor.rule import DriftText, Findings, Program, Recording, Rule

if TYPE_CHECKING:
    from gpudoctor.api.pack import Condition, Location, Value
    from gpudoctor.run.recording import Drift

_BY_PYTORCH = "`DistributedDataParallel(..., device_ids=[local_rank])`"


class ModelNotWrapped(Rule):
    code = "GPU101"
    severity = Severity.ERROR
    fix_safety = Safety.UNSAFE
    shows_when = ("distributed", "trained")
    of_ranks = True
    needs = (Backward,)
    # Whether all ranks train on the same data, or the same stream, matters where they train together.
    reveals = ("GPU301", "GPU309")
    drift = DriftText(
        "a wrapper averages the gradients of another model, and this one is in no wrapper",
        "Wrap it in `DistributedDataParallel`, too, or both in one module.",
    )

    def in_code(self, program: Program) -> Findings:
        # An absence can only be claimed where everything was read; a framework wraps out of our sight.
        if not program.absence(knows=program.leaving("wrapping")):
            return
        # Hand-made averaging, local SGD and ensembles are not wrapped on purpose.
        if averaged_by_hand(program) or _each_rank_saves_its_own(program):
            return
        told: set[Value] = set()
        lacking = program.lacks_group
        for backward in program.events(Backward):
            group = _group(program, backward.condition)
            # Without a group each process may be a job of its own; a training of some ranks only needs no partner.
            if group is None or not program.on_both_sides(backward) or not backward.complete:
                continue
            if not is_repeated(backward):
                continue
            for call in program.calls_in_graph(backward):
                # A wrapper that knows of other processes is none of these.
                model = call.module.core_under(WrapperKind.COMPILED, WrapperKind.DATA_PARALLEL)
                # A GAN has several models in one loss; each of them needs a wrapper.
                if model is None or model in told or not _alone(program, model):
                    continue
                # Gradients that no optimizer uses, as of a frozen teacher, cannot drive the ranks apart.
                step = stepped_after(program, backward, model)
                if step is None or _is_auxiliary(program, step):
                    continue
                told.add(model)
                yield self.found(
                    backward.location,
                    f"{name_of(model)} is trained on every rank but never wrapped: each rank applies only its own "
                    "gradients and trains a model of its own, all but one of which are thrown away.",
                    remedy=f"Once {name_of(model)} is on its GPU, wrap it in {own(program, 'wraps_by') or _BY_PYTORCH} "
                    "and call the wrapper in the training loop.",
                    because=[
                        *([("the ranks meet in a process group here", group.location)] if group is not lacking else []),
                        (f"{name_of(model)} is made here", model.place),
                        ("it is called here", call.location),
                    ],
                    # What takes the place of DataParallel is not only one more wrapper.
                    repair=_wrap(program, model, call)
                    if call.module.core_under(WrapperKind.COMPILED) is not None and not program.frameworks
                    else None,
                    needs=step.condition,
                )

    def in_run(self, recording: Recording) -> Findings:
        yield from super().in_run(recording)
        drift = recording.drift
        # Tensors that the ranks exchange by themselves speak of another way to train one model. Gradients that come too
        # late (GPU509) drive the ranks apart, too.
        if drift is None or any(rank.wraps or rank.stepped_early for rank in recording.ranks):
            return
        at = drift.place
        if at is not None and _begin_apart(recording, drift):
            yield self.found(
                at,
                f"The gradients of all ranks are added up by hand, and after step {drift.step} the ranks held "
                f"different values in parameter {drift.name}: they did not begin with the same weights, and apply "
                "the gradients of several models to each.",
                remedy="Broadcast the parameters and buffers from rank 0 before the first step, or wrap the model in "
                "`DistributedDataParallel`, which does both.",
            )
        elif at is not None and not recording.averages_by_hand:
            yield self.found(
                at,
                f"After step {drift.step} the ranks held different values in parameter {drift.name}, and nothing was "
                "wrapped: each rank trains a model of its own.",
                remedy="Wrap the model in `DistributedDataParallel(model, device_ids=[local_rank])`, and call the "
                "wrapper.",
            )


def _begin_apart(recording: Recording, drift: Drift) -> bool:
    """They differ from the first step on, before which the ranks have added up each gradient."""
    checks = [each for each in recording.ranks[0].checks if each.optimizer == drift.optimizer.number]
    first = checks[:2]
    whole = all(0 < each.reduced >= len(each.sums) - each.without_gradient for each in first)
    return len(first) > 1 and whole and drift.step == first[0].step


def _wrap(program: Program, model: Module, call: Forward) -> Repair:
    """Behind the last move of the model, or where it is made: there it is on its GPU."""
    moves = [move for move in program.events(Move) if move.subject.core == model and move.order < call.order]
    at = moves[-1].location if moves else model.place
    # A program that also runs on CPUs moves to a device that it has chosen; without ids the wrapper serves both.
    for_gpus = bool(moves) and moves[-1].call == "cuda" and call.on_gpu
    named: Code = (Always(at), ", device_ids=[", local_rank(spawned=program.spawned), "]")
    ids: Code = (Either((named, ("",))),) if for_gpus else ()
    wrapper = Imported("torch.nn.parallel.DistributedDataParallel")
    line: Code = (Holds(model), " = ", wrapper, "(", Holds(model), *ids, ")")
    # `if torch.cuda.is_available(): model.cuda()`: where there is no GPU, the ranks train one model, too.
    wrap = After(at, (line,), until=(*call.context.calls, call.location))
    return Repair("Wrap the model once it is on its GPU", (wrap, *_keep_names(program, model, at)))


def _keep_names(program: Program, model: Module, wrapped: Location) -> Iterator[RepairStep]:
    """What is saved, loaded or asked for by name behind the wrap has the names of the bare model: so have the files."""
    after = max((event.order for event in program.at(wrapped)), default=0)
    saved = [(save.order, state.place) for save in program.events(Save) for state in _states(save, model)]
    changed = {place for order, place in saved if order > after}
    loads = [load for load in program.events(LoadState) if load.target == model]
    others = [load for load in program.events(LoadState) if load.target != model]
    saved += [(load.order, each.place) for load in others for each in load.taken if each.owner == model]
    loaded = [(load.order, load.location) for load in loads if _has_bare_names(load, model, wrapped, changed)]
    named = [(each.order, each.location) for each in program.events(PartsNamed) if each.module == model]
    for place in dict.fromkeys(place for order, place in (*saved, *loaded, *named) if order > after):
        yield Replace(place, (Source(place, "receiver"), ".module"), part="receiver")


def _has_bare_names(load: LoadState, model: Module, wrapped: Location, changed: set[Location]) -> bool:
    """What is loaded is a file's, or was taken from the bare model: what the wrapper gives, the wrapper takes back."""
    kept = [each for each in load.taken if each.owner == model]
    before = (each.place.path == wrapped.path and each.place.line < wrapped.line for each in kept)
    return all(early or each.place in changed for each, early in zip(kept, before, strict=True))


def _states(save: Save, model: Module) -> Iterator[StateDict]:
    return (state for _, state in save.states if isinstance(state, StateDict) and state.owner == model)


def _group(program: Program, when: Condition) -> InitGroup | UseManaged | None:
    # Only a group made on a path that this training can share says that the ranks belong together.
    for made in program.events(InitGroup, UseManaged):
        makes = isinstance(made, InitGroup) or made.several
        if makes and not made.condition.excludes(when):
            return made
    return None


def _each_rank_saves_its_own(program: Program) -> bool:
    """Files are named by rank: the ranks train a model each on purpose."""
    saves = [save for save in program.events(Save) if save.checkpoint]
    # One rank saves a model for all of them: what each of them writes is something else.
    if any(save.states and save.rank_guards and not save.path_differs(Divergence.RANK) for save in saves):
        return False
    return any(save.path_differs(Divergence.RANK) for save in saves)


def _is_auxiliary(program: Program, step: OptimizerStep) -> bool:
    """It is one of many, made anew in each iteration of a loop, and the ranks tell each other what came out of them."""
    made = (each for each in program.events(MakeOptimizer) if each.optimizer == step.optimizer)
    sent = (each for each in program.events(Collective) if each.objects and each.order > step.order)
    several = any(loop.repeats for each in made for loop in each.loops)
    return several and any(each.gives_tensors for each in sent)


def _alone(program: Program, model: Module) -> bool:
    """Nothing of the model is wrapped, it is no part of one that is, and it is in nobody else's hands."""
    related = program.within(model)
    classes = {each.cls for each in related if isinstance(each, Module)}
    # Each rank holds a part of the classes, or of each layer, and the forward gets what it needs from the others.
    if any(each.module.cls in classes for each in program.events(ForwardTalks)):
        return False
    for wrap in program.events(Wrap):
        core = wrap.inner.core
        # DataParallel serves the GPUs of one process, and tells the other processes nothing.
        if wrap.is_data_parallel:
            continue
        # A wrapped part counts as well: whoever wraps the backbone only has thought about the rest.
        if core in related or wrap.wrapper in related or model in program.within(core):
            return False
    # Unread code that holds the model may wrap it: then nothing is known about what is absent.
    return not any(related & program.within(value) for value in program.escaped if value.is_model)
