"""`fully_shard` is given the layers of a model, and never the model itself.

## What goes wrong

`fully_shard` (FSDP2) takes the parameters of the module that it is given, except those that an earlier call has taken.
What no call takes stays an ordinary parameter, whole on each rank (each process, one for each GPU), and nobody averages
its gradient: mostly the embeddings, the last norm and the head, which lie beside the layers. No error is raised. Each
rank trains them on its own batches alone, so that the ranks soon compute with different models, while the sharded
layers in between stay in sync.

## Fix

After the layers, shard the model itself, before the optimizer is made: that takes all that is left. Unsafe, because the
training changes; that is the point.

## Silent when

The model, or what it is a part of, is given to `fully_shard`, `replicate`, `DistributedDataParallel` or
`FullyShardedDataParallel` on some path; it is not known which parts were sharded; what is left takes no gradient, or no
optimizer has it; the program sends gradients or parameters between the ranks itself; a framework is in charge.

## Sources

https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html,
https://docs.pytorch.org/tutorials/intermediate/FSDP_tutorial.html.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Safety, Severity
from gpudoctor.lint.domain.module import Module
from gpudoctor.lint.domain.value import Value
from gpudoctor.lint.events.model import Forward, ForwardTalks, GradientFlag, Wrap
from gpudoctor.lint.events.training_step import Backward
from gpudoctor.lint.questions.gradient_use import averaged_by_hand, is_repeated, stepped_after
from gpudoctor.lint.questions.names import name_of
from gpudoctor.lint.repair.repair import After, CallAgain, Holds, Repair
from gpudoctor.rule import Findings, Program, Recording, Rule


class RootNotSharded(Rule):
    code = "GPU931"
    severity = Severity.ERROR
    fix_safety = Safety.UNSAFE
    shows_when = ("distributed", "ranks.optimizers.whole")
    of_ranks = True
    needs = (Wrap, Backward)
    looks_at = ((Wrap, "in_place"),)

    def in_code(self, program: Program) -> Findings:
        if not program.absence() or averaged_by_hand(program):
            return
        told: set[Value] = set()
        for backward in program.events(Backward):
            if not is_repeated(backward):
                continue
            for call in program.calls_in_graph(backward):
                model = call.module.core
                whole = _trained_whole(program, backward, call) if model not in told else []
                shard = _last_shard(program, call) if whole else None
                if shard is None:
                    continue
                told.add(model)
                yield self.found(
                    shard.location,
                    f"`fully_shard` takes parts of {name_of(model)} here, and nothing takes {_listed(whole, model)}: "
                    "their gradients are not averaged over the ranks, whose models drift apart.",
                    remedy=f"Call `fully_shard` with {name_of(model)} itself after its parts, before the optimizer is "
                    "made.",
                    because=[
                        *((f"{_plain(each, model)} stays whole on each rank", each.place) for each in whole[:2]),
                        ("the model is called here", call.location),
                    ],
                    repair=Repair("Shard the model itself after its parts", (_shard_all(shard, model),)),
                )

    def in_run(self, recording: Recording) -> Findings:
        # Tensor parallelism leaves parameters whole, too, and nobody needs to average these.
        cut_up = any(rank.cut_up for rank in recording.ranks)
        drift = None if cut_up else recording.drift_beside_shards
        place = drift.place if drift is not None else None
        if drift is not None and place is not None:
            yield self.found(
                place,
                f"After step {drift.step} the ranks held different values in parameter {drift.name}, which is no shard "
                "while others are: nobody averages its gradient.",
                remedy="Call `fully_shard` with the model itself after its parts, before the optimizer is made.",
            )


def _trained_whole(program: Program, backward: Backward, call: Forward) -> list[Module]:
    """The parts that no call takes, and that an optimizer changes by the gradients of this backward."""
    model = call.module.core
    related = program.within(model)
    if not call.left_whole or not call.graph or _in_other_hands(program, model):
        return []
    flagged = (each.module for each in program.events(GradientFlag) if each.on is not True)
    frozen = {part for each in flagged for part in program.within(each)}
    found = []
    for part in call.left_whole:
        step = stepped_after(program, backward, part) if part not in frozen else None
        if step is not None and step.optimizer.complete and part in related:
            found.append(part)
    return found


def _in_other_hands(program: Program, model: Value) -> bool:
    """Something else brings the ranks' models together: another wrapper, a forward that talks to other ranks, or code
    that was not read."""
    related = program.within(model)
    if any(not related.isdisjoint(program.within(each.module)) for each in program.events(ForwardTalks)):
        return True
    if any(not related.isdisjoint(program.within(value)) for value in program.escaped if value.is_model):
        return True
    return any(model in program.within(wrap.inner) for wrap in program.events(Wrap))


def _last_shard(program: Program, call: Forward) -> Wrap | None:
    """The last call of `fully_shard` that has taken a part of the model."""
    related = program.within(call.module)
    wraps = (each for each in program.events(Wrap) if each.in_place and each.order < call.order)
    return next((each for each in reversed(list(wraps)) if each.inner in related), None)


def _shard_all(shard: Wrap, model: Value) -> After:
    """The same call for the model, behind the loops over its parts."""
    around = [loop for loop in shard.loops if loop.frame == shard.context.frames[-1]]
    at = around[0].location if around else shard.location
    kept = ("mesh", "mp_policy", "offload_policy", "shard_placement_fn")
    return After(at, ((CallAgain(shard.location, (Holds(model),), kept),),))


def _plain(part: Module, model: Value) -> str:
    """How the program calls a part, less the `self.` of the class that made it."""
    label = part.label.removeprefix("self.")
    return "what it has itself" if part == model else f"`{label}`" if label else "a part of it"


def _listed(parts: list[Module], model: Value) -> str:
    names = list(dict.fromkeys(_plain(each, model) for each in parts))
    if len(names) > 3:
        names = [*names[:2], f"{len(names) - 2} more"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
