"""Forward calls: what a model gives back, and what meets in it."""

from __future__ import annotations

import re
from collections.abc import Hashable

from gpudoctor.lint.analyses.activation_checkpoint import look_inside, looks_inside
from gpudoctor.lint.analyses.data_parallel_replicas import gathered, reduces, takes_mean
from gpudoctor.lint.analyses.forward_body import check_meeting, computing, fill, study
from gpudoctor.lint.analyses.forward_side_effects import forget_what_forward_sets
from gpudoctor.lint.analyses.freezing import is_frozen
from gpudoctor.lint.analyses.loss_scale import as_returned
from gpudoctor.lint.domain.abstract_state import YES, ModuleState, TensorState
from gpudoctor.lint.domain.arguments import Arguments
from gpudoctor.lint.domain.device import on_cpu
from gpudoctor.lint.domain.heuristics import LOSS
from gpudoctor.lint.domain.module import Module, Wrapper, WrapperKind, chain_of
from gpudoctor.lint.domain.tensor import Tensor, TensorOrigin, tensors_in
from gpudoctor.lint.domain.value import (
    FALSE,
    NONE,
    TRUE,
    Const,
    Value,
    Values,
    divergence_of,
    shards_of,
    single_of,
)
from gpudoctor.lint.events.model import Forward
from gpudoctor.lint.events.placement import Mixed, Move
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.flow.valueset import Binding, ValueSet
from gpudoctor.lint.interface.contents import find_method
from gpudoctor.lint.interface.library_call import MODELS, NOT_ANSWERED, Call, LibraryContext, flatten, singleton
from gpudoctor.lint.library.gpu_switches import take_gpu
from gpudoctor.lint.library.sharding import left_whole, note_met
from gpudoctor.lint.library.tensors import as_loss, check_devices, check_each_way, combined, is_cpu_batch, made
from gpudoctor.lint.library.torch_nn import (
    check_initialised,
    children_of,
    device_of,
    has_buffers,
    has_parameters,
    note_used,
)
from gpudoctor.lint.library.wrapping import BASES
from gpudoctor.manifest.compiled import prefixes
from gpudoctor.record import replace

BEGIN_EVALUATING = (*prefixes("begins_evaluating"), "unknown")
"""Modules of these begin in evaluation mode, or in nobody knows which."""
_MAKES_ALIKE = frozenset({"synced_gpus", "min_length", "min_new_tokens", "generation_config"})
"""Options of `generate` that have all ranks make as many forwards, or may."""
MAX_LOOK = 600
"""Statements of a forward that is asked what it moves. What takes more has many layers, and moves none of them."""


@MODELS.called(Module)
def _called(call: Call[Module]) -> Values:
    # A class that says itself what calling it does: its forward is one of its methods.
    own = find_method(call.do, call.receiver, "__call__")
    return call.do.call(own, call.arguments, call.node) if own is not None else _forward(call)


@MODELS.called(Wrapper)
@MODELS.method((Module, Wrapper), "__call__", "forward")
def _forward(call: Call[Module | Wrapper]) -> Values:
    """A module without parameters is an operation like any other."""
    module, core = call.receiver, call.receiver.core
    if core.cls is not None:
        check_initialised(call.do, core, "", core.cls.place)
        note_used(call.do, core)
    note_met(call, core)
    own = find_method(call.do, core, "forward") if looks_inside(call.do) else None
    if own is not None:
        return call.do.call(own, call.arguments, call.node)
    # `model(**batch)`: under which name each entry goes in does not matter.
    given = flatten(call.do, call.values_and_rest())
    tensors = tuple(tensors_in(given))
    if module == core and has_parameters(call.do, core) is False:
        # Many models start with `x = x.to(self.weight.device)`: their forward is tried before we judge.
        own = find_method(call.do, core, "forward")
        if own is not None:
            with call.do.in_contexts("forward"):
                return call.do.call(own, call.arguments, call.node)
        if not tensors:
            return singleton(made(call.do, call.place, call.label, TensorOrigin.OTHER))
        operands = computing(core.made_by, call.sure_values())
        check_each_way(call)
        if LOSS.fits(core.made_by):
            check_meeting(call.do, operands, call.label, call.place)
        result = combined(call.do, [*tensors], call.place, call.label, operands)
        how = call.do.state(core, ModuleState.reduction)
        return singleton(as_loss(call.do, result, core.made_by, reduces(how), takes_mean(how)))
    return _forward_of_model(call, module, core, tensors)


