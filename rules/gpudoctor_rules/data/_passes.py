"""Passes over data: which loops over a loader make the model learn, and which loop repeats them."""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.data import Loader, Sampler
from gpudoctor.lint.domain.module import WrapperKind
from gpudoctor.lint.domain.tensor import TensorOrigin
from gpudoctor.lint.domain.value import Value, Values
from gpudoctor.lint.events.collective import Collective
from gpudoctor.lint.events.data_loading import Iterate, MakeLoader, MakeSampler
from gpudoctor.lint.events.event_context import Loop
from gpudoctor.lint.events.knowledge import UseManaged
from gpudoctor.lint.events.model import Forward, Wrap
from gpudoctor.lint.events.process import InitGroup
from gpudoctor.lint.events.training_step import Backward
from gpudoctor.lint.flow.condition import Condition
from gpudoctor.lint.questions.made_of import each_of
from gpudoctor.record import dataclass
from gpudoctor.rule import Program


@dataclass(frozen=True)
class LearningPass:
    """A pass over the batches of a loader, and the backward with which a model learns from them."""

    loader: Loader
    start: Iterate
    backward: Backward

    @property
    def when(self) -> Condition:
        """What must hold for the pass and its backward."""
        return self.start.condition.and_(self.backward.condition)


def training_passes(program: Program) -> Iterator[LearningPass]:
    """The passes in which a model learns from the batches."""
    for start in program.events(Iterate):
        if (backward := _backward_of(program, start, start.loader)) is not None:
            yield LearningPass(start.loader, start, backward)


def trained_with(program: Program) -> dict[Loader, LearningPass]:
    """The first training pass over each loader."""
    found: dict[Loader, LearningPass] = {}
    for each in training_passes(program):
        # Later passes over the same loader have the same mistake.
        found.setdefault(each.loader, each)
    return found


def _backward_of(program: Program, start: Iterate, loader: Loader) -> Backward | None:
    again = next((each.order for each in program.iterations_of(loader) if _surely_after(each, start)), None)
    for backward in program.events(Backward):
        # Loaders drawn by `next(iter(loader))` have no loop: there the graph tells what is learnt from.
        if backward.order < start.order or backward.condition.excludes(start.condition):
            continue
        if _inside(backward, start.loop):
            return backward
        # What is learnt behind another pass comes from that one.
        if (again is None or backward.order < again) and _learns_from(program, backward, loader):
            return backward
    return None


def _surely_after(one: Iterate, other: Iterate) -> bool:
    return one.order > other.order and not one.condition.difference(other.condition)


def _inside(backward: Backward, loop: Loop | None) -> bool:
    """The loop is the innermost one over batches around the backward: not an evaluation around it, nor one beside."""
    if loop is None:
        return False
    # A validation in the middle of training stands inside the training loop, and must not be taken for it.
    around = [each for each in backward.loops if each.over is not None]
    return bool(around) and around[-1].identity == loop.identity


def _learns_from(program: Program, backward: Backward, loader: Loader) -> bool:
    # What is computed of a batch before the model sees it, is no part of a batch any more.
    return loader in backward.loss.shards or any(_reads(call, loader) for call in program.calls_in_graph(backward))


def _reads(call: Forward, loader: Loader) -> bool:
    # What stands for the batches of too many loaders is a share of each.
    return any(each.batch_of == loader or loader in each.shards for each in call.inputs)


def repeating_loop(program: Program, start: Iterate) -> Loop | None:
    """The innermost loop that passes over this very loader in more than one of its rounds: the loop over epochs."""
    rounds: dict[object, set[int]] = {}
    # One pass of one loader proves nothing; only a second round over the same object is an epoch.
    for each in program.iterations_of(start.loader):
        for loop in each.loops:
            rounds.setdefault(loop.identity, set()).add(loop.pass_)
    outside = [loop for loop in start.loops if start.loop is None or loop.identity != start.loop.identity]
    return next((loop for loop in reversed(outside) if len(rounds[loop.identity]) > 1), None)


def samplers_of(loader: Loader, when: Condition) -> list[Sampler] | None:
    """The samplers that pick the indices, on paths where `when` holds; None where that is not known for all of them."""
    found: list[Sampler] = []
    for given in (loader.sampler, loader.batch_sampler):
        for value in given.restrict(when) if given is not None else ():
            if isinstance(value, Sampler):
                found.append(value.base)
            # A sampler that could not be read may be distributed.
            elif not value.is_none:
                return None
    return found


def unused_samplers(program: Program) -> list[Sampler]:
    """The distributed samplers that no loader was given, and no code that could not be read."""
    made = [event.sampler for event in program.events(MakeSampler)]
    # A batch sampler hands the indices of the sampler inside on, so that one is in use.
    batched = {each.base for each in made if each.base != each}
    loaders = [event.loader for event in program.events(MakeLoader)]
    given = {
        each.base
        for loader in loaders
        for value in (*(loader.sampler or ()), *(loader.batch_sampler or ()))
        for each in each_of(value)
        if isinstance(each, Sampler)
    }
    return [
        each
        for each in made
        if each.distributed
        # What wraps a sampler is reported by way of the one inside.
        and each.inner is None
        and each not in batched | given
        and not escapes(program, each)
    ]


def where_averaged(together: Wrap | UseManaged | InitGroup | Collective) -> list[tuple[str, Location]]:
    """What shows that the ranks train one model, for a finding; nothing where it is only meant."""
    if isinstance(together, InitGroup):
        return []
    who = "the program adds up" if isinstance(together, Collective) else "the model averages"
    return [(f"{who} its gradients over the ranks", together.location)]


def trained_together(program: Program, training: LearningPass) -> Wrap | UseManaged | InitGroup | Collective | None:
    """What makes the ranks train one model, or should, where the user starts several processes of a program for one."""
    return program.lacks_group or synchronised(program, training) or _added_up(program, training)


def _added_up(program: Program, training: LearningPass) -> Collective | None:
    """Where the program itself adds up the gradients of all ranks."""
    sums = (each for each in program.events(Collective) if each.adds_up and not each.condition.excludes(training.when))
    return next((each for each in sums if each.subject is not None and each.subject.any(_is_gradient)), None)


def _is_gradient(value: Value) -> bool:
    return value.origin is TensorOrigin.GRADIENT


def synchronised(program: Program, training: LearningPass) -> Wrap | UseManaged | None:
    """What makes the ranks train one model, and does not exclude this pass."""
    # These average over ranks; `DataParallel` splits each batch itself.
    kinds = (WrapperKind.DDP, WrapperKind.FSDP)
    wraps = [event for event in program.events(Wrap) if event.kind in kinds]
    averaging: list[Wrap | UseManaged] = [*wraps, *(each for each in program.events(UseManaged) if each.averages)]
    return next((event for event in averaging if not event.condition.excludes(training.when)), None)


def escapes(program: Program, *values: Value) -> bool:
    """One of these objects was passed to code that could not be read."""
    return any(value in program.escaped for value in values)


def is_name(label: str) -> bool:
    """The label is a name that the program has given to the object, not the name of its class."""
    # `DistributedSampler.set_epoch(...)` would be advice that cannot be typed.
    # What is too long for a label ends with dots.
    *_, last = parts = label.split(".")
    return all(part.isidentifier() for part in parts) and not last[:1].isupper()


def first_name(values: Values | None, default: str) -> str:
    """What the program calls the first of these that it has named, for a message."""
    labels = (value.label for value in values or ())
    return next((f"`{label}`" for label in labels if is_name(label)), default)
