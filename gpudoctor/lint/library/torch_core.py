"""The name `torch` itself: factories, operations, contexts, compile."""

from __future__ import annotations

import ast
import re
from functools import partial

from gpudoctor.lint.analyses.async_work import note_use
from gpudoctor.lint.analyses.collective_taint import after_operation
from gpudoctor.lint.analyses.data_parallel_replicas import reduces, takes_mean
from gpudoctor.lint.analyses.extents import extent_by, is_count, of_extent
from gpudoctor.lint.analyses.forward_body import (
    FIRST_ALONE,
    MEETING,
    check_meeting,
    joined,
    kept,
    root_of,
)
from gpudoctor.lint.analyses.loss_scale import is_mean_of_batches, of_arithmetic
from gpudoctor.lint.domain.abstract_state import PROCESS, ProcessState, TensorState
from gpudoctor.lint.domain.container import ListOf, TupleOf
from gpudoctor.lint.domain.device import Device
from gpudoctor.lint.domain.function import ContextManager, Library
from gpudoctor.lint.domain.group import Work
from gpudoctor.lint.domain.module import Module, Wrapper, WrapperKind
from gpudoctor.lint.domain.optim import Parameters
from gpudoctor.lint.domain.provenance import provenance_of
from gpudoctor.lint.domain.symbols import CallResult, OwnReading
from gpudoctor.lint.domain.tensor import Extent, Tensor, TensorOrigin, tensors_in
from gpudoctor.lint.domain.value import NONE, Anonymous, Const, Unknown, Value, Values, divergence_of, single_of
from gpudoctor.lint.events.data_loading import DrawsNoise
from gpudoctor.lint.events.host_waits import DebugFlag
from gpudoctor.lint.events.training_step import GradientsSwitched, TakeGradient
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.interface.contents import known_items
from gpudoctor.lint.interface.hooks import HOOKS, told
from gpudoctor.lint.interface.library_call import MODELS, Call, definite_values, flatten, singleton
from gpudoctor.lint.library.devices import default_device, devices_of, note_text, use
from gpudoctor.lint.library.gpu_switches import take_gpu
from gpudoctor.lint.library.tensors import (
    FILLED,
    NOT_DIFFERENTIABLE,
    agreed,
    as_loss,
    check_each_way,
    combined,
    cut,
    filled,
    made,
    reduced,
    without_graph,
)
from gpudoctor.manifest.compiled import functions, operations
from gpudoctor.manifest.effects import DrawEffect
from gpudoctor.record import replace

DRAWING = frozenset(functions("draws"))
FACTORIES = frozenset(
    """
    randn rand randint randperm normal bernoulli multinomial zeros ones empty full arange linspace logspace eye
    tril_indices triu_indices scalar_tensor tensor as_tensor from_numpy
    Tensor FloatTensor DoubleTensor IntTensor LongTensor ByteTensor BoolTensor
    """.split()
)
_ON_GPU = "torch.cuda."


@MODELS.callable(*(f"torch.{name}" for name in sorted(FACTORIES)))
@MODELS.callable(*(f"{_ON_GPU}{name}" for name in sorted(FACTORIES) if name.endswith("Tensor") and name != "Tensor"))
def _factory(call: Call) -> Values:
    first = call.args[0].restrict(call.do.path) if call.args else None
    # What lies on a GPU under one test only does so still as `torch.tensor(x)`.
    if first is not None and len({value.device for value in tensors_in(first)}) > 1:
        return call.do.for_each_value(first, partial(_made_of, call), call.node)
    return _made(call)


def _made_of(call: Call, value: Value) -> Values:
    given = replace(call.arguments, positional=(singleton(value), *call.args[1:]))
    return _made(replace(call, arguments=given))


