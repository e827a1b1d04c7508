"""Gradients of an FSDP model are clipped by the norm of the shard that this rank holds.

## What goes wrong

Each rank (each process, one for each GPU) of a `FullyShardedDataParallel` model holds a part of each gradient.
`torch.nn.utils.clip_grad_norm_` knows nothing of the others and takes the norm of its own part, which is about
`sqrt(N)` times too small on N ranks, and different on each. The gradients stay too large, and are scaled by a different
factor in each shard, so that the step has another direction than the gradient. No error is raised.

Accelerate calls the method of the wrapper where it is given all parameters of one model. Of a part of them, as the
trainable ones beside frozen ones, it takes the norm of this rank's part.

Under DeepSpeed, `accelerator.clip_grad_norm_` does nothing: the engine clips, by `gradient_clipping` of its own
configuration, and by nothing where that is left out. Nor does `torch.nn.utils.clip_grad_norm_` between
`engine.backward` and `engine.step`: ZeRO has taken the gradients out of the parameters by then.

## Fix

Call `model.clip_grad_norm_(max_norm)` of the wrapper, on all ranks: it adds up the norms of all shards. Unsafe: the
bound holds from then on. Pass Accelerate
`model.parameters()`, and have Fabric clip by `fabric.clip_gradients(model, optimizer, max_norm=1.0)`.

## Silent when

The model is sharded by `fully_shard`, whose tensors know of the other shards; `sharding_strategy` is `NO_SHARD`, or
could not be followed; values are clipped one by one, as by `clip_grad_value_`; it is not known whose parameters are
clipped; of DeepSpeed behind Accelerate, its configuration is not known, or says the same; an engine's has neither ZeRO
nor FP16.

## Sources

https://docs.pytorch.org/docs/stable/fsdp.html#torch.distributed.fsdp.FullyShardedDataParallel.clip_grad_norm_,
pytorch/pytorch#72548; `independent_gradient_partition_epilogue` of DeepSpeed 0.19.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Safety, Severity
from gpudoctor.lint.domain.group import ManagedObject
from gpudoctor.lint.domain.module import Wrapper, WrapperKind
from gpudoctor.lint.events.knowledge import UseManaged
from gpudoctor.lint.events.model import Wrap
from gpudoctor.lint.events.training_step import Backward, ClipGradients
from gpudoctor.lint.questions.names import in_code, name_of
from gpudoctor.lint.repair.repair import Either, Holds, Repair, Replace, Source
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules.frameworks._charge import DEEPSPEED, taken_in_charge
from gpudoctor_rules.frameworks._engine import made_at

_BOUND = "gradient_clipping"
_AUTOMATIC = 1.0
"""What Accelerate takes for `auto`."""


class ClipOfOneShard(Rule):
    code = "GPU913"
    severity = Severity.ERROR
    fix_safety = Safety.UNSAFE
    shows_when = ("distributed", "ranks.clips")
    needs = (ClipGradients,)

    def in_code(self, program: Program) -> Findings:
        for clip in program.events(ClipGradients):
            if clip.by is not None:
                yield from self._of_engine(program, clip)
                continue
            wrap = _sharding(program, clip) if clip.by_norm and not clip.of_all_shards else None
            if wrap is None:
                yield from self._beside_engine(program, clip)
                continue
            wrapper = wrap.wrapper
            model = in_code(wrapper, "model")
            bound = Either(((Source(clip.location, "1"),), (Source(clip.location, "max_norm"),)))
            whole = (Holds(wrapper), ".clip_grad_norm_(", bound, ")")
            repair = Repair("Clip by the norm of all shards", (Replace(clip.location, whole),))
            yield self.found(
                clip.location,
                f"`{clip.call}` takes the norm of the shard of {name_of(wrapper)} that this rank holds: each rank "
                "clips by a different factor, and by one that is too large.",
                remedy=f"Call `{_whole(program) or f'{model}.clip_grad_norm_'}(...)`, which adds up the norms of all "
                "shards.",
                because=[("the model is sharded here", wrap.location)],
                repair=repair if clip.plain and not _whole(program) else None,
            )

    def _of_engine(self, program: Program, clip: ClipGradients) -> Findings:
        """DeepSpeed cuts gradients itself, to a bound of its own; Accelerate has FSDP do so where it is given all."""
        if clip.of_one_shard:
            yield self.found(
                clip.location,
                "Accelerate leaves the clipping to FSDP only where it is given all parameters of one model: of these "
                "it takes the norm of the shards that this rank holds, and each rank clips by a different factor.",
                remedy="Pass `model.parameters()` of what `prepare` gave back.",
            )
        charge = taken_in_charge(program, clip.by) if isinstance(clip.by, ManagedObject) else None
        bound = clip.bound
        if charge is None or charge.config is None or bound is None:
            return
        own, said = _BOUND in charge.config.keywords, charge.configured(_BOUND)
        chosen = _AUTOMATIC if said == "auto" else said
        if own and (not isinstance(chosen, (int, float)) or chosen == bound):
            return
        what = "names no bound, so that nothing is clipped" if not own else f"says {chosen:g}"
        yield self.found(
            clip.location,
            f"DeepSpeed clips gradients itself and does not look at the {bound:g} here: its configuration {what}.",
            remedy=f'Write `"{_BOUND}": {bound:g}` in the configuration of DeepSpeed.',
            because=[("DeepSpeed takes charge here", charge.location)],
            severity=Severity.WARNING,
        )

    def _beside_engine(self, program: Program, clip: ClipGradients) -> Findings:
        """The engine of DeepSpeed has taken the gradients away by then, or scaled them."""
        charge = _engine_of(program, clip)
        if charge is None:
            return
        stage, scaled = charge.configured("zero_optimization.stage"), charge.configured("fp16.enabled")
        if charge.config is not None and not stage and scaled is not True:
            return
        yield self.found(
            clip.location,
            f"`{clip.call}` clips nothing here: under ZeRO the engine of DeepSpeed has taken the gradients out of the "
            "parameters in its `backward`, and for FP16 they are scaled still.",
            remedy=f'Leave it out, and write `"{_BOUND}"` in the configuration of DeepSpeed.',
            because=[("DeepSpeed takes charge here", charge.location)],
            severity=Severity.WARNING,
            doubt="" if stage else "Its configuration was not read: without ZeRO and FP16 this is right.",
        )

    def in_run(self, recording: Recording) -> Findings:
        for rank in recording.ranks[:1] if recording.distributed else ():
            for clip in rank.clips:
                if clip.sharded and clip.call == "clip_grad_norm_" and clip.place is not None:
                    yield self.found(
                        clip.place,
                        "`clip_grad_norm_` was given parameters of an FSDP model, of which each rank holds a part: it "
                        "took the norm of that part.",
                        remedy="Call `model.clip_grad_norm_(max_norm)` of the wrapper, on all ranks.",
                    )


def _whole(program: Program) -> str:
    """What Lightning has for it: what it gives back is not the wrapper of PyTorch itself."""
    if "lightning" not in program.managed_by:
        return ""
    by_fabric = any(each.one_by_one for each in program.in_charge)
    return "fabric.clip_gradients" if by_fabric else "trainer.strategy.model.clip_grad_norm_"


def _engine_of(program: Program, clip: ClipGradients) -> UseManaged | None:
    """The engine that has propagated through a model whose gradients are clipped."""
    held = frozenset().union(*(program.within(each) for each in clip.modules))
    for backward in program.events(Backward):
        if backward.managed != DEEPSPEED or backward.order > clip.order or backward.condition.excludes(clip.condition):
            continue
        for call in program.calls_in_graph(backward):
            charge = made_at(program, call.module) if call.module.core in held else None
            if charge is not None:
                return charge
    return None


def _sharding(program: Program, clip: ClipGradients) -> Wrap | None:
    """Where parameters that are clipped here were surely cut into shards that know nothing of each other."""
    held = frozenset().union(*(program.within(each) for each in clip.modules))
    sharding = [
        wrap
        for wrap in program.events(Wrap)
        # `fully_shard` gives back the module itself.
        if wrap.kind is WrapperKind.FSDP and isinstance(wrap.wrapper, Wrapper) and not wrap.opaque and not wrap.uncut
        if held & {wrap.wrapper, wrap.wrapper.core} and not wrap.condition.excludes(clip.condition)
    ]
    # Whichever of several architectures it is: all of them are cut.
    cut = {each for wrap in sharding for each in (wrap.wrapper, wrap.wrapper.core)}
    return next((wrap for wrap in sharding if wrap.certain or clip.modules <= cut), None)
