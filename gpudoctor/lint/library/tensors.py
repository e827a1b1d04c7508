"""Tensors: where they come from, how they move, and what makes the host wait for them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from operator import attrgetter

from gpudoctor.diagnostic import Location
from gpudoctor.lint.analyses.async_work import note_pending, note_shown
from gpudoctor.lint.analyses.collective_taint import (
    after_operation,
    depends_on,
    marks_of,
    note_in_place,
    note_view,
    without,
)
from gpudoctor.lint.analyses.data_parallel_replicas import extent_of_part
from gpudoctor.lint.analyses.extents import extent_by, of_extent
from gpudoctor.lint.analyses.forward_body import MEETING, brought, check_meeting, computing, kept
from gpudoctor.lint.analyses.loss_scale import (
    SCALING,
    is_returned_on_cpu,
    may_lack_graph,
    of_arithmetic,
    part_returned,
)
from gpudoctor.lint.domain.abstract_state import NO, YES, DatasetState, LoaderState, TensorState
from gpudoctor.lint.domain.arguments import Arguments
from gpudoctor.lint.domain.container import items_held
from gpudoctor.lint.domain.data import Dataset, Loader
from gpudoctor.lint.domain.device import CPU, Device, on_gpu
from gpudoctor.lint.domain.function import Method
from gpudoctor.lint.domain.group import Work
from gpudoctor.lint.domain.heuristics import LOSS
from gpudoctor.lint.domain.module import Module, Wrapper
from gpudoctor.lint.domain.rank import Rank, RankKind, RankSource
from gpudoctor.lint.domain.symbols import Attribute, CallResult, MethodResult
from gpudoctor.lint.domain.tensor import Extent, MarkKind, Tensor, TensorOrigin, tensors_in
from gpudoctor.lint.domain.value import (
    NO_SHARDS,
    NONE,
    Anonymous,
    Const,
    Text,
    Unknown,
    Value,
    Values,
    divergence_of,
    shards_of,
    single_of,
)
from gpudoctor.lint.events.host_waits import HostSync
from gpudoctor.lint.events.model import WeightsSet
from gpudoctor.lint.events.placement import Mixed, Move
from gpudoctor.lint.events.reporting import MetricShown
from gpudoctor.lint.events.training_step import Accumulated, Backward, ClearGradients, ClipGradients
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.interface.library_call import (
    MODELS,
    NOT_ANSWERED,
    Call,
    LibraryContext,
    alternatives,
    logs,
    singleton,
)
from gpudoctor.lint.library.devices import devices_of, moved_by_type, moved_to, use
from gpudoctor.manifest.compiled import kind_of_attribute, operations
from gpudoctor.record import replace


def made(do: LibraryContext, place: Location, label: str, origin: TensorOrigin, **fields: object) -> Tensor:
    """A new tensor."""
    return Tensor(do.allocation_site(place), place, label, origin, **fields)  # type: ignore[arg-type]


def batch(do: LibraryContext, loader: Loader, place: Location, label: str) -> Values:
    """One batch of a loader: its own share for each rank where the loader is sharded."""
    # Frameworks put a DistributedSampler in place by themselves.
    sharded = loader.sharded or bool(loader.managed) or loader.shared_by_sampler is not None
    agreed = not sharded and _same_everywhere(loader)
    # A shuffled loader draws from each process's own seed: ranks see different batches.
    divergence = Divergence.NONE if agreed else Divergence.LOCAL
    # What may be a share is no reason to blame a result for standing for one.
    surely = loader.surely_sharded or bool(loader.managed) or loader.shared_by_sampler is not None
    shards: frozenset[Value] = frozenset([loader]) if surely else NO_SHARDS
    device: Value = Unknown(Anonymous("device of a batch", loader), "a loader that may move its batches")
    if do.flag(loader, LoaderState.brought) is YES:
        device = Device("cuda", Rank(RankKind.LOCAL, RankSource.FRAMEWORK), loader.place)
    elif not (loader.managed or loader.opaque) and _is_made_on_cpu(do, loader):
        device = CPU
    return singleton(
        made(
            do,
            place,
            label,
            TensorOrigin.BATCH,
            device=device,
            graph=False,
            batch_of=loader,
            shards=shards,
            dependence=divergence,
        )
    )


def _is_made_on_cpu(do: LibraryContext, loader: Loader) -> bool:
    if do.flag(loader, LoaderState.made_on_cpu) is not NO:
        return True
    # torch's own collate yields CPU tensors; any other code that was not followed to its end may yield GPU ones.
    joined = not loader.custom_collate or do.flag(loader, LoaderState.joined_in_place) is not NO
    return joined and not _moves_itself(do, loader)


def _same_everywhere(loader: Loader) -> bool:
    """Every rank gets the same batches: a plain loader that does not shuffle."""
    shuffle = loader.shuffle.single if loader.shuffle is not None else Const(False)
    plain = all(values is None or values.single == NONE for values in (loader.sampler, loader.batch_sampler))
    return plain and shuffle == Const(False)


def _moves_itself(do: LibraryContext, loader: Loader) -> bool:
    """The data set is code of the project, which may put items on a device."""
    for value in loader.dataset or ():
        if isinstance(value, Dataset):
            # `Subset` and `random_split` only pick: the items are made by the data set underneath.
            while isinstance(value.parent, Dataset):
                value = value.parent
            if do.flag(value, DatasetState.moves_items) is not NO:
                return True
        elif not isinstance(value, Unknown) or (_is_chosen(value) and not _has_workers(loader)):
            return True
    return False


def _is_chosen(value: Unknown) -> bool:
    """What the program's own choice among its data sets has made, as `DATASETS[args.data]()`: none was read."""
    return isinstance(value.term, CallResult) and not isinstance(value.term.function, str) and not value.escaped_from