def _made(call: Call) -> Values:
    kind = call.name.rpartition(".")[2]
    given = flatten(call.do, call.all_values())
    drawn = call.name in DRAWING
    if drawn:
        _note_noise(call, given)
    tensors = tensors_in(given)
    # Each process draws its own numbers unless all were seeded alike.
    divergence = Divergence.LOCAL if drawn else Divergence.NONE
    shards: frozenset[Value] = frozenset()
    for value in given:
        # `torch.tensor(loss_sum)` for an all-reduce still stands for this rank's share.
        if isinstance(value, (Tensor, Unknown)):
            divergence |= value.divergence & Divergence.LOCAL
            # Rows of a file that a rank has picked by its number.
            picked = isinstance(value, Unknown) and value.divergence & Divergence.RANK
            divergence |= Divergence.LOCAL if picked else Divergence.NONE
            shards |= value.shards
    on_gpu = singleton(Device("cuda", None, call.place)) if call.name.startswith(_ON_GPU) else None
    devices = devices_of(call.keywords.get("device"), call.place) or on_gpu
    use(call, devices, "factory", call.argument_places.get("device"))
    device = (devices if devices is not None else default_device(call.do)).single
    # `torch.tensor(x)` and `as_tensor(x)` of a tensor stay on its device; of a list the numbers are read one by one.
    if tensors and devices is None and not (call.args and call.args[0].are(ListOf, TupleOf)):
        device = tensors[0].device
    # `torch.arange(n, out=torch.cuda.LongTensor(n))`: it lies where `out` lies.
    elif "out" in call.keywords:
        device = None
    grad = call.is_true(-1, "requires_grad")
    root = root_of(call, kind, device) if not tensors else None
    new = made(
        call.do, call.place, call.label, TensorOrigin.FACTORY,
        device=device or Unknown(Anonymous("device", devices), "one of several devices"), graph=grad, shards=shards,
        dependence=divergence, mean=_is_mean(call), root=root, extent=_extent(call, kind),
    )  # fmt: skip
    # `torch.as_tensor(np.random.choice(n, k))`: torch's generator has no part in it.
    if not drawn and divergence & Divergence.LOCAL and any(map(_drawn_elsewhere, given)):
        call.do.set_flag(new, TensorState.drawn_elsewhere)
    return singleton(new)


def _drawn_elsewhere(value: Value) -> bool:
    return any(isinstance(part, OwnReading) and bool(part.generator) for part in provenance_of(value))


def _extent(call: Call, kind: str) -> Extent | None:
    """`torch.tensor(1.0)`, `torch.ones([])`: one number, in no dimension."""
    only = single_of(call.args[0]) if len(call.args) == 1 else None
    if kind in ("tensor", "as_tensor", "scalar_tensor"):
        number = isinstance(only, Const) and isinstance(only.value, (int, float))
    else:
        number = kind in ("zeros", "ones", "empty", "rand", "randn") and known_items(call.do, only) in ((), [])
    return Extent.NUMBER if number else None


def _note_noise(call: Call, given: list[Value]) -> None:
    """`torch.randn(x.shape)`, `torch.randint(0, steps, (x.size(0),))`: noise for a batch of this rank."""
    # Another order of the same samples is no noise, but augmentation.
    drawn = call.effect(DrawEffect)
    if "generator" in call.keywords or drawn is None or drawn.orders:
        return
    made_of = (part for value in given for part in provenance_of(value))
    of_batch = any(isinstance(part, Tensor) and part.shards for part in made_of)
    # Asked last: who asks has the program executed once more for one process.
    if of_batch and call.do.several_processes:
        call.emit(DrawsNoise, call=call.name, one_each=_is_one_each(call))


def _is_one_each(call: Call) -> bool:
    """`torch.rand(n)`, `torch.randint(0, steps, (n,))`: in one dimension."""
    size = single_of(call.keywords.get("size") or (call.args[-1] if call.args else None))
    items = known_items(call.do, size)
    by_count = call.name in ("torch.rand", "torch.randn") and len(call.args) == 1
    return len(items) == 1 if items is not None else by_count and size is not None and is_count(size)


def _is_mean(call: Call) -> bool:
    """`torch.tensor(loss.item())`, `torch.as_tensor(loss)`: the mean that a loss was."""
    given = flatten(call.do, [*call.args[0]] if call.args else [])
    means = (each.mean or is_mean_of_batches(call.do, each) for each in given)
    return bool(given) and all(means)


_JOINING = frozenset(f"torch.{name}" for name in operations("joins"))


