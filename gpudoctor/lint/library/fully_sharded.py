"""What shares a model or a sequence out in place: `fully_shard`, `replicate`, tensor and context parallelism."""

from __future__ import annotations

from gpudoctor.lint.domain.abstract_state import NO, PROCESS, ModuleState, ProcessState
from gpudoctor.lint.domain.function import ContextManager, Method
from gpudoctor.lint.domain.module import Module, WrapperKind
from gpudoctor.lint.domain.rank import as_numbers
from gpudoctor.lint.domain.value import FALSE, NONE, Unknown, Values
from gpudoctor.lint.events.model import ForwardMarked, ForwardShared, ForwardTalks, ShardingRefused, Wrap
from gpudoctor.lint.events.training_step import GradientSync
from gpudoctor.lint.interface.library_call import MODELS, NOT_ANSWERED, Call, flatten, singleton
from gpudoctor.lint.library.device_meshes import is_of_cpus, is_whole, ranks_along
from gpudoctor.lint.library.sharding import note_parts_sharded, note_sharded, parts_of_kind, refusal
from gpudoctor.lint.library.torch_distributed import begin_group, group_exists
from gpudoctor.lint.library.torch_nn import device_of
from gpudoctor.lint.library.wrapper_names import FSDP_MODULE
from gpudoctor.manifest.compiled import methods


@MODELS.callable(
    "torch.distributed.fsdp.fully_shard",
    "torch.distributed._composable.replicate.replicate",
    "torch.distributed._composable.replicate",
)
def _in_place(call: Call) -> Values:
    """FSDP2 shards a module in place, and `replicate` copies it to all ranks: the same object, now synchronised."""
    kind = WrapperKind.FSDP if call.name.endswith("fully_shard") else WrapperKind.DDP
    # Without a mesh it makes one of all ranks, and with that the group.
    if kind is WrapperKind.FSDP and "mesh" not in call.keywords and group_exists(call.do) is False:
        begin_group(call, call.name)
    if kind is WrapperKind.FSDP:
        call.do.set_flag(PROCESS, ProcessState.model_sharded)
    given = call.arg(0, "module") or singleton(NONE)
    # Several modules in a list are sharded as one.
    for value in flatten(call.do, list(given)):
        core = value.core
        parts = parts_of_kind(call, value) if value.part_of is not None else None
        some = isinstance(value, Unknown) or value.part_of is not None
        if some and parts is None:
            note_parts_sharded(call.do, value)
        for each in parts or ([core] if isinstance(core, Module) and not some else ()):
            _shard_one(call, each, kind)
    return given


def _shard_one(call: Call, core: Module, kind: WrapperKind) -> None:
    why, part = refusal(call.do, core) if kind is WrapperKind.FSDP else ("", None)
    if why:
        call.emit(ShardingRefused, module=core, why=why, part=part)
    call.emit(
        Wrap, wrapper=core, inner=core, kind=kind, model_device=device_of(call.do, core),
        group_exists=group_exists(call.do),
    )  # fmt: skip
    # The parameters go where the mesh is, which is the GPUs unless it says otherwise.
    mesh = call.keywords.get("mesh") or call.keywords.get("device_mesh")
    note_sharded(call.do, core, stays_on_cpu=is_of_cpus(call.do, mesh))
    if kind is WrapperKind.FSDP:
        call.do.set_flag(core, ModuleState.holds_shards)


@MODELS.callable("torch.distributed.fsdp.register_fsdp_forward_method")
def _marked(call: Call) -> Values:
    for model in call.arg(0, "module") or ():
        if isinstance(model.core, Module):
            call.emit(ForwardMarked, wrapper=model.core)
    return singleton(NONE)


@MODELS.callable("torch.distributed.tensor.parallel.parallelize_module")
def _tensor_parallel(call: Call) -> Values:
    """It cuts the layers up among the ranks of a mesh, in place: their forwards get what they need from each other."""
    given, mesh = call.given("module") or singleton(NONE), call.given("device_mesh")
    for value in given:
        core = value.core
        if isinstance(core, Module):
            call.emit(ForwardTalks, module=core)
            call.emit(ForwardShared, module=core, ways=as_numbers(ranks_along(call.do, mesh)), by_all=is_whole(mesh))
            note_sharded(call.do, core, stays_on_cpu=is_of_cpus(call.do, mesh))
    return given


@MODELS.callable("torch.distributed.tensor.experimental.context_parallel")
def _context_parallel(call: Call) -> Values:
    """It cuts sequences up among the ranks of a mesh: attention gets what it needs from the others."""
    mesh = call.arg(0, "mesh")
    call.emit(ForwardShared, module=None, ways=as_numbers(ranks_along(call.do, mesh)), by_all=is_whole(mesh))
    return singleton(ContextManager(call.name))


_METHODS = methods(FSDP_MODULE)


@MODELS.attribute(Module, *_METHODS, "no_sync")
def _asked(call: Call[Module]) -> Values:
    # Its class is another one since then. That it has no `no_sync` is for rules to tell.
    if call.do.flag(call.receiver, ModuleState.sharded) is not NO:
        return singleton(Method(call.receiver, call.name))
    return MODELS.any_attribute[Module](call)


@MODELS.method(Module, *_METHODS)
def _of_sharded(call: Call[Module]) -> Values:
    """What a model can do since `fully_shard` was called with it."""
    if call.do.flag(call.receiver, ModuleState.sharded) is NO:
        return NOT_ANSWERED
    if call.name == "set_requires_gradient_sync":
        # Of the model alone, and not of its parts, it may mean little.
        whole = "recurse" not in call.keywords
        off = call.arg(0, "requires_gradient_sync")
        never = whole and off is not None and off.single == FALSE
        call.emit(GradientSync, target=call.receiver, call=call.name, never=never)
    return singleton(NONE)


@MODELS.method(Module, "no_sync")
def _no_sync(call: Call[Module]) -> Values:
    """What a wrapper has, and a model that is sharded in place has not."""
    if call.do.flag(call.receiver, ModuleState.sharded) is NO:
        return NOT_ANSWERED
    call.emit(GradientSync, target=call.receiver, call=call.name)
    return singleton(ContextManager("torch.no_sync", call.receiver))