def _has_workers(loader: Loader) -> bool:
    """Other processes make its items, which cannot be on a GPU there."""
    return loader.num_workers is not None and not loader.num_workers.any(lambda value: value == Const(0))


def part_of(
    do: LibraryContext, tensor: Tensor, identity: Hashable, place: Location, label: str = "", key: object = None
) -> Tensor:
    """An item, an attribute or a slice of a tensor or of a batch."""
    # `batch = {k: v.to(device) …}` or `batch["x"] = x.cuda()`: entries are no longer on the CPU for sure.
    changed = tensor.origin is TensorOrigin.BATCH and do.flag(tensor, TensorState.rewritten) is not NO
    device = Unknown(Anonymous("device of an entry", tensor), "entries were replaced") if changed else tensor.device
    if tensor.batch_of is not None and not tensor.part and _is_without_tensors(do, tensor, key):
        device = Unknown(Anonymous("device of a number", tensor), "no tensor")
    device = CPU if is_returned_on_cpu(do, tensor, key) else device
    doubtful = tensor.doubtful or may_lack_graph(do, tensor, key)
    part = replace(
        tensor, identity=identity, place=place, label=label or tensor.label, part=True, doubtful=doubtful,
        device=device, extent=extent_of_part(do, tensor, key), plain=False,
    )  # fmt: skip
    return part_returned(do, tensor, key, part)


def _is_without_tensors(do: LibraryContext, tensor: Tensor, key: object) -> bool:
    """`images, sizes = batch`, of numbers that the loader's own function has left as they are."""
    plain = do.state(tensor.batch_of, LoaderState.without_tensors) if isinstance(tensor.batch_of, Loader) else None
    return any(each.single == Const(key) for each in items_held(plain))


def cut(result: Value, name: str) -> Value:
    """What `z.chunk(2)` gives are parts of a tensor, none of which is a mask or a counter beside it."""
    return replace(result, part=True) if name in operations("splits") and isinstance(result, Tensor) else result


def as_reduced(do: LibraryContext, tensor: Tensor, read_at: Location | None = None) -> Tensor:
    """The tensor with what a collective has made of it, the same on all ranks; else with what was written into it."""
    if is_reduced(do, tensor):
        if read_at is not None:
            note_pending(do, tensor, read_at)
        marks = marks_of(do, tensor)
        return replace(tensor, shards=marks, dependence=depends_on(marks))
    # `total.clone().mul_(1 / world_size)`: a mean again.
    if tensor.shards and do.flag(tensor, TensorState.scaled) is not NO:
        tensor = without(tensor, MarkKind.SUM)
    # `counts[0] += hits.sum()`: the counts of a rank are those of its share.
    written = do.state(tensor, TensorState.written_items)
    if written is None:
        return tensor
    known = [tensor, *(value for value in written if isinstance(value, (Tensor, Unknown)))]
    return replace(tensor, shards=shards_of(known), dependence=divergence_of(known))


NOT_DIFFERENTIABLE = operations("answers", "without_graph")


