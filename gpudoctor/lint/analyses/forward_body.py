"""What happens inside a model. Its `forward` is rehearsed once: for layers that it leaves out, constants that it makes
or keeps on the CPU, and activations that meet layers on another GPU."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from gpudoctor.diagnostic import Location
from gpudoctor.lint.analyses.extents import is_count
from gpudoctor.lint.analyses.freezing import is_frozen
from gpudoctor.lint.analyses.loss_scale import known_of_returned, note_returned
from gpudoctor.lint.domain.abstract_state import NO, PROCESS, ClassState, ModuleState, ProcessState
from gpudoctor.lint.domain.arguments import Arguments
from gpudoctor.lint.domain.container import DictOf, ListOf, TupleOf, items_held
from gpudoctor.lint.domain.device import CPU, Device
from gpudoctor.lint.domain.function import BoundMethod, Class, Function
from gpudoctor.lint.domain.module import Module, Wrapper, WrapperKind
from gpudoctor.lint.domain.symbols import Attribute, Compares, MethodResult
from gpudoctor.lint.domain.tensor import Extent, Tensor, TensorOrigin, buffer_of, tensors_in
from gpudoctor.lint.domain.value import NONE, Anonymous, Const, Unknown, Value, Values, text_of
from gpudoctor.lint.events.collective import Collective, StartWork, WorkDone
from gpudoctor.lint.events.data_loading import DrawsNoise
from gpudoctor.lint.events.event_context import Event
from gpudoctor.lint.events.knowledge import Escape, ForwardSkipped, Imprecision
from gpudoctor.lint.events.model import Forward, ForwardTalks, ModuleClassFlaw, UnusedPart
from gpudoctor.lint.events.placement import ConstantMixed, Crossed, DeviceUsed, FixedMet, TensorKept
from gpudoctor.lint.interface.contents import find_method, known_items, possible_pairs, set_item
from gpudoctor.lint.interface.library_call import Call, LibraryContext, singleton
from gpudoctor.manifest.compiled import operations
from gpudoctor.record import replace

MEETING = operations("meets", "combines", "joins")
"""Operations of which all tensors must lie on one device."""
FIRST_ALONE = operations("first_alone", "reshapes")
_KEEPING = operations("each_number", "combines", "reshapes", "spreads") - operations("may_be_number")
"""What leaves a tensor on its device, and with a dimension at least."""
MOST_STATEMENTS = 12_000
"""A program that took more than this before a model is called is not looked at from inside."""
_ROOMY = frozenset({"arange", "linspace", "logspace", "randperm", "eye", "tril_indices", "triu_indices"})
_SIZED = frozenset({"zeros", "ones", "empty", "randn", "rand", "full"})


def root_of(call: Call, kind: str, device: Value | None) -> Hashable | None:
    """The identity of a tensor that surely is made on the CPU, as torch does by itself, or on one GPU that is named,
    and holds more than a number; None otherwise."""
    chosen = _on_one_gpu(call.do, device) if "device" in call.keywords else device == CPU
    if "out" in call.keywords or call.open_ended or not chosen:
        return None
    if kind in _ROOMY:
        return call.allocation_site()
    # `torch.zeros(size)` may be a number: `size` may be an empty tuple.
    first = call.first
    items = known_items(call.do, first)
    # What holds nothing keeps a place: what is computed with comes later.
    if kind in _SIZED and any(size.single == Const(0) for size in (items or call.args)):
        return None
    # A bare tensor of one number may lie on the CPU; `torch.zeros(size)` may be one.
    told = first is not None and (is_count(first) or _is_shape_of_batch(first))
    several = bool(items) or (len(call.args) > 1 and kind != "full") or told
    sized = kind in _SIZED and several
    # A list has a dimension, however many numbers there are in it.
    listed = kind in ("tensor", "as_tensor", "Tensor", "FloatTensor", "LongTensor") and (
        bool(items) or (items is None and isinstance(first, (ListOf, TupleOf)))
    )
    return call.allocation_site() if sized or listed else None


def _is_shape_of_batch(value: Value) -> bool:
    """`images.shape`, `images.size()`: it has a dimension for the samples."""
    match value.term:
        case Attribute(Tensor() as of, "shape") | MethodResult(Tensor() as of, "size", ()):
            return of.origin is TensorOrigin.BATCH and of.extent is not Extent.NUMBER
    return False


def _on_one_gpu(do: LibraryContext, device: Value | None) -> bool:
    """It is the same GPU for all copies of a model: the first one, or one by its number."""
    named = device is not None and device.is_cuda and (device.index is None or _number(device) is not None)
    # Inside of a copy "cuda" is its own GPU.
    return named and do.state(PROCESS, ProcessState.replicas_by) is None


def brought(call: Call, there: Tensor, before: Tensor) -> Tensor:
    """What a move makes of a tensor: a constant that was brought to a GPU is one there."""
    fixed = before.root is not None and before.device == CPU and _on_one_gpu(call.do, there.device)
    return replace(there, root=("moved", call.allocation_site())) if fixed else there


def joined(result: Value, operands: list[Value], name: str) -> Value:
    """What `torch.cat` makes of tensors that all lie on the CPU lies there, too, and is no bare number."""
    parts = tensors_in(operands)
    if name not in operations("joins") or not parts or not isinstance(result, Tensor):
        return result
    if any(each.origin is not TensorOrigin.FACTORY or each.device != CPU for each in parts):
        return result
    return replace(result, root=parts[0].root or parts[0].identity)


def computing(name: str, operands: list[Value]) -> list[Value]:
    """The operands that must lie on one device."""
    return operands[:1] if name.rpartition(".")[2] in FIRST_ALONE else operands


def kept(value: Value, source: Value, name: str) -> Value:
    """The result of a method on a tensor, which is the same constant still where only its shape or numbers change."""
    if name in _KEEPING and isinstance(source, Tensor) and isinstance(value, Tensor) and source.root is not None:
        return replace(value, root=source.root) if value.device == source.device else value
    return value


def _is_of_like_type(do: LibraryContext, constant: Tensor) -> bool:
    """A test has compared its type with that of another tensor: `if alpha.type() != x.type():` moves it, else they lie
    together."""
    asked = (each.atom.key for each in do.path)
    sides = (side.term for key in asked if isinstance(key, Compares) for side in (key.left, key.right))
    return any(isinstance(term, MethodResult) and term.method == "type" and term.of == constant for term in sides)


def check_meeting(
    do: LibraryContext, values: list[Value], by: str, place: Location, module: Module | None = None
) -> None:
    """Log what cannot be computed: a constant on the CPU meets a tensor on a GPU, or tensors of two GPUs meet."""
    tensors = tensors_in(values)
    # `meta` and the like count as an accelerator nowhere.
    there = [each for each in tensors if each.on_accelerator]
    constants = (each for each in tensors if each.root is not None and _stays_on_cpu(do, each))
    constant = next(constants, None) if there else None
    if constant is not None and not _is_of_like_type(do, constant):
        do.emit(ConstantMixed, at=place, by=by, constant=constant, other=there[0], module=module)
    _check_copies(do, there, by, place)
    first = next((each for each in there if _number(each.device) is not None), None)
    for each in there:
        if first is not None and _number(each.device) not in (None, _number(first.device)):
            do.emit(Crossed, at=place, by=by, tensor=first, other=each, module=module)
            return


def _stays_on_cpu(do: LibraryContext, tensor: Tensor) -> bool:
    """It is there, or is a buffer of a loss or the like, which nobody has moved."""
    owner = buffer_of(tensor)
    if owner is None:
        return tensor.device == CPU
    where = do.state(owner, ModuleState.device)
    return where is not None and where.single == CPU


def _check_copies(do: LibraryContext, there: list[Tensor], by: str, place: Location) -> None:
    """Log what is on one GPU for all copies of a model, and meets what each of them has on its own."""
    fixed = next((each for each in there if each.root is not None), None)
    copies = do.state(PROCESS, ProcessState.replicas_by) if fixed is not None else None
    own = next((each for each in there if each.origin in (TensorOrigin.BATCH, TensorOrigin.OUTPUT)), None)
    if copies is not None and copies.single is not None and own is not None:
        do.emit(FixedMet, at=place, by=by, wrapper=copies.single, fixed=fixed, other=own)


def _number(device: Value | None) -> int | None:
    # The index of a rank is another GPU on each rank, and the same one within it.
    return device.literal_index if device is not None and device.is_cuda else None


def note_kept(do: LibraryContext, owner: Module, name: str, value: Tensor, place: Location) -> None:
    """A constructor keeps a tensor as a plain attribute, which neither moves nor wrappers take along."""
    if value.root is None or do.flag(owner, ModuleState.constructed) is not NO:
        return
    own = any(find_method(do, owner, method) is not None for method in ("_apply", "to", "cuda"))
    do.emit(TensorKept, at=place, module=owner, name=name, tensor=value, taken_along=own)


def as_buffer(module: Module, name: str, value: Value) -> Value:
    """A registered tensor goes where its module goes."""
    # Where it was made says nothing about where it will be.
    where = Unknown(Attribute(module, "device"), "the device of a module", module.label)
    return value.if_tensor(device=where, label=name)


def study(call: Call, module: Value, core: Value, device: Value | None) -> None:
    """Rehearse the forward of a class of the project, once for each class, and log what is wrong in it."""
    do = call.do
    cls = core.cls if isinstance(core, Module) else None
    if not isinstance(core, Module) or cls is None:
        return
    own = find_method(do, core, "forward")
    too_long = do.execution.statements > MOST_STATEMENTS
    if own is None or too_long or cls in do.execution.studied:
        if own is not None and cls not in do.execution.studied:
            do.emit(ForwardSkipped, at=call.place, module=core)
        # Of several models that an option chooses from, each is called on a path of its own.
        note_returned(do, cls, do.execution.studied.get(cls) or {})
        _call_handed(call)
        return
    # A class has one `forward`: its hundred objects would tell the same.
    do.execution.studied[cls] = None
    # Only a wrapper brings the inputs along.
    there = device if isinstance(device, Device) and isinstance(module, Wrapper) else None
    positional = tuple(_moved(values, there) for values in call.args)
    named = {name: _moved(values, there) for name, values in call.keywords.items()}
    arguments = Arguments(positional, named, call.arguments.rest)
    # What is read tells what is used, whatever way it is written.
    begin, before = len(do.execution.reads), _entries_of(do, arguments)
    with do.execution.speculative() as run:
        if isinstance(module, Wrapper) and module.kind is WrapperKind.DATA_PARALLEL:
            do.set_state(PROCESS, ProcessState.replicas_by, singleton(module))
        returned = known_of_returned(do, do.call(own, arguments, call.node))
        filled = [name for name in _entries_of(do, arguments) if name not in before]
    events = run.events
    do.execution.studied[cls] = returned
    note_returned(do, cls, returned)
    if filled:
        do.set_state(cls, ClassState.fills, singleton(TupleOf(tuple(singleton(Const(name)) for name in filled))))
    # A speculative run forgets what was looked at in it; of this one the events are kept.
    do.execution.studied.update(dict.fromkeys(run.studied))
    reads = set(do.execution.reads[begin:])
    for event in events:
        # What a part leaves out the model around it may use: `self.encoder.head(features)`.
        if not isinstance(event, UnusedPart) or (event.module, event.name) not in reads:
            _tell_again(do, event)
    replay_for_ranks(do, events)
    if any(isinstance(event, ForwardTalks) or _exchanges_activations(event) for event in events):
        do.emit(ForwardTalks, at=call.place, module=core)
    if cls.complete and not call.open_ended:
        unused = _unused(do, core, reads, events)
        if unused and (another := _with_open_choices(own, arguments)) is not None:
            begin = len(do.execution.reads)
            with do.execution.speculative() as run:
                do.call(*another, call.node)
            unused = _unused(do, core, reads.union(do.execution.reads[begin:]), [*events, *run.events])
        for name, part in unused:
            do.emit(UnusedPart, at=part.place, module=core, part=part, name=name)
        for name, part in _called_without_graph(do, core, events):
            do.emit(UnusedPart, at=part.place, module=core, part=part, name=name, without_graph=True)


def note_unused(call: Call, core: Module, reads: set[Hashable], again: Callable[[], object]) -> None:
    """What a method never looks at that stands for the `forward` of a model, and can be called again."""
    do, cls = call.do, core.cls
    if not isinstance(cls, Class) or not cls.complete or not _unused(do, core, reads, []):
        return
    with do.execution.speculative() as run:
        again()
    for name, part in _unused(do, core, reads, run.events):
        do.emit(UnusedPart, at=part.place, module=core, part=part, name=name, method=call.text(1, "name") or "")


def _with_open_choices(own: Values, arguments: Arguments) -> tuple[Values, Arguments] | None:
    """A call of the same forward that may choose otherwise, as `model(x, step=2)` does; None where nothing is left to
    choose."""
    method = own.single
    if not isinstance(method, BoundMethod) or not isinstance(function := method.function, Function):
        return None
    given = Arguments(
        tuple(map(_opened, arguments.positional)),
        {name: _opened(values) for name, values in arguments.keywords.items()},
        arguments.rest,
    )
    defaults = tuple(map(_opened, function.defaults))
    by_name = tuple([(name, _opened(values)) for name, values in function.keyword_defaults])
    if (defaults, by_name, given) == (function.defaults, function.keyword_defaults, arguments):
        return None
    chosen = replace(function, defaults=defaults, keyword_defaults=by_name)
    return singleton(replace(method, function=chosen)), given


def _opened(values: Values) -> Values:
    """What another call may give here."""
    open_choice = Unknown(Anonymous("chosen by the call", values), "what each call of a forward chooses")
    return values.map(lambda value: open_choice if value.is_constant and value != NONE else value)


def _entries_of(do: LibraryContext, arguments: Arguments) -> list[str]:
    """The names that the dictionaries among these have entries under."""
    keys = [key.single for value in arguments.values() for key, _ in possible_pairs(do, value)]
    return [name for key in keys if (name := text_of(key)) is not None]


def fill(call: Call, core: Module, output: Tensor) -> None:
    """`model(batch)` puts what it computes into the batch: it stands there from now on."""
    names = items_held(call.do.state(core.cls, ClassState.fills)) if core.cls is not None else ()
    for value in call.all_values() if names else ():
        for name in names if isinstance(value, (DictOf, Tensor)) else ():
            part = replace(output, identity=(call.allocation_site(), name), part=True)
            set_item(call.do, value, name, singleton(part), call.node)


def _call_handed(call: Call) -> None:
    """`self.residual(x, lambda x: self.attend(x))` uses what the function uses, also where the rest is known."""
    for values in (*call.args, *call.keywords.values()):
        if values.any(lambda value: value.is_handed_over):
            given = singleton(
                Unknown(Anonymous("handed", call.allocation_site()), "what a forward hands to a function")
            )
            with call.do.execution.speculative():
                call.do.call(values, Arguments((given,)), call.node)


def _moved(values: Values, device: Device | None) -> Values:
    """What a wrapper hands to the model: its inputs on the device of the model."""
    if device is None:
        return values
    return values.map(lambda value: value.if_tensor(device=device))


def _tell_again(do: LibraryContext, event: Event) -> None:
    """Log what was found in a rehearsal, where no test leads to it."""
    if event.condition.difference(do.path):
        return
    told = isinstance(event, ModuleClassFlaw) and event.flaw == "layer-dropped"
    # Which layers or parts of a sample are left out is drawn in more dimensions, and no more than augmentation.
    told = told or (isinstance(event, DrawsNoise) and event.one_each)
    if told or isinstance(event, (ConstantMixed, Crossed, FixedMet, ForwardTalks, UnusedPart)):
        do.emit(type(event), at=event.location, **event.said)


def replay_for_ranks(do: LibraryContext, events: list[Event]) -> None:
    """Log what a forward asks of all ranks, and the GPU that it takes for its own."""
    for event in events:
        if isinstance(event, (Collective, StartWork, WorkDone, DeviceUsed)):
            do.execution.replay_event(event)


def _exchanges_activations(event: Event) -> bool:
    """It is a collective, and none under `no_grad` on what has no graph either: keys, statistics, a random order."""
    if not isinstance(event, Collective) or not event.context.evaluating:
        return isinstance(event, Collective)
    given = [*((event.subject if event.sent is None else event.sent) or ())]
    return not given or not all(each.graph is False for each in given)


def _unused(do: LibraryContext, core: Module, reads: set[Hashable], events: list[Event]) -> list[tuple[str, Module]]:
    """The layers that the forward never looks at, by their names."""
    # What could not be followed may use any layer.
    if any(isinstance(event, Imprecision) or (isinstance(event, Escape) and event.values) for event in events):
        return []
    # `list(self.children())[1](x)`: one of them, whichever it is.
    if any(isinstance(event, Forward) and event.module.core.part_of == core for event in events):
        return []
    names, begin = do.names_of(core), len(do.execution.reads)
    # `self.stem = nn.Sequential(self.first, …)`: a part of what is used is used.
    used = {part for name in names if (core, name) in reads for part in _modules(do, do.own_attribute(core, name))}
    parts = [(name, _only_module(do.own_attribute(core, name))) for name in names if (core, name) not in reads]
    unused = [
        (name, part)
        for name, part in parts
        if part is not None and part not in used and not _may_be_used(do, core, part)
    ]
    # To look for them is no use of them, also where this is done while a model around it is rehearsed.
    del do.execution.reads[begin:]
    return unused


def _called_without_graph(do: LibraryContext, core: Module, events: list[Event]) -> list[tuple[str, Module]]:
    """The trained layers that the forward calls under `no_grad` alone, as the keys of a contrast are made."""
    calls = [event for event in events if isinstance(event, Forward)]
    if do.evaluating or all(call.graph is not False for call in calls):
        return []
    apart = {call.module.core for call in calls if call.graph is False}
    with_graph = {call.module.core for call in calls if call.graph is not False}
    parts = [(name, _only_module(do.own_attribute(core, name))) for name in do.names_of(core)]
    return [
        (name, part)
        for name, part in parts
        if part in apart and not is_frozen(do, part) and _modules(do, singleton(part)).isdisjoint(with_graph)
    ]


def _only_module(values: Values | None) -> Module | None:
    only = values.single.core if values is not None and values.single is not None else None
    return only if isinstance(only, Module) else None


def _may_be_used(do: LibraryContext, core: Module, part: Module) -> bool:
    """It has nothing to train, or there is another way to it than by its name."""
    # A layer of two modules may be used by the other one.
    owners = sum(part in parts for parts in do.parts.values())
    apart = do.own_attribute(part, "weight") is not None or do.flag(part, ModuleState.inner_modules_asked) is not NO
    inside = do.flag(core, ModuleState.inner_modules_asked) is not NO
    return owners != 1 or apart or inside or is_frozen(do, part)


def _modules(do: LibraryContext, values: Values | None) -> set[Value]:
    """The modules that a value is or holds, with their parts."""
    found: set[Value] = set()
    todo: list[Value] = [value.core for value in values or ()]
    while todo:
        each = todo.pop()
        if each in found:
            continue
        found.add(each)
        todo += do.parts.get(each, ())
        todo += [value for item in known_items(do, each) or () for value in item]
    return found
