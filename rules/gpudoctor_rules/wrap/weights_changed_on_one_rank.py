"""The weights of a wrapped model are loaded or set on some ranks only, or drawn anew by each rank.

## What goes wrong

`DistributedDataParallel` sends the weights of rank 0 to all ranks when it is made, and never again: from then on it
relies on every rank making the same steps. Where only rank 0 loads a checkpoint or takes over averaged weights
afterwards, or each rank draws its own numbers, the ranks go on from different weights. No error is raised; gradients of
different models are averaged.

## Fix

Load and initialise before the wrap, on rank 0 or on all ranks; after it, on every rank. No automatic fix, because what
stands between may need the wrapper.

## Silent when

All ranks reach the place, also through the other branch; the program broadcasts weights itself; the model is wrapped
again, or not trained after it; the wrapper was given a process group, which may have just these members; numbers are
drawn after one seed that is the same on all ranks.

## Sources

karpathy/nanoGPT#22, NVlabs/stylegan2-ada-pytorch#127.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.domain.module import Module, Wrapper
from gpudoctor.lint.domain.value import Value
from gpudoctor.lint.events.acting_place import under_the_test
from gpudoctor.lint.events.event_context import Event, ranks_in_words
from gpudoctor.lint.events.files import LoadState
from gpudoctor.lint.events.model import WeightsDrawn, WeightsSet
from gpudoctor.lint.events.process import SeedSet
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.questions.gradient_use import averaged_by_hand
from gpudoctor.lint.questions.names import name_of
from gpudoctor.rule import DriftText, Findings, Program, Rule
from gpudoctor_rules.wrap._later import ddp_around, trained_after

WeightsChanged = LoadState | WeightsDrawn | WeightsSet


class WeightsChangedOnOneRank(Rule):
    code = "GPU119"
    severity = Severity.ERROR
    shows_when = ("distributed", "trained")
    needs = (LoadState, WeightsDrawn, WeightsSet)
    looks_at = ((LoadState, "rank_guards"), (WeightsDrawn, "location"), (WeightsSet, "rank_guards"))
    drift = DriftText(
        "the weights were changed on some ranks only, after the wrapper had made them alike",
        "Change the weights on all ranks alike, or before the model is wrapped.",
    )

    def in_code(self, program: Program) -> Findings:
        for event in _changes(program):
            module = _changed(event)
            wrap = ddp_around(program, module, event) if isinstance(module.core, Module) else None
            if wrap is None:
                continue
            # With a group of its own all members of it may get here.
            if event.rank_guards and isinstance(wrap.wrapper, Wrapper) and not wrap.wrapper.of_every_rank:
                continue
            # To send weights around by hand is as good as another wrap.
            how = _differs(program, event)
            if not how or averaged_by_hand(program, seldom=True) or trained_after(program, wrap, event) is None:
                continue
            yield self.found(
                under_the_test(event, event.rank_guards),
                f"{name_of(wrap.wrapper)} is wrapped already, and {how}: the ranks then train different weights.",
                remedy="Do it before the wrap, which sends the weights of rank 0 to all, or alike on every rank.",
                because=[("wrapped here", wrap.location), ("and here it happens", event.location)],
                by=event,
            )


def _changes(program: Program) -> list[WeightsChanged]:
    return [*program.events(LoadState, WeightsDrawn), *program.events(WeightsSet)]


def _changed(event: WeightsChanged) -> Value:
    # The events name the same thing by other words.
    return event.target if isinstance(event, LoadState) else event.module


def _differs(program: Program, event: WeightsChanged) -> str:
    """Why ranks have other weights after it, an empty text where they surely or perhaps have not."""
    drawn = isinstance(event, WeightsDrawn)
    # A guard may have its counterpart: `if rank == 0: load(a) else: load(b)`.
    if event.rank_guards:
        alone = not program.on_both_sides(event) and not _elsewhere_too(program, event)
        how = "loads" if isinstance(event, LoadState) else "draws" if drawn else "sets"
        return f"{how} its weights on {ranks_in_words(event)}" if alone else ""
    # What all ranks load is the same file, as far as anybody can tell.
    if not drawn or not program.by_every_rank(event) or program.managed_by:
        return ""
    return "every rank draws different values for its weights" if _seeded_apart(program, event) else ""


def _elsewhere_too(program: Program, event: WeightsChanged) -> bool:
    """Other ranks change the weights of the same model at another place."""
    return any(
        (other.location, other.context.calls) != (event.location, event.context.calls)
        and _changed(other).core == _changed(event).core
        # `if rank == 0: load(a) else: load(b)`, or a later load of all.
        and (bool(other.rank_guards) or other.order > event.order)
        for other in _changes(program)
    )


def _seeded_apart(program: Program, event: Event) -> bool:
    """Each rank has a seed of its own."""
    seeds = [seed for seed in program.events(SeedSet) if seed.order < event.order and "torch" in seed.of]
    if not seeds:
        # Code that was not read may have chosen one.
        return not program.escaped and not program.lost
    # Only the last seed counts: what was drawn before it is forgotten.
    last = seeds[-1].seed
    return last is not None and bool(last.surely & Divergence.RANK)
