"""Samplers that must be told the epoch: which loops repeat them, and who tells them."""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.lint.domain.data import Dataset, Loader, Sampler
from gpudoctor.lint.domain.value import Value
from gpudoctor.lint.events.data_loading import IndexIgnored, SetEpoch, Streamed
from gpudoctor.lint.events.event_context import Loop
from gpudoctor.lint.events.knowledge import SILENT_SAMPLER, Escape
from gpudoctor.lint.flow.condition import Literal
from gpudoctor.lint.questions.loop_bounds import chosen_to_repeat
from gpudoctor.record import dataclass
from gpudoctor.rule import Program
from gpudoctor_rules.data._passes import (
    LearningPass,
    escapes,
    is_name,
    repeating_loop,
    samplers_of,
    trained_with,
    training_passes,
)


@dataclass(frozen=True)
class Repeated:
    """A sampler that shuffles for a pass over its loader, which the loop `epochs` repeats."""

    sampler: Sampler
    training: LearningPass
    epochs: Loop
    told: tuple[SetEpoch, ...]
    """The calls of `set_epoch` on it."""

    @property
    def way_to_say(self) -> str:
        """How to reach the sampler in the loop, by the names that the program has given."""
        # A sampler made inside the call of the loader has no name; its loader is the way to it.
        if is_name(self.sampler.label):
            return self.sampler.label
        kept = self.training.loader.keeps_sampler_as
        return f"{self.loader if is_name(self.loader) else 'loader'}.{kept}"

    @property
    def call(self) -> str:
        """The call that is missing, as it is written in the loop."""
        # What is made in another file has other names here.
        if self.sampler.place.path != self.epochs.location.path:
            return "`set_epoch(epoch)` on this sampler"
        return f"`{self.way_to_say}.set_epoch(epoch)`"

    @property
    def subject(self) -> str:
        """What a message calls the sampler."""
        if is_name(self.sampler.label):
            return f"`{self.sampler.label}`"
        return f"the sampler of `{self.loader}`" if is_name(self.loader) else "the sampler"

    @property
    def batched(self) -> bool:
        """The loader holds it inside of a batch sampler."""
        given = self.training.loader.batch_sampler
        return any(isinstance(value, Sampler) and value.base == self.sampler for value in given or ())

    @property
    def loader(self) -> str:
        return self.training.loader.label

    @property
    def needs(self) -> list[Literal]:
        """That a second epoch comes, where the user says how many there are."""
        return chosen_to_repeat(self.epochs)

    @property
    def doubt(self) -> str:
        """Where the program does not say that the sampler shuffles."""
        return "" if self.sampler.surely_shuffles else "Whether this sampler shuffles is not known."


def repeated_samplers(program: Program) -> Iterator[Repeated]:
    """The distributed samplers that shuffle for training, epoch after epoch, and whose life is known in full."""
    # That nobody calls `set_epoch` can only be said where all calls are known.
    if not program.absence(knows=program.leaving("epochs")) or _somebody_unknown_is_told(program):
        return
    seen: set[Sampler] = set()
    by_epoch = {event.source for event in program.events(Streamed) if event.by_epoch}
    passes = list(training_passes(program))
    for training in passes:
        same = [training]
        epochs = repeating_loop(program, training.start)
        if epochs is None:
            # A loader that is made anew in each epoch repeats the order just as well: its seed is the same.
            epochs, same = _remaking_loop(program, training, passes)
        # Not known for all paths: then one of them may be a sampler that counts epochs itself.
        for sampler in samplers_of(training.loader, training.when) or ():
            if epochs is None or sampler in seen or not (sampler in by_epoch or _shuffles_for_ranks(program, sampler)):
                continue
            # Samplers of one line stand for one: telling either of them is telling it.
            twins = {twin for each in same for twin in samplers_of(each.loader, each.when) or ()} | {sampler}
            seen |= twins
            if not any(escapes(program, each.loader) for each in same) and not _may_be_told(program, twins):
                loaders = {each.loader for each in same}
                # Anywhere in the program: callbacks and hooks call it far away from the loop.
                told = (event for event in program.events(SetEpoch) if _reaches(event, twins, loaders))
                yield Repeated(sampler, training, epochs, tuple(told))


