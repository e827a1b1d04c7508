"""Random numbers: the seed of the process, and generators with a seed of their own."""

from __future__ import annotations

from gpudoctor.lint.domain.abstract_state import GeneratorState
from gpudoctor.lint.domain.data import RandomGenerator
from gpudoctor.lint.domain.value import Anonymous, Unknown, Values, single_of
from gpudoctor.lint.events.event_context import agreement_on
from gpudoctor.lint.events.process import SeedSet
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.interface.library_call import MODELS, Call, LibraryContext, singleton
from gpudoctor.manifest.effects import SeedEffect


@MODELS.effect(SeedEffect)
def _seed(call: Call, effect: SeedEffect) -> Values:
    drawn = Unknown(Anonymous("drawn", call.allocation_site()), "drawn at random", call.label, Divergence.LOCAL)
    seed = call.given(effect.by) if effect.by else singleton(drawn)
    agreement = agreement_on(seed)
    call.emit(SeedSet, call=call.name, of=effect.of.split(), seed=agreement, guarded=call.do.launch.under_main_guard)
    return singleton(Unknown(Anonymous("generator"), "a generator", call.label) if effect.by else drawn)


@MODELS.callable("torch.Generator")
def _generator(call: Call) -> Values:
    return singleton(RandomGenerator(call.allocation_site(), call.place, call.label))


@MODELS.method(RandomGenerator, "manual_seed")
def _seed_generator(call: Call[RandomGenerator]) -> Values:
    seed = call.arg(0, "seed")
    if seed is not None:
        call.do.set_state(call.receiver, GeneratorState.seed, seed)
    return singleton(call.receiver)


def seed_of(do: LibraryContext, generator: Values | None) -> Values | None:
    """The seed that a generator was given; None where it has the one that all of them begin with, or is not known."""
    only = single_of(generator)
    return do.state(only, GeneratorState.seed) if isinstance(only, RandomGenerator) else None
