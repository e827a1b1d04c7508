"""Which ranks come to an event: one, some, or each of them."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cached_property

from gpudoctor.lint.domain.heuristics import RANK
from gpudoctor.lint.domain.provenance import provenance_of
from gpudoctor.lint.domain.symbols import asks_setting_for_rank
from gpudoctor.lint.domain.value import Anonymous, term_of
from gpudoctor.lint.events.collective import Collective, LeaveLoop
from gpudoctor.lint.events.data_loading import Iterate, MakeSampler
from gpudoctor.lint.events.event_context import Event
from gpudoctor.lint.events.files import Save
from gpudoctor.lint.events.knowledge import UseManaged
from gpudoctor.lint.events.launch_world import LaunchWorld
from gpudoctor.lint.events.model import Forward, ModeChange
from gpudoctor.lint.events.placement import DeviceUsed
from gpudoctor.lint.events.process import InitGroup, Spawn
from gpudoctor.lint.events.reporting import MetricShown
from gpudoctor.lint.events.training_step import Backward, ClearGradients, OptimizerStep, TakeGradient
from gpudoctor.lint.flow.condition import Condition, Divergence, PassedBy, disjunction
from gpudoctor.lint.program.execution_log import ExecutionLog
from gpudoctor.record import dataclass


@dataclass(frozen=True, kw_only=True)
class LogOfRanks(ExecutionLog):
    """What an execution has done, as one or several processes of a launch."""

    world: LaunchWorld

    def by_one_process(self, event: Event) -> bool:
        """The process that starts the others does this, or the only one there is."""
        if self.world is not LaunchWorld.SPAWN:
            return self.world is LaunchWorld.SINGLE
        return not any(spawn.location in event.context.calls for spawn in self.events(Spawn))

    @property
    def log_of_ranks(self) -> tuple[Event, ...]:
        """The events without what the process that starts the ranks does alone, be it a training of its own."""
        if self.world is not LaunchWorld.SPAWN:
            return self.log
        return tuple(each for each in self.log if not (isinstance(each, _DEEDS) and self.by_one_process(each)))

    def by_every_rank(self, event: Event) -> bool:
        """Each of several processes does this: no test that asks for the rank, or may, lets only some pass."""
        by = event.condition.passed_by
        passed = by is PassedBy.EVERY_RANK or (by is PassedBy.UNCERTAIN and self._whichever_it_is(event))
        alone = self.by_one_process(event) or self.without_others(event)
        asked = any(map(asks_setting_for_rank, event.condition.literals))
        met = self.has_entry or (event.context.frames[:2] in self._met_in and not _asks_caller(event)) or self.whole
        return met and passed and not alone and not asked

    @cached_property
    def _met_in(self) -> frozenset[Hashable]:
        """Of a file that starts nothing the outermost frames in which ranks meet: all of them call these functions."""
        meeting = (*self._starts, *self.events(Collective), *(each for each in self.events(Backward) if each.managed))
        surely = (each for each in meeting if each.condition.passed_by is PassedBy.EVERY_RANK)
        return frozenset(each.context.frames[:2] for each in surely)

    def _whichever_it_is(self, event: Event) -> bool:
        """The same is done to the other object of a choice: `model.save_pretrained()`, of one of two models."""
        same = self._by_way.get((type(event), event.led_there), ())
        either = (disjunction(event.condition, each.condition) for each in same if each.loops == event.loops)
        return any(each is not None and each.passed_by is PassedBy.EVERY_RANK for each in either)

    @cached_property
    def _by_way(self) -> dict[Hashable, list[Event]]:
        """The events of a kind to which the same calls lead: a loop over callbacks has thousands."""
        ways: dict[Hashable, list[Event]] = {}
        for event in self.log:
            ways.setdefault((type(event), event.led_there), []).append(event)
        return ways

    @cached_property
    def on_own_gpu(self) -> frozenset[Condition]:
        """What had to hold where a rank uses the GPU that it chooses by its number."""
        used = (each for each in self.events(DeviceUsed) if each.device.divergence & Divergence.RANK)
        return frozenset(each.condition for each in used)

    def without_others(self, event: Event) -> bool:
        """Nothing on its way starts several processes: it is of a command that trains in one, beside those that train
        in more."""
        return bool(self._starts) and all(start.condition.excludes(event.condition) for start in self._starts)

    @cached_property
    def _starts(self) -> tuple[Event, ...]:
        several = (event for event in self.events(UseManaged) if event.several)
        # Of frameworks that may train in one process as well, whatever takes charge.
        return (*self.events(InitGroup), *self.events(Spawn), *several) or tuple(self.events(UseManaged))

    def on_both_sides(self, event: Event) -> bool:
        """All ranks come here: no test on the rank leads here, or its other side leads to the very same place.

        `if rank == 0: train(writer) else: train(None)` trains on every rank.
        """
        guards = event.condition.depending_on(Divergence.RANK)
        if not guards:
            return True
        others = (each.negated() for each in guards[:1]) if len(guards) == 1 else ()
        return any(
            other.location == event.location and other.condition.depending_on(Divergence.RANK) == (negated,)
            for negated in others
            for other in self.events(type(event))
        )


_DEEDS = (
    Backward,
    ClearGradients,
    Collective,
    Forward,
    Iterate,
    LeaveLoop,
    MakeSampler,
    MetricShown,
    ModeChange,
    OptimizerStep,
    Save,
    TakeGradient,
)
"""What is over when it is done, and a sampler, which ranks make for themselves. What else is made, moved or loaded may
be handed to them."""


def _asks_caller(event: Event) -> bool:
    """A test on its way asks what the caller of a function hands over as its rank, as far as the name can tell."""
    terms = (term_of(part) for each in event.condition for part in provenance_of(each))
    given = (term.of for term in terms if isinstance(term, Anonymous) and term.kind == "parameter")
    return any(isinstance(each, tuple) and RANK.fits(each[-1]) for each in given)