def as_loss(do: LibraryContext, value: Value, made_by: str, whole: bool = False, mean: bool = False) -> Value:
    """What a loss function returns surely has a graph: nobody gives it anything else. It is one number if `whole`."""
    if not LOSS.fits(made_by) or not isinstance(value, Tensor):
        return value
    if whole and not mean:
        do.set_flag(value, TensorState.whole_sum)
    # What was not read may have made its input of a batch alone: nobody shows it as an example.
    origin = TensorOrigin.OTHER if value.origin is TensorOrigin.BATCH else value.origin
    return replace(value, origin=origin, doubtful=False, extent=Extent.NUMBER if whole else None, mean=mean)


def reduced(do: LibraryContext, value: Value, name: str) -> Value:
    """What `mean` or `sum` makes of all numbers of a tensor."""
    if name not in ("mean", "sum") or not isinstance(value, Tensor) or value.extent is not Extent.NUMBER:
        return value
    if name == "sum":
        do.set_flag(value, TensorState.whole_sum)
        return value
    return replace(value, mean=True)


def without_graph(value: Value) -> Value:
    """The same tensor, as an operation returns it that is not differentiable."""
    return value.if_tensor(graph=False, forwards=frozenset())


FILLED = operations("fills")


def filled(value: Value, numbers: list[Value]) -> Value:
    """Such a tensor, where `numbers` say what it holds: nothing of the other one, and no graph."""
    if not isinstance(value, Tensor):
        return value
    known = [each for each in numbers if isinstance(each, (Tensor, Unknown))]
    return replace(
        value, origin=TensorOrigin.FACTORY, graph=False, forwards=frozenset(), batch_of=None, shards=shards_of(known),
        dependence=divergence_of(known), used=frozenset(),
    )  # fmt: skip


def combined(
    do: LibraryContext, values: list[Value], place: Location, label: str, certain: list[Value] | None = None
) -> Value:
    """The result of an operation: it inherits device, graph and data from its operands.

    `certain` are the operands that can be nothing else, where that is not all of them."""
    for value in values:
        # `loss = dist.all_reduce(loss)` binds None or a handle, not a tensor.
        if isinstance(value, Work):
            return Unknown(Anonymous("result of", value), "made from the result of a collective", label)
    tensors = tensors_in(values)
    check_devices(do, values if certain is None else certain, label, place)
    found: list[Divergence] = []
    shards = NO_SHARDS
    for value in values:
        # Unknown operands count: a number from `.item()` still carries its rank's share.
        if isinstance(value, (Tensor, Unknown)):
            seen = as_reduced(do, value, place) if isinstance(value, Tensor) else value
            found.append(seen.dependence)
            shards = shards | seen.shards if shards else seen.shards
    divergence = _together(found)
    first = tensors[0]
    if len(tensors) == 1:
        device, forwards, batch_of = first.device, first.forwards, first.batch_of
    else:
        # A 0-dim CPU tensor may meet a GPU tensor: the result lies on the GPU.
        device = next((tensor.device for tensor in tensors if not _is_cpu(tensor.device)), first.device)
        # Of `x.cuda() if args.cuda else x` it is on the GPU only perhaps.
        if certain is not None and any(each.device != device and each not in certain for each in tensors):
            device = None
        forwards = first.forwards.union(*[tensor.forwards for tensor in tensors[1:]])
        batch_of = next((tensor.batch_of for tensor in tensors if tensor.batch_of), None)
    graph, doubtful = False if do.evaluating else _graph(tensors), _doubtful(do, tensors)
    used = NO_SHARDS.union(*[tensor.used for tensor in tensors if tensor.used and tensor.graph])
    return Tensor(
        do.allocation_site(place), place, label, _origin(tensors), device, forwards, graph, batch_of, shards,
        divergence, False, doubtful, used=used, plain=all(tensor.plain for tensor in tensors),
    )  # fmt: skip


def _together(found: list[Divergence]) -> Divergence:
    """What a result depends on. A factor that was not read makes nothing the same on all ranks that was not before."""
    divergence = found[0]
    # By far the most.
    if all([each is divergence for each in found]):  # noqa: C419, a list is quicker here
        return divergence
    handed = Divergence.NONE
    for each in found:
        divergence |= each
        # Only code that was handed what differs may have asked the other ranks about it.
        handed |= each if each & (Divergence.LOCAL | Divergence.RANK) else Divergence.NONE
    if not divergence & Divergence.LOCAL:
        return divergence
    # The loss of what a model says about rows that a rank has chosen for itself tells nobody which rank it is.
    divergence &= ~Divergence.RANK
    return divergence if handed & Divergence.UNREAD else divergence & ~Divergence.UNREAD


