"""DeepSpeed's engine: how it was configured, and which events are its own."""

from __future__ import annotations

from gpudoctor.lint.domain.module import Module, chain_of
from gpudoctor.lint.domain.value import Value
from gpudoctor.lint.events.knowledge import UseManaged
from gpudoctor.rule import Program
from gpudoctor_rules.frameworks._charge import DEEPSPEED

STEPS = "gradient_accumulation_steps"
PIPELINE = "deepspeed.pipe.PipelineModule"
_TOPOLOGIES = ("mpu", "mesh_param")
_SLICES = ("tensor_parallel.autotp_size", "sequence_parallel_size")


def made_at(program: Program, engine: Value) -> UseManaged | None:
    """Where the engine was made, with its configuration."""
    found = {each.place for each in chain_of(engine)}
    charges = (each for each in program.events(UseManaged) if each.framework == DEEPSPEED)
    return next((each for each in charges if each.location in found), None)


def may_share_a_copy(charge: UseManaged) -> bool:
    """Ranks may hold one copy of the model together: stages of a pipeline, slices of layers or of sequences."""
    model = charge.setting("model")
    core = model.single.core if model is not None and model.single is not None else None
    pipeline = isinstance(core, Module) and core.derives_from(PIPELINE)
    given = any(charge.setting(name) is not None for name in _TOPOLOGIES)
    return pipeline or given or any(charge.configured(name) is not None for name in _SLICES)
