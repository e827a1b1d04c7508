"""The same model is wrapped again in every iteration of a loop.

## What goes wrong

Each wrap sends all weights and buffers to every rank, allocates new buckets for the gradients and hooks them to the
parameters. Where the result takes the place of the model, the second epoch trains a wrapper around a wrapper: gradients
are averaged twice, weights are saved under `module.module.…`, and each epoch takes more memory and time than the one
before. `FullyShardedDataParallel` of an already sharded model fails.

## Fix

Wrap once, before the loop. No automatic fix: what the loop does between the wraps has to keep its meaning.

## Silent when

Each iteration builds a model of its own, or wraps another one of several; a test leads to the wrap only where it is not
done yet; nothing is trained in the loop.

## Sources

SuperbTUM/Faster-Distributed-Training (`amp.initialize` and `DataParallel` inside the loop over epochs),
https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.domain.module import UNSEEN, Wrapper, WrapperKind
from gpudoctor.lint.events.event_context import Loop
from gpudoctor.lint.events.model import Wrap
from gpudoctor.lint.events.training_step import Backward
from gpudoctor.lint.questions.names import name_of
from gpudoctor.rule import Findings, Program, Recording, Rule


class WrappedInLoop(Rule):
    code = "GPU121"
    severity = Severity.ERROR
    shows_when = ("ranks.wraps",)
    needs = (Wrap,)
    looks_at = ((Wrap, "loops"),)

    def in_code(self, program: Program) -> Findings:
        for wrap in program.events(Wrap):
            if not _is_wrapper(wrap):
                continue
            # The outermost loop explains it best: that of the epochs, not that of the steps.
            found = next((each for each in _earlier_rounds(program, wrap)), None)
            if found is None:
                continue
            kind = wrap.kind
            yield self.found(
                wrap.location,
                f"{name_of(wrap.inner)} is wrapped again in every iteration of a loop: " + _harm(wrap, kind),
                remedy="Wrap it once, before the loop.",
                because=[("in this loop", found.location)],
                by=wrap,
            )

    def in_run(self, recording: Recording) -> Findings:
        for rank in recording.ranks[:1]:
            for first in rank.wraps:
                again = [
                    wrap
                    for wrap in rank.wraps
                    if wrap.place == first.place and (wrap.nested or wrap.inner == first.inner)
                ]
                if len(again) > 1 and first.place is not None:
                    yield self.found(
                        first.place,
                        f"The model was wrapped {len(again)} times here: each wrapper averages the gradients again.",
                        remedy="Wrap it once, before the loop.",
                    )
                    return


def _harm(wrap: Wrap, kind: WrapperKind) -> str:
    if isinstance(wrap.inner, Wrapper):
        return f"from the second one on, `{kind.value}` stands around `{kind.value}`."
    if kind is WrapperKind.DATA_PARALLEL:
        return "what the wrapper is for was done in the first one."
    return "each time all weights are broadcast, and new buckets are made."


def _is_wrapper(wrap: Wrap) -> bool:
    # `prepare` of a framework knows what it has prepared; compiling again changes nothing.
    kinds = (WrapperKind.DDP, WrapperKind.DATA_PARALLEL, WrapperKind.FSDP)
    return wrap.kind in kinds and wrap.certain


def _earlier_rounds(program: Program, wrap: Wrap) -> Iterator[Loop]:
    """The training loops of which an earlier round wrapped the same model here."""
    earlier = [other for other in program.events(Wrap) if other.order < wrap.order]
    for loop in wrap.loops:
        # The first round wraps a bare model, as it should.
        again = loop.pass_ > 0 and loop.repeats and any(_again(loop, wrap, other) for other in earlier)
        if again and _trains_right_inside(program, loop):
            yield loop


def _again(loop: Loop, wrap: Wrap, other: Wrap) -> bool:
    # Another model in each iteration is what folds and ensembles do.
    core = wrap.inner.core
    same = other.location == wrap.location and other.inner.core == core
    # What code that was not read gives may be a new one each time that it is asked.
    if not isinstance(wrap.inner, Wrapper) and core.made_by == UNSEEN:
        return False
    # `if epoch == 5:`, as after layers were thawed, is another test in each iteration: it may hold in one of them only.
    first = any(each.identity == loop.identity and each.pass_ == 0 for each in other.loops)
    return same and first and wrap.condition.implies(other.condition)


def _trains_right_inside(program: Program, loop: Loop) -> bool:
    """Its rounds are epochs or steps of one training: what trains is in it, with at most the loop over batches between.

    A loop over models or folds has the whole training of each in it, epochs and all.
    """
    # How many loops stand between: none for steps, one for epochs over batches.
    depths = [
        len(backward.loops) - index
        for backward in program.during(loop, Backward)
        for index, each in enumerate(backward.loops, 1)
        if each.identity == loop.identity
    ]
    return bool(depths) and min(depths) <= 1