def _doubtful(do: LibraryContext, tensors: list[Tensor]) -> bool:
    """No operand surely has a graph; one that went backward has one."""
    with_graph = [tensor for tensor in tensors if tensor.graph is True]
    # "accumulates the graph" must not be said of a counter that the model returned.
    return bool(with_graph) and not any(surely_has_graph(do, tensor) for tensor in with_graph)


def surely_has_graph(do: LibraryContext, tensor: Tensor) -> bool:
    """It is no mere part of what a model returned, or it went backward."""
    # `for key in out: out[key] = out[key].item()`: what stands for a dictionary may hold numbers by then.
    replaced = do.flag(tensor, TensorState.rewritten) is not NO
    return not (tensor.doubtful or replaced) or do.flag(tensor, TensorState.differentiated) is not NO


def _origin(tensors: list[Tensor]) -> TensorOrigin:
    origins = [tensor.origin for tensor in tensors]
    if len(origins) == 1:
        return origins[0]
    # What a model computed outweighs the rest: loss of output and target is an output.
    for origin in (TensorOrigin.OUTPUT, TensorOrigin.GRADIENT, TensorOrigin.PARAMETER):
        if origin in origins:
            return origin
    return origins[0] if origins.count(origins[0]) == len(origins) else TensorOrigin.OTHER


def _graph(tensors: list[Tensor]) -> bool | None:
    graphs = [tensor.graph for tensor in tensors]
    return True if True in graphs else (None if None in graphs else False)


def _is_cpu(device: Value | None) -> bool:
    return device is not None and device.is_cpu


def is_reduced(do: LibraryContext, tensor: Tensor) -> bool:
    """A collective has made this tensor the same on all ranks."""
    return do.flag(tensor, TensorState.reduced) is not NO


def is_agreed(do: LibraryContext, value: Value) -> bool:
    """The ranks have the same of it since a collective, whichever of several tensors it was on each of them before."""
    counted = number_of(value)
    if counted is not None and not value.divergence:
        value = counted
    return isinstance(value, Tensor) and is_reduced(do, value)


def number_of(value: Value | None) -> Tensor | None:
    """The tensor of which a value is the number: `loss.item()`."""
    match value and value.term:
        case MethodResult(Tensor() as tensor, "item"):
            return tensor
    return None


def is_cpu_batch(value: Value) -> bool:
    """A batch, or a part of one, that is still on the CPU. The sum of one is a number, which may stay there."""
    if not isinstance(value, Tensor) or value.extent is Extent.NUMBER or value.plain:
        return False
    return _is_cpu(value.device) and value.origin is TensorOrigin.BATCH


def check_each_way(call: Call) -> None:
    """Log tensors that meet on different devices on some paths: `criterion(output, target)` of an output that lies on
    the GPU where an option names some."""
    given = [*call.args, *call.keywords.values()]
    on_gpu = attrgetter("on_accelerator")
    forked = next((each for each in given if len(each.bindings) > 1 and each.any(on_gpu)), None)
    if forked is None:
        return

    def check(_: Value) -> Values:
        here, tests = [each.restrict(call.do.path).single for each in given], call.do.path.kinds
        # What a test has told to be no tensor meets none.
        met = [each for each in here if each is not None and not each.is_plain(tests)]
        check_devices(call.do, met, call.label, call.place)
        return singleton(NONE)

    call.do.for_each_value(forked, check, call.node)


def check_devices(
    do: LibraryContext, values: list[Value], by: str, place: Location, module: Module | None = None
) -> None:
    """Log tensors that meet on different devices. A number (a 0-dim tensor) may lie on the CPU: only batches count."""
    if len(values) < 2:
        return
    tensors = tensors_in(values)
    on_cpu = tuple(each for each in tensors if is_cpu_batch(each) and not _has_moved_entries(do, each))
    elsewhere = tuple(t for t in tensors if t.on_accelerator)
    # torch: "Expected all tensors to be on the same device".
    if on_cpu and elsewhere:
        do.emit(Mixed, at=place, by=by, on_cpu=on_cpu, on_device=elsewhere, module=module)


def _has_moved_entries(do: LibraryContext, tensor: Tensor) -> bool:
    """`for key in batch: batch[key] = batch[key].to(device)` leaves the dictionary where it is, which is nowhere."""
    written = do.state(tensor, TensorState.written_items)
    moved = written is None or written.any(lambda each: isinstance(each, Tensor) and not each.on_cpu)
    return moved and do.flag(tensor, TensorState.rewritten) is not NO