@MODELS.method(Module, "generate")
def _generate(call: Call[Module]) -> Values:
    """Of a model of a library it is one forward after the other; it matters where they wait for other ranks."""
    model, spread = call.receiver, call.do.flag(call.receiver, ModuleState.gathers) is YES
    if spread and find_method(call.do, model, "generate") is None:
        # `generate(**tokenizer(prompts, return_tensors="pt"))`
        told = not all(each.all(_is_input) for each in call.rest) or not _MAKES_ALIKE.isdisjoint(call.keywords)
        unsynced = not told and call.do.flag(model, ModuleState.generates_apart) is YES
        call.emit(
            Forward, identity=call.allocation_site(), module=model, graph=False, training=False, gathers=True,
            unsynced=unsynced,
        )  # fmt: skip
    return NOT_ANSWERED


def _is_input(value: Value) -> bool:
    """A batch, or what a library has made of one, and no settings."""
    return isinstance(value, Tensor) or (bool(value.escaped_from) and not value.config)


def _forward_of_model(call: Call, module: Module | Wrapper, core: Module, tensors: tuple[Tensor, ...]) -> Values:
    devices = device_of(call.do, module)
    device = single_of(devices)
    _meet_weights(call, module, core, devices)
    look_inside(call, module, core)
    identity = call.allocation_site()
    training = in_training_mode(call.do, core)
    output = _output(call, core, tensors, device, identity)
    call.emit(
        Forward, identity=identity, module=module, inputs=tensors, device=devices, graph=output.graph,
        training=training, buffers=has_buffers(call.do, core),
        reached_at=call.do.execution.reached_at(core),
        unseen=any(map(_may_have_none, core.members or (core,))) and has_parameters(call.do, core) is None,
        brings_own=_brings_own(call, core, devices, tensors), left_whole=left_whole(call.do, module),
        gathers=call.do.flag(core, ModuleState.gathers) is YES,
    )  # fmt: skip
    study(call, module, core, device)
    # What a `Sequential` does is known without its code.
    for part in children_of(call.do, core) if core.made_by == "torch.nn.Sequential" else ():
        study(replace(call, arguments=Arguments((singleton(output),))), part, part.core, device)
    forget_what_forward_sets(call.do, core)
    fill(call, core, output)
    parallel = module.wrapped_by(WrapperKind.DATA_PARALLEL)
    return singleton(gathered(call, core, output) if parallel else as_returned(call.do, output, core))


def _may_have_none(core: Value) -> bool:
    """It may be a module without parameters, which a ready model of a library never is."""
    return isinstance(core, Module) and (core.cls is not None or core.made_by == "torch.nn.Sequential")


def _meet_weights(call: Call, module: Module | Wrapper, core: Module, devices: Values | None) -> None:
    """Inputs come to where the weights are, or meet them there."""
    take_gpu(call.do, devices)
    # An option that moves the batches alone says where the model must be.
    for given in call.args if on_cpu(devices) else ():
        if len(given.bindings) > 1 and given.are(Tensor):
            take_gpu(call.do, given.map(lambda value: value.device or NONE))
    # DDP moves inputs only with `device_ids`; without them CPU batches reach the weights.
    if _moves_inputs(module):
        return
    device = single_of(devices)
    _check_inputs(call, module, core, device)
    if core.cls is None and core.made_by.startswith("torch.nn."):
        weights = made(call.do, call.place, call.label, TensorOrigin.PARAMETER, device=device)
        check_meeting(call.do, [*call.sure_values(), weights], core.label, call.place, core)


def _output(call: Call, core: Module, tensors: tuple[Tensor, ...], device: Value | None, identity: Hashable) -> Tensor:
    """What the model makes of its inputs."""
    divergence = divergence_of(tensors)
    # What a model says about the rows that a rank has chosen for itself tells nobody which rank it is.
    if divergence & Divergence.RANK:
        divergence = divergence & ~Divergence.RANK | Divergence.LOCAL
    # Under `no_grad` no graph is built, whatever the parameters say; a frozen model passes on that of its input.
    asked = not is_frozen(call.do, core) or any(tensor.graph for tensor in tensors)
    # GAN steps feed one model's output to the next: one backward goes through both.
    inner = frozenset().union(*(tensor.forwards for tensor in tensors)) if tensors else frozenset()
    output = made(
        call.do, call.place, call.label, TensorOrigin.OUTPUT, device=device,
        forwards=frozenset([identity]) | inner, graph=asked and not call.do.evaluating,
        batch_of=next((t.batch_of for t in tensors if t.batch_of), None),
        # Without a tensor that was followed, ranks are taken to see different data.
        shards=shards_of(tensors), dependence=divergence if tensors else Divergence.LOCAL,
    )  # fmt: skip
    if core.made_by.startswith(_COMPUTES_LOSS):
        note_loss(call, output)
    return output


