"""Random numbers of `torch`: the seed of the process, and generators with a seed of their own."""

from __future__ import annotations

from gpudoctor.lint.flow.condition import Dependence
from gpudoctor.lint.models.api import MODELS, Call, Interpreter, one
from gpudoctor.lint.values.base import Unknown, Values
from gpudoctor.lint.values.data import RandomGenerator
from gpudoctor.lint.values.event import SeedSet

_SEED = "seed"
"""The fact that holds the seed of a generator."""


@MODELS.callable(
    "torch.manual_seed", "torch.cuda.manual_seed", "torch.cuda.manual_seed_all", "torch.random.manual_seed"
)
def _seed(call: Call) -> Values:
    call.emit(SeedSet, call=call.name, seed=call.arg(0, "seed"), guarded=call.do.under_main_guard)
    return one(Unknown(("generator",), "a generator", call.label))


@MODELS.callable("torch.seed", "torch.random.seed")
def _seed_by_chance(call: Call) -> Values:
    drawn = one(Unknown(("drawn", call.identity()), "drawn at random", call.label, Dependence.LOCAL))
    call.emit(SeedSet, call=call.name, seed=drawn, guarded=call.do.under_main_guard)
    return drawn


@MODELS.callable("torch.Generator")
def _generator(call: Call) -> Values:
    return one(RandomGenerator(call.identity(), call.place, call.label))


@MODELS.method(RandomGenerator, "manual_seed")
def _seed_generator(call: Call) -> Values:
    assert call.receiver is not None
    seed = call.arg(0, "seed")
    if seed is not None:
        call.do.set_fact(call.receiver, _SEED, seed)
    return one(call.receiver)


def seed_of(do: Interpreter, generator: Values | None) -> Values | None:
    """The seed that a generator was given; None where it has the one that all of them begin with, or is not known."""
    only = generator.only if generator is not None else None
    return do.fact(only, _SEED) if isinstance(only, RandomGenerator) else None