@MODELS.attribute(Tensor)
def _attribute(call: Call[Tensor]) -> Values:
    tensor, name = call.receiver, call.name
    if name == "device":
        return singleton(tensor.device or Unknown(Attribute(tensor, "device"), "the device of a tensor", call.label))
    # A batch may have been brought to the GPU by what is not seen to do so.
    stays = tensor.on_cpu and tensor.origin is TensorOrigin.FACTORY
    if name == "is_cuda" and tensor.device is not None and (stays or tensor.device.is_cuda):
        return singleton(Const(not stays))
    # Gradients are of a kind of their own: averaging them by hand is an all-reduce on them.
    if name == "grad":
        return singleton(_gradient_of(call))
    # `.data` shares the memory and drops the graph, as `detach()` does.
    if name == "data":
        return singleton(_without_graph(call, tensor))
    if kind_of_attribute("torch.Tensor", name):
        return call.unknown(Attribute(tensor, name), f"the {name} of a tensor", config=False)
    # In-place methods all end so; models of newer torch need no entry here.
    if name in operations("method") or (Tensor, name) in MODELS.methods or name.endswith("_"):
        return singleton(Method(tensor, name))
    # `outputs.loss` is the same tensor each time: what went backward once has a graph.
    identity = ("part", tensor.identity, name) if tensor.origin is TensorOrigin.OUTPUT else call.allocation_site()
    return singleton(part_of(call.do, as_reduced(call.do, tensor), identity, call.place, key=name))


def _without_graph(call: Call, tensor: Tensor) -> Tensor:
    plain = as_reduced(call.do, tensor)
    bare = replace(
        plain, identity=call.allocation_site(), place=call.place, forwards=frozenset(), graph=False, part=False,
        used=frozenset(),
    )  # fmt: skip
    note_view(call.do, bare, tensor)
    return bare


@MODELS.method(Tensor, "detach", "clone", "detach_")
def _detach(call: Call[Tensor]) -> Values:
    tensor = call.receiver
    # A clone keeps its graph, which is why it leaks where detach would not.
    if call.name == "clone":
        copy = kept(combined(call.do, [tensor], call.place, tensor.label), tensor, call.name)
        return singleton(_copied(call.do, tensor, copy))
    return singleton(_without_graph(call, tensor))


def _copied(do: LibraryContext, tensor: Tensor, copy: Value) -> Value:
    """A copy is a mean of the same batch, unless that was scaled meanwhile."""
    mean = tensor.mean and do.flag(tensor, TensorState.scaled) is NO and not is_reduced(do, tensor)
    return copy.if_tensor(mean=mean) if mean else copy


@MODELS.method(Tensor, "get_device")
def _get_device(call: Call[Tensor]) -> Values:
    device = call.receiver.device
    return singleton(device.index) if isinstance(device, Device) and device.index is not None else NOT_ANSWERED


@MODELS.method(Tensor, "pin_memory")
def _pin(call: Call[Tensor]) -> Values:
    pinned = combined(call.do, [call.receiver], call.place, call.receiver.label)
    # A copy to the GPU can then go on beside other work.
    if isinstance(pinned, Tensor):
        call.do.set_flag(pinned, TensorState.pinned)
    return singleton(pinned)


@MODELS.method(Tensor, "to", "cuda", "cpu", "type", "type_as")
def _move(call: Call[Tensor]) -> Values:
    tensor = call.receiver
    if call.name == "type" and not (call.args or call.keywords):
        return call.unknown(MethodResult(tensor, "type"), "the type of a tensor")
    devices, dtype = _brought_to(call)
    use(call, devices, "move")
    # `.to(torch.float16)` moves nothing.
    if devices is not None:
        asked = call.is_true(-1, "non_blocking")
        asynchronous = asked and call.do.flag(tensor, TensorState.pinned) is NO
        waits = _is_cpu(tensor.device) and on_gpu(devices) and "non_blocking" not in call.keywords and not asked
        call.emit(
            Move, subject=tensor, device=devices, call=call.name, dtype=dtype, unpinned_async=asynchronous, waits=waits
        )
    # Copies to pageable memory block the host, as `.item()` does.
    if (
        devices is not None
        and _is_cpu(devices.single)
        and not _is_cpu(tensor.device)
        and "non_blocking" not in call.keywords
    ):
        call.emit(HostSync, call=call.name, subject=tensor)
    moved = _copied(call.do, tensor, combined(call.do, [tensor], call.place, tensor.label))
    assert isinstance(moved, Tensor)
    device = (
        moved.device
        if devices is None
        else (devices.single or Unknown(Anonymous("device", devices), "one of several devices"))
    )
    # A moved batch is a batch still: what shards it had it keeps.
    there = brought(call, replace(moved, origin=tensor.origin, device=device), tensor)
    if devices is not None and _is_cpu(device):
        call.do.set_flag(there, TensorState.moved_to_host)
    return singleton(there)