@MODELS.callable("torch.*")
def _operation(call: Call) -> Values:
    """An operation of torch that has no model of its own."""
    # What is one of several stands for a share only if all of them do.
    arguments = (*call.args, *call.keywords.values())
    share = partial(agreed, call.do)
    given = flatten(call.do, [value for values in arguments for value in share(values)], of_several=share)
    if (returned := next((each for each in given if isinstance(each, Work)), None)) and call.name in _JOINING:
        note_use(call.do, returned, f"given to `{call.name}`", call.place)
    # `torch.cat`, `where`, `einsum` and hundreds more differ only in numbers.
    if any(tensors_in(given)):
        last = call.name.rpartition(".")[2].removeprefix("_foreach_")
        if call.name in DRAWING:
            _note_noise(call, given)
        operands = _operands(call)
        check_each_way(call)
        result = combined(call.do, given, call.place, call.label, operands)
        extent = extent_by(call, last, given)
        if last in FILLED:
            like = filled(result, [each for values in call.args[1:] for each in values])
            return singleton(of_extent(like, extent))
        if last in MEETING:
            check_meeting(call.do, operands, call.name, call.place)
        result = of_arithmetic(call.do, result, given, last, call.place)
        if last in NOT_DIFFERENTIABLE:
            result = without_graph(of_extent(result, extent))
            return singleton(kept(result, operands[0], last) if operands else result)
        whole = reduces(call.keywords.get("reduction")) and "reduce" not in call.keywords
        mean = whole and takes_mean(call.keywords.get("reduction"))
        result = after_operation(last, given, reduced(call.do, of_extent(result, extent), last))
        result = joined(as_loss(call.do, cut(result, last), last, whole, mean), operands, last)
        return singleton(kept(result, operands[0], last) if operands else result)
    return singleton(call.result(divergence=divergence_of(given)))


def _operands(call: Call) -> list[Value]:
    """What an operation surely computes with: its tensors, and those of a list that comes first, as in `torch.cat`."""
    # `F.interpolate(x, size=shape)`: the numbers of a shape may lie anywhere.
    if call.name.rpartition(".")[2] in FIRST_ALONE:
        return definite_values(call.do, list(call.args[:1]), depth=0)
    # `torch.einsum("nc,ck->nk", [queries, keys])`
    first = next((index for index, each in enumerate(call.args) if not each.are(Const)), 0) + 1
    return definite_values(call.do, list(call.args[:first])) + definite_values(
        call.do, [*call.args[first:], *call.keywords.values()], depth=0
    )


@MODELS.callable("torch.device")
def _device(call: Call) -> Values:
    # torch.device(0), torch.device("cuda:0") and torch.device("cuda", 0) name the same GPU.
    given = call.arg(0, "type") or call.arg(0, "device")
    index = call.arg(1, "index")
    devices = devices_of(given, call.place)
    take_gpu(call.do, devices)
    if devices is None:
        return call.unknown(Anonymous("device", call.args), "a device")
    if index is not None and isinstance(devices.single, Device):
        note_text(call, index, "given as the index of a device")
        return index.map(lambda value: Device(devices.single.type, value, call.place))  # type: ignore[union-attr]
    return devices


@MODELS.callable("torch.set_default_device")
def _default_device(call: Call) -> Values:
    devices = devices_of(call.arg(0, "device"), call.place)
    if devices is not None:
        call.do.set_state(PROCESS, ProcessState.default_device, devices)
        use(call, devices, "set_device")
    return singleton(NONE)


@MODELS.callable("torch.set_default_tensor_type", "torch.set_default_dtype")
def _default_type(call: Call) -> Values:
    # `set_default_tensor_type("torch.cuda.FloatTensor")`: old, yet common in detection code.
    if any("cuda" in str(value) for value in call.all_values()):
        call.do.set_state(PROCESS, ProcessState.default_device, singleton(Device("cuda", None, call.place)))
    return singleton(NONE)


@MODELS.callable(
    "torch.no_grad", "torch.inference_mode", "torch.enable_grad", "torch.autocast", "torch.autograd.profiler.*",
    "torch.profiler.*", "torch.amp.autocast_mode.autocast", "torch.autograd.graph.*", "torch.backends.*",
)  # fmt: skip
def _context(call: Call) -> Values:
    # As a decorator it gets the function; `inference_mode(False)` switches gradients on.
    if call.name.endswith(("no_grad", "inference_mode")) and call.args and call.args[0].single is not None:
        only = call.args[0].single
        if not isinstance(only, Const):
            return call.args[0]
        if only.value is False:
            return singleton(ContextManager("torch.enable_grad"))
    return singleton(ContextManager(call.name))


@MODELS.called(ContextManager)
def _decorates(call: Call[ContextManager]) -> Values:
    """`torch.no_grad()(function)`: what it makes of the function is not followed, but its author has thought of
    gradients."""
    if call.receiver.name.endswith(("no_grad", "inference_mode")):
        call.emit(GradientsSwitched, on=False)
    return singleton(call.result("what a context makes of a function"))


@MODELS.callable("torch.set_grad_enabled", "torch.autograd.set_grad_enabled")
def _grad_enabled(call: Call) -> Values:
    mode = call.constant(0, "mode")
    on = mode if isinstance(mode, bool) else None
    # A bare call holds from here on; only in a `with` it ends.
    call.emit(GradientsSwitched, on=on)
    return singleton(
        ContextManager({False: "torch.no_grad", True: "torch.enable_grad", None: "torch.set_grad_enabled"}[on])
    )