def note_loss(call: Call, output: Tensor) -> None:
    """Models of transformers compute their loss themselves, as a mean, and return it first where they are given
    labels."""
    places = [Const("loss"), *([Const(0)] if any(map(_LABELS, call.keywords)) else [])]
    call.do.set_state(output, TensorState.returned_means, ValueSet([Binding(each) for each in places]))


_COMPUTES_LOSS = "transformers."
_LABELS = re.compile(r"labels?$").search


@MODELS.method(Module, "super.forward")
def _forward_of_base(call: Call[Module]) -> Values:
    """`return super().forward(**inputs)`, in a class of the project that a library's is the base of."""
    cls = call.receiver.cls
    if cls is None or not any(each.startswith(_COMPUTES_LOSS) for each in cls.library_bases):
        return _forward(call)
    tensors = tuple(tensors_in(flatten(call.do, call.values_and_rest())))
    output = _output(call, call.receiver, tensors, single_of(device_of(call.do, call.receiver)), call.allocation_site())
    note_loss(call, output)
    return singleton(output)


def _moves_inputs(module: Module | Wrapper) -> bool:
    """DataParallel, and DDP with `device_ids`, bring their inputs to the GPU themselves."""
    # As `class Own(DataParallel)` does.
    if isinstance(module, Module) and module.cls is not None and not module.cls.library_bases.isdisjoint(BASES):
        return True
    # FSDP moves inputs to its compute device in the pre-forward hook of the root.
    if module.wrapped_by(WrapperKind.DATA_PARALLEL, WrapperKind.FSDP, WrapperKind.PREPARED):
        return True
    return any(
        # `torch.compile(DDP(...))` is a chain: any link with device_ids moves the inputs.
        wrapper.kind is WrapperKind.DDP and wrapper.device_ids is not None and wrapper.device_ids.single != NONE
        for wrapper in chain_of(module)
    )


def _check_inputs(call: Call, module: Module | Wrapper, core: Module, device: Value | None) -> None:
    """Inputs on the CPU meet weights on the GPU, unless the module brings them there first."""
    if device is not None and device.is_accelerator:
        own = find_method(call.do, core, "forward")
        if own is not None and any(is_cpu_batch(value) for value in call.sure_values()):
            with call.do.execution.speculative() as run:
                call.do.call(own, call.arguments, call.node)
            if not any(isinstance(event, Mixed) for event in run.events):
                return
        standing = made(call.do, call.place, core.label, TensorOrigin.PARAMETER, device=device)
        check_devices(call.do, [*call.sure_values(), standing], call.label, call.place, core)


def _brings_own(call: Call, core: Module, devices: Values | None, inputs: tuple[Tensor, ...]) -> bool:
    """It is on the CPU, its inputs are not, and its forward puts parameters there: `self.scale.to(x.device)`."""
    on_gpu = [each.on_accelerator for each in inputs]
    own = find_method(call.do, core, "forward") if devices is not None and on_cpu(devices) and any(on_gpu) else None
    if own is None:
        return False
    with call.do.execution.speculative(MAX_LOOK) as run:
        call.do.call(own, call.arguments, call.node)
    moved = (event.subject for event in run.events if isinstance(event, Move))
    # Layers are moved as often, or the whole of it.
    return any(isinstance(each, Module) or each.origin is TensorOrigin.PARAMETER for each in moved)


def in_training_mode(do: LibraryContext, core: Module) -> bool | None:
    """Modules begin in training mode, except for those that Hugging Face loads."""
    mode = do.own_attribute(core, "training")
    if mode is None:
        return None if core.made_by.startswith(BEGIN_EVALUATING) else True
    return True if mode.single == TRUE else False if mode.single == FALSE else None