def _brought_to(call: Call[Tensor]) -> tuple[Values | None, bool]:
    """Where a tensor is moved (None: it stays), and whether its dtype changes."""
    if call.name == "type":
        return moved_by_type(call), True
    if call.name != "type_as":
        return moved_to(call)
    # `x.type_as(y)` takes the device of y as well: the Lightning idiom for new tensors.
    other = single_of(call.arg(0, "other"))
    there = other.device if other is not None else None
    return singleton(there or Unknown(Attribute(other, "device"), "a tensor's device")), True


@MODELS.method(Tensor, "item", "tolist", "numpy")
def _to_host(call: Call[Tensor]) -> Values:
    tensor = call.receiver
    if not _is_cpu(tensor.device):
        call.emit(HostSync, call=call.name, subject=tensor)
    # After an all-reduce the number speaks for all ranks and may be shown.
    seen = as_reduced(call.do, tensor, call.place)
    why = "a number computed on the GPU"
    return singleton(Unknown(MethodResult(tensor, "item"), why, call.written, seen.dependence, False, seen.shards))


@MODELS.method(Tensor, "backward")
def _backward(call: Call[Tensor]) -> Values:
    tensor = call.receiver
    # A vector goes backward too, if it is told with which weights.
    weighted = bool(call.args) or "gradient" in call.keywords
    loss = replace(tensor, extent=None, mean=False, divided=None) if weighted else tensor
    in_place = call.do.state(tensor, TensorState.scaled_in_place)
    if in_place is not None:
        changed = in_place.single
        loss = replace(loss, mean=False, divided=changed.divided if changed else None)
    scaler = single_of(call.do.state(tensor, TensorState.scaled_by))
    call.emit(
        Backward, loss=loss, forwards=tensor.forwards, complete=tensor.graph is not None, scaler=scaler,
        plain=not (call.args or call.keywords or call.open_ended),
    )  # fmt: skip
    # torch raises unless there was a graph, so from here on there surely was one.
    call.do.set_flag(tensor, TensorState.differentiated)
    return singleton(NONE)


@MODELS.method(Unknown, "item", "tolist", "numpy", "cpu")
def _gathered_to_host(call: Call[Unknown]) -> Values:
    """`accelerator.gather(loss).mean().item()`: what comes from all ranks lies on the GPU."""
    if _from_all_ranks(call.receiver):
        call.emit(HostSync, call=call.name)
    return NOT_ANSWERED


def _from_all_ranks(value: object) -> bool:
    """A collective has returned it, or it was computed by methods of what that returned."""
    while isinstance(value, Unknown) and not value.agreed:
        term = value.term
        value = term.function if isinstance(term, CallResult) else term.of if isinstance(term, Attribute) else None
    return isinstance(value, Unknown)


# Which forwards it goes through is not known: rules of absence stand back.
MODELS.method(Unknown, "backward")(logs(Backward, loss="receiver", complete=False))


@MODELS.method(Unknown, "to", "cuda")
def _move_of_unknown(call: Call) -> Values:
    """`torch.load(path)["x"].cuda()`: whatever it is, it goes to that device."""
    use(call, moved_to(call)[0], "move", call.argument_places.get("0"))
    return NOT_ANSWERED


def _gradient_of(call: Call[Tensor], **fields: object) -> Tensor:
    tensor, kind = call.receiver, TensorOrigin.GRADIENT
    owner = tensor.batch_of if tensor.origin is TensorOrigin.PARAMETER else None
    return made(call.do, call.place, call.label, kind, device=tensor.device, batch_of=owner, **fields)


@MODELS.method(Tensor, "register_hook", "register_post_accumulate_grad_hook")
def _register_hook(call: Call[Tensor]) -> Values:
    """The hook runs in each backward; what it does is followed once, where it is registered."""
    tensor = call.receiver
    given = tensor
    if call.name == "register_hook":
        given = _gradient_of(call, graph=False)
    hook = call.arg(0, "hook")
    if hook is not None:
        with call.do.in_contexts("hook"):
            call.do.call(hook, Arguments((singleton(given),)), call.node)
    return call.unknown(Anonymous("hook", call.allocation_site()), "a handle")