@MODELS.callable(
    "torch.autograd.set_detect_anomaly",
    "torch.autograd.detect_anomaly",
    "torch.autograd.anomaly_mode.set_detect_anomaly",
    "torch.autograd.anomaly_mode.detect_anomaly",
)
def _anomaly(call: Call) -> Values:
    # `set_detect_anomaly(args.debug)` is a switch that users turn off; `detect_anomaly()` is on by itself.
    mode = call.constant(0, "mode") if call.name.endswith(".set_detect_anomaly") else True
    call.emit(DebugFlag, flag="anomaly", on=mode if isinstance(mode, bool) else None)
    return singleton(ContextManager(call.name))


@MODELS.callable("torch.distributed.set_debug_level")
def _debug_level(call: Call) -> Values:
    level = call.one(0, "level", Library)
    call.emit(DebugFlag, flag="collectives", on=level.name.endswith(".DETAIL") if level is not None else None)
    return singleton(NONE)


@MODELS.callable(
    "torch.compile",
    "functorch.compile.memory_efficient_fusion",
    "torch.jit.script",
    "torch.jit.trace",
    "torch._dynamo.optimize",
)
def _compile(call: Call) -> Values:
    if not call.args:
        return singleton(call.result("a compiler", fresh=True))
    scripted = "torch.jit.ScriptModule" if call.name.startswith("torch.jit.") else ""
    site, several = call.allocation_site(), len(call.args[0]) > 1

    def compiled(value: Value) -> Value:
        # A function stays the one that it is.
        if not isinstance(value, (Module, Wrapper)):
            return value
        own = (site, value) if several else site
        return Wrapper(own, call.place, call.label, WrapperKind.COMPILED, value, class_name=scripted)

    return call.args[0].map(compiled)


@MODELS.callable("torch.autograd.backward")
def _backward(call: Call) -> Values:
    for value in call.args[0] if call.args else ():
        model = MODELS.methods.get((type(value), "backward"), None)
        if model is not None:
            call.receiver = value
            model(call)
    return singleton(NONE)


@MODELS.callable("torch.autograd.grad", "torch.autograd.functional.*", "torch.func.*")
def _take_gradient(call: Call) -> Values:
    given = flatten(call.do, call.all_values())
    tensors = tensors_in(given)
    call.emit(
        TakeGradient,
        forwards=frozenset().union(*(tensor.forwards for tensor in tensors)),
        # DDP does not reduce what `autograd.grad` returns: rules must know all that went in.
        complete=all(isinstance(value, (Tensor, Const, Parameters)) for value in given),
    )
    if call.name != "torch.autograd.grad":
        return singleton(call.result())
    # Gradient penalties differentiate the gradient again.
    graph = bool(call.is_true(3, "create_graph"))
    owner = tensors[0].device if tensors else None
    forwards = frozenset().union(*(tensor.forwards for tensor in tensors)) if graph else frozenset()
    return singleton(
        made(call.do, call.place, call.label, TensorOrigin.GRADIENT, device=owner, graph=graph, forwards=forwards)
    )


TORCH_VERSION = "torch.__version__"
OPEN_SINCE = 2, 0
"""The first version of torch that a reader may lack."""
_VERSION = r"([0-9]{1,9})(?:\.([0-9]{1,9}))?"


def _version_of(value: Value) -> str:
    """What `version.parse("1.8")` was given, an empty text for anything else."""
    match value.term:
        case CallResult("packaging.version.parse", Const(str(text))):
            return text
    return ""


@told(HOOKS.library_compared)
def _newer_than(op: ast.cmpop, library: Library, other: Value) -> bool | None:
    """What a comparison of the version of torch says, which is taken to be a new one; None where that is open."""
    if library.name != TORCH_VERSION:
        return None
    text = other.value if isinstance(other, Const) else _version_of(other)
    match = re.match(_VERSION, text) if isinstance(text, str) else None
    if match is None:
        # `torch.__version__ == "parrots"` asks for another library in its place.
        return isinstance(op, ast.NotEq) if text and isinstance(op, (ast.Eq, ast.NotEq)) else None
    if tuple(map(int, match.groups(default="0"))) >= OPEN_SINCE or isinstance(op, (ast.In, ast.NotIn)):
        return None
    return isinstance(op, (ast.Gt, ast.GtE, ast.NotEq))