def _may_be_told(program: Program, samplers: set[Sampler]) -> bool:
    """One of them was passed to code that could not be read, and may call its `set_epoch`."""
    handed = (event for event in program.events(Escape) if event.into != SILENT_SAMPLER)
    return any(not samplers.isdisjoint(event.values) for event in handed)


def told_instead(program: Program, repeated: Repeated) -> SetEpoch | None:
    """A call in the loop over the epochs that tells a sampler which no model is trained with, and which need not be
    told."""
    trained = {
        sampler
        for loader, training in trained_with(program).items()
        for sampler in samplers_of(loader, training.when) or ()
    }
    # Only there it can be a mistake about which sampler; elsewhere it may belong to another training.
    in_loop = program.during(repeated.epochs, SetEpoch)
    return next(
        (
            event
            for event in in_loop
            if (target := _sampler_of(event)) and target not in trained
            # An evaluation in another order each time is told for its own sake.
            if not _shuffles_for_ranks(program, target)
        ),
        None,
    )


def _shuffles_for_ranks(program: Program, sampler: Sampler) -> bool:
    # Other samplers draw from the global generator, which moves on by itself.
    if not sampler.distributed or sampler.sets_own_epoch:
        return False
    # Where items are drawn at random whatever the index, the order of indices means nothing.
    drawn = [event.dataset for event in program.events(IndexIgnored)]
    if any(isinstance(each, Dataset) and (each.draws or each.source in drawn) for each in sampler.dataset or ()):
        return False
    return sampler.may_shuffle


def _sampler_of(event: SetEpoch) -> Sampler | None:
    return event.target.base if isinstance(event.target, Sampler) else None


def _remaking_loop(
    program: Program, training: LearningPass, passes: list[LearningPass]
) -> tuple[Loop | None, list[LearningPass]]:
    """The loop that trains one model with a loader which it makes anew in each iteration, always in the same way."""
    rounds = {loop.identity: loop for loop in training.start.loops}
    for other in passes:
        # Another model in another round is a new training, as in cross-validation: it may start anew.
        if not _is_made_like(other, training) or not _modules(program, other) & _modules(program, training):
            continue
        for loop in reversed(other.start.loops):
            # The same loop in another round is what makes it a repetition.
            if loop.identity in rounds and loop.pass_ != rounds[loop.identity].pass_:
                return rounds[loop.identity], [training, other]
    return None, [training]


def _is_made_like(other: LearningPass, training: LearningPass) -> bool:
    samplers = samplers_of(training.loader, training.when) or []
    seeded = any(
        # `seed=epoch` is the other way to get a new order in each epoch.
        each.seed is not None and not each.seed.all(lambda value: value.is_constant)
        for each in samplers
    )
    return (
        other.loader.place == training.loader.place and other.loader.dataset == training.loader.dataset and not seeded
    )


def _modules(program: Program, training: LearningPass) -> set[Value]:
    return {call.module for call in program.calls_in_graph(training.backward)}


def _reaches(event: SetEpoch, samplers: set[Sampler], loaders: set[Loader]) -> bool:
    """The call is meant for one of these samplers, if only by way of its loader, which has no such method."""
    # `loader.set_epoch` fails, and GPU306 says so; reporting that nobody calls it would be a second finding.
    return _sampler_of(event) in samplers or event.target in loaders


def _somebody_unknown_is_told(program: Program) -> bool:
    # The unknown object may be, or hold, this very sampler.
    return any(not isinstance(event.target, (Sampler, Loader, Dataset)) for event in program.events(SetEpoch))