@MODELS.callable("torch.autograd.Variable._execution_engine.queue_callback")
def _queue_callback(call: Call) -> Values:
    """From a hook: it is called when the whole backward is done, as own versions of DDP average."""
    callback = call.arg(0, "callback")
    with call.do.in_contexts("hook"):
        return call.do.call(callback, Arguments(), call.node) if callback is not None else NOT_ANSWERED


def key_of(tensor: Tensor) -> Unknown:
    """The name of an entry, of none in particular, of what may be a dictionary."""
    return Unknown(Anonymous("key of", tensor), "a key of a batch")


@MODELS.method(Tensor, "zero_", "fill_")
@MODELS.method(Unknown, "zero_")
def _zero(call: Call[Tensor | Unknown]) -> Values:
    """`p.grad.zero_()` clears as `optimizer.zero_grad()` does."""
    value = call.receiver
    # `buffer.zero_()` clears no gradient.
    clears = not _is_content(value) if isinstance(value, Unknown) else value.origin is TensorOrigin.GRADIENT
    if clears:
        call.emit(ClearGradients, target=value)
    return singleton(value)


def _is_content(value: Unknown) -> bool:
    """`layer.bias.data`: the numbers of a parameter, not of its gradient."""
    match value.term:
        case Attribute(Unknown(Attribute(_, name)), "data"):
            return name != "grad"
        case Attribute(Unknown(), "data"):
            return False
        case Attribute(_, "data"):
            return True
    return False


@MODELS.method(Tensor)
def _method(call: Call[Tensor]) -> Values:
    tensor = call.receiver
    if call.name in operations("describes"):
        # `x.size(0)` is a number, and `x.size()` a shape.
        return call.unknown(MethodResult(tensor, call.name, call.args), f"the {call.name} of a tensor")
    certain = computing(call.name, [tensor, *call.sure_values()])
    result = combined(call.do, [tensor, *call.all_values()], call.place, call.written, certain)
    operands: list[Value] = [tensor, *call.all_values()]
    if call.name in MEETING:
        check_meeting(call.do, certain, call.name, call.place)
    result = kept(result, tensor, call.name)
    if call.name.partition("_")[0] == "new" and isinstance(result, Tensor):
        result = _made_beside(call, result)
    if call.name in FILLED:
        return singleton(filled(result, [each for values in call.args[1:] for each in values]))
    # In-place: the same object, so later reads see what is known of it.
    if call.name.endswith("_") and not call.name.endswith("__"):
        changed = of_arithmetic(call.do, tensor, operands, call.name, call.place)
        # Nobody computes the gradients of a weight.
        if call.name in SCALING and tensor.origin is not TensorOrigin.PARAMETER:
            call.do.set_state(tensor, TensorState.scaled_in_place, singleton(changed))
        if tensor.origin is TensorOrigin.PARAMETER and tensor.batch_of is not None:
            call.emit(WeightsSet, module=tensor.batch_of)
        if tensor.origin is TensorOrigin.GRADIENT and isinstance(tensor.batch_of, (Module, Wrapper)):
            _note_clipped(call, tensor, tensor.batch_of)
        note_in_place(call.do, tensor, call.name)
        return singleton(tensor)
    result = of_extent(
        of_arithmetic(call.do, result, operands, call.name, call.place), extent_by(call, call.name, operands)
    )
    result = after_operation(call.name, operands, result)
    result = reduced(call.do, cut(result, call.name), call.name)
    # `loss.contiguous()`, `loss.float()`: the same number in another form.
    if tensor.mean and call.name in operations("shares"):
        result = _copied(call.do, tensor, result)
    return singleton(without_graph(result) if call.name in NOT_DIFFERENTIABLE else result)


_CUTTING = frozenset({"clamp_", "clamp_max_", "clip_"})


def _note_clipped(call: Call[Tensor], gradient: Tensor, module: Module | Wrapper) -> None:
    """`p.grad.clamp_(-1, 1)`, and `p.grad.mul_(bound / norm)` by a number that is computed of the gradients."""
    computed = any(isinstance(each, Tensor) and each.batch_of == module for each in call.all_values())
    by_norm = call.name in SCALING and computed
    if by_norm or call.name in _CUTTING:
        call.emit(ClipGradients, call=f"{gradient.label}.{call.name}", modules=frozenset({module}), by_norm=by_norm)


