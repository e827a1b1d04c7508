"""The model is trained on the same batches in the same order, epoch after epoch.

## What goes wrong

`DataLoader` shuffles only when it is asked to, and `DistributedSampler(shuffle=False)` distributes the samples in their
order. Each batch then holds the same neighbours in each epoch, often of one class, since files lie sorted in folders:
gradients point where the last class was, batch norm learns the statistics of one class at a time, and the model ends
worse than it would have. No error is raised. `set_epoch` changes nothing about a sampler that does not shuffle.

## Fix

`shuffle=True` for a loader without a sampler; leave `shuffle=False` out for a `DistributedSampler`, and call
`sampler.set_epoch(epoch)` at the start of each epoch.

## Silent when

The loader is not used for training, or only once; the data are a stream, random numbers, a part that was drawn at
random (`random_split`, `Subset`), or something else shuffles anywhere in the program; the model is recurrent, or is
given what it computed in the previous iteration, and may read a text in order; whether it shuffles is a setting; the
loop trains with other data in another case, and mixes those; a framework other than Accelerate and Fabric, which keep
the order that they find, has the loader.

## Sources

https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader,
linyihaolyh/SRGAN-with-distributed-training.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Finding, Safety, Severity
from gpudoctor.lint.domain.data import Dataset, Loader, Sampler
from gpudoctor.lint.domain.module import Module
from gpudoctor.lint.domain.tensor import TensorOrigin
from gpudoctor.lint.domain.value import Value, Values
from gpudoctor.lint.events.data_loading import Iterate, MakeLoader, SetEpoch
from gpudoctor.lint.events.event_context import Loop
from gpudoctor.lint.events.knowledge import UseManaged
from gpudoctor.lint.flow.condition import Condition
from gpudoctor.lint.questions.layers import recurs
from gpudoctor.lint.questions.unseen_deeds import may_mix_data
from gpudoctor.lint.repair.repair import Counter, Either, First, Holds, RemoveArgument, Repair, SetArgument
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules.data._passes import LearningPass, escapes, first_name, repeating_loop, trained_with

IN_ORDER = "torch.utils.data.SequentialSampler"
FOR_RANKS = "torch.utils.data.distributed.DistributedSampler"


class TrainingDataNotShuffled(Rule):
    code = "GPU320"
    severity = Severity.WARNING
    shows_when = ("ranks.later_epochs",)
    fix_safety = Safety.SAFE
    needs = (Iterate,)

    def in_code(self, program: Program) -> Findings:
        if not program.whole or _dealt_anew(program):
            return
        for loader, training in trained_with(program).items():
            epochs = repeating_loop(program, training.start)
            # One pass has no order to repeat; numbers that are drawn at random have none at all.
            if epochs is None or loader.opaque or loader.made_up or escapes(program, loader):
                continue
            # What is gathered in these rounds is learnt from as a whole, behind them.
            if all(each.identity != epochs.identity for each in training.backward.loops):
                continue
            sampler = _kept_order(loader, training.when)
            if sampler is None or not _is_in_order(loader, training.when) or _recurs(program, training):
                continue
            # Who mixes the data beforehand, or on the way, may read it in order.
            if _is_for_another_run(program, loader, training) or may_mix_data(program):
                continue
            yield self._of(_as_written(program, loader), sampler, epochs, training, program.has(SetEpoch))

    def in_run(self, recording: Recording) -> Findings:
        for rank in recording.ranks[:1]:
            passes = [each for each in rank.training_passes if each.ended and not each.iterable]
            for first in passes:
                # What is drawn anew each time has other content at the same places.
                again = [each for each in passes if each.loader == first.loader and each.prints == first.prints]
                # A sampler that shuffles and repeats itself was not told the epoch, which is another mistake.
                if (
                    len(again) > 1
                    and any(first.prints)
                    and not first.shuffle
                    and first.sampler in _IN_ORDER
                    and first.made is not None
                ):
                    yield self.found(
                        first.made,
                        f"{len(again)} epochs trained on the same samples in the same order.",
                        remedy="Write `shuffle=True`, or leave `shuffle=False` out where a `DistributedSampler` is "
                        "made.",
                    )
                    return

    def _of(
        self, loader: Loader, sampler: Sampler | Loader, epochs: Loop, training: LearningPass, told: bool
    ) -> Finding:
        data = first_name(loader.dataset, "its data set")
        what, remedy = f"`{loader.label}` is not told to shuffle", "Pass `shuffle=True` here."
        if isinstance(sampler, Sampler):
            what = f"`{sampler.label}` does not shuffle"
            tell = "" if told else ", and call `set_epoch(epoch)` on it at the start of each epoch"
            remedy = f"Leave `shuffle=False` out{tell}."
            if sampler.made_by == IN_ORDER:
                remedy = "Use a `RandomSampler`, or with several ranks a `DistributedSampler`, instead."
        at = sampler.place if isinstance(sampler, Sampler) else loader.place
        return self.found(
            at,
            f"{what}: each epoch trains on the same batches of {data}, in the same order.",
            remedy=remedy,
            because=[
                ("which this loader asks for the order", loader.place),
                ("the model is trained on it here", training.start.location),
                ("again in each iteration of this loop", epochs.location),
            ],
            repair=_shuffle(loader, sampler, epochs, told),
        )


def _shuffle(loader: Loader, sampler: Sampler | Loader, epochs: Loop, told: bool) -> Repair | None:
    if isinstance(sampler, Loader):
        return Repair(
            "Shuffle the training data", (SetArgument(loader.place, "shuffle", ("True",), 2, over_plain=True),)
        )
    if sampler.made_by == IN_ORDER:
        return None
    at = epochs.location
    way = Either(((Holds(sampler),), (Holds(loader), ".sampler")))
    tell = First(at, ((way, ".set_epoch(", Counter(at), ")"),))
    left_out = RemoveArgument(sampler.place, "shuffle", 3)
    return Repair("Let the sampler shuffle", (left_out,) if told else (left_out, tell))


def _dealt_anew(program: Program) -> bool:
    """A framework makes loaders, or may give them another order."""
    leaving = program.leaving("loaders")
    return any(event.framework not in leaving and not event.one_by_one for event in program.events(UseManaged))


def _is_for_another_run(program: Program, loader: Loader, training: LearningPass) -> bool:
    """The same loop trains with other data where the user chooses so, and mixes those: this loader is for what is done
    without training, by a function that makes the loaders of all."""
    return any(
        other.dataset != loader.dataset
        and each.start.location == training.start.location
        and each.when.excludes(training.when)
        and not (_kept_order(other, each.when) is not None and _is_in_order(other, each.when))
        for other, each in trained_with(program).items()
    )


def _as_written(program: Program, loader: Loader) -> Loader:
    """The loader that the program has made, where a framework put another one in its place."""
    made = (event.loader for event in program.events(MakeLoader))
    same = (each for each in made if each.dataset == loader.dataset)
    return next(same, loader) if loader.managed else loader


def _kept_order(loader: Loader, when: Condition) -> Sampler | Loader | None:
    """What leaves the samples in their order on the paths of this pass: a sampler, or the loader itself."""
    given = [values.restrict(when) for values in (loader.sampler, loader.batch_sampler) if values is not None]
    if all(each.all(lambda value: value.is_none) for each in given):
        return loader if _is_off(loader.shuffle, when) else None
    samplers = [value for each in given for value in each if not value.is_none]
    only = samplers[0] if len(samplers) == 1 else None
    if not isinstance(only, Sampler) or _mixes_batches(only):
        return None
    base = only.base
    if base.made_by == IN_ORDER:
        return base
    # Left out it is True, unlike in a loader.
    return base if base.made_by == FOR_RANKS and base.shuffle is not None and _is_off(base.shuffle, when) else None


def _mixes_batches(sampler: Sampler) -> bool:
    """A batch sampler of the project may mix the batches."""
    return sampler.inner is not None and not sampler.made_by.startswith("torch.utils.data.")


def _is_off(shuffle: Values | None, when: Condition) -> bool:
    return shuffle is None or shuffle.restrict(when).all(lambda value: value.is_none or value.in_python is False)


def _is_in_order(loader: Loader, when: Condition) -> bool:
    """The data set answers the same index with the same sample, and nobody has mixed it."""
    return loader.dataset is not None and loader.dataset.restrict(when).all(_keeps_order)


def _keeps_order(value: Value | None) -> bool:
    if not isinstance(value, Dataset) or value.iterable is not False or value.draws:
        return False
    return not value.reordered and (value.parent is None or _keeps_order(value.parent))


def _recurs(program: Program, training: LearningPass) -> bool:
    """What the model computed is given to it again: a text is read on from where the last batch ended."""
    for call in program.calls_in_graph(training.backward):
        parts = program.within(call.module)
        # Its state is carried from batch to batch, often in a tuple that is not followed.
        if any(isinstance(part, Module) and recurs(part) for part in parts):
            return True
        for each in call.inputs:
            if each.origin is not TensorOrigin.OUTPUT:
                continue
            before = {program.forwards[one].module for one in each.forwards if one in program.forwards}
            # A detached state beside the batch; alone it is a picture that a generator has drawn.
            if call.module in before or (not each.forwards and len(call.inputs) > 1):
                return True
    return False


_IN_ORDER = ("SequentialSampler", "DistributedSampler")