def _made_beside(call: Call[Tensor], result: Tensor) -> Tensor:
    """`grad.new_zeros(n)` is a tensor of its own and no gradient, and lies where `grad` does, whatever it is given."""
    given = devices_of(call.keywords.get("device"), call.place)
    device = call.receiver.device if given is None else given.single
    if device is None and given is not None:
        device = Unknown(Anonymous("device", given), "one of several devices")
    return replace(result, origin=TensorOrigin.FACTORY, device=device)


@MODELS.called(Tensor)
def _called(call: Call[Tensor]) -> Values:
    """A method that is not listed above reads as an attribute first: an operation like any other."""
    tensor = call.receiver
    certain = [tensor, *call.sure_values()]
    return singleton(combined(call.do, [tensor, *call.all_values()], call.place, call.written, certain))


def note_accumulation(do: LibraryContext, target: str, new: Values, place: Location) -> None:
    """Something takes a tensor with its graph: `total += loss`."""
    # Only definite graphs: a metric summed under `no_grad` holds nothing.
    sums = [value for value in tensors_in(new) if value.graph is True and surely_has_graph(do, value)]
    if sums:
        # It starts anew on some paths, every hundred steps: those on the others go on growing.
        do.emit(Accumulated, at=place, tensor=sums[0], into=target, held=frozenset().union(*(s.forwards for s in sums)))


def note_printed(do: LibraryContext, values: Values, place: Location) -> None:
    """A value becomes text."""
    for value in values:
        # `f"{loss}"` calls `item()` in `Tensor.__format__`: as dear as `loss.item()`.
        if value.origin is TensorOrigin.OUTPUT and not _is_cpu(value.device):
            do.emit(HostSync, at=place, call="print", subject=value)


def asked(do: LibraryContext, tensor: Tensor, place: Location) -> Tensor:
    """What a test sees of a tensor that it asks."""
    if tensor.origin is TensorOrigin.OUTPUT and not _is_cpu(tensor.device):
        do.emit(HostSync, at=place, call="bool", subject=tensor)
    return as_reduced(do, tensor, place)


def shards_in(do: LibraryContext, values: list[Value]) -> frozenset[Value]:
    """The sharded loaders that these values were computed from, and that no collective has made whole."""
    found = NO_SHARDS
    for value in values:
        match value:
            case Tensor():
                found |= as_reduced(do, value).shards
            case Unknown():
                found |= value.shards
            case Text(parts):
                # A container stands there with all that it holds.
                found |= shares_of(do, [singleton(part) for part in parts])
    return found


def shares_of(do: LibraryContext, given: Sequence[Values]) -> frozenset[Value]:
    """The sharded loaders from which all that is given was computed, whatever containers it lies in."""
    found = NO_SHARDS
    for each in given:
        for leaf in alternatives(do, each):
            found |= shards_in(do, agreed(do, leaf))
    return found


def agreed(do: LibraryContext, values: Values) -> list[Value]:
    """What may be there, with the shares that all of it has in common: one alternative may have been reduced.

    A constant is no alternative, it is what a sum starts with.
    """
    here = list(values.restrict(do.path))
    if not any([each.shards for each in here]):  # noqa: C419, a list is quicker here
        return here
    computed = [shards_in(do, [value]) for value in here if not value.is_constant]
    # `if distributed: all_reduce(x)` leaves an alternative that is whole: then nothing is certain.
    common = NO_SHARDS.union(*computed[:1]).intersection(*computed[1:])
    return [_only_shards(value, common) for value in here]


def _only_shards(value: Value, common: frozenset[Value]) -> Value:
    if isinstance(value, (Unknown, Tensor)) and value.shards - common:
        return replace(value, shards=value.shards & common)
    return value


def report(
    do: LibraryContext, how: str, given: Sequence[Values], place: Location, *,
    averaged: bool = False, divergence: Divergence = Divergence.NONE,
) -> None:  # fmt: skip
    """Log that numbers are shown, or behind the loop their mean: in a place about which ranks may disagree."""
    leaves = [leaf for each in given for leaf in alternatives(do, each)]
    for leaf in leaves:
        note_shown(do, leaf.single, place)
    values = [value for leaf in leaves for value in agreed(do, leaf)]
    shards = shards_in(do, values)
    if shards:
        shown = next(value for value in values if shards_in(do, [value]))
        divergence |= divergence_of(values)
        do.emit(
            MetricShown, at=place, how=how, value=shown, shards=shards, divergence=divergence, averaged=averaged
        )  # fmt: skip
