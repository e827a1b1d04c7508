"""Built-in functions."""

from __future__ import annotations

from gpudoctor.lint.flow.condition import Atom, Dependence, Literal
from gpudoctor.lint.flow.valueset import union
from gpudoctor.lint.models.api import MODELS, Call, Interpreter, flat, one
from gpudoctor.lint.models.tensors import agreed, combined, is_reduced, note_printed, report, surely_has_graph
from gpudoctor.lint.models.wrapper_names import CALLABLES, wrapper_has
from gpudoctor.lint.values.base import FALSE, NONE, TRUE, Const, Text, Truth, Unknown, Value, Values
from gpudoctor.lint.values.container import DictOf, Enumerated, ListOf, Range, TupleOf
from gpudoctor.lint.values.data import Dataset, Loader, LoaderIterator, Sampler
from gpudoctor.lint.values.device import Device
from gpudoctor.lint.values.event import Accumulated, HostSync, Iterate, LeaveLoop, RankTextUsed, Save
from gpudoctor.lint.values.function import Bound, Class, Function, Instance, Library, Method, Namespace
from gpudoctor.lint.values.module import Module, Wrapper, WrapperKind
from gpudoctor.lint.values.optim import Parameters
from gpudoctor.lint.values.rank import Rank, Size
from gpudoctor.lint.values.tensor import Tensor


def unknown(call: Call, why: str, values: list[Value] | None = None) -> Values:
    """An unknown result that depends on what the arguments do."""
    given = call.all_values() if values is None else values
    depends, config, shards = Dependence.NONE, bool(given), frozenset[Value]()
    for value in given:
        # Computed from settings only: the same on every rank, so a test of it splits no ranks.
        config = config and (isinstance(value, (Const, Size)) or (isinstance(value, Unknown) and value.config))
        if isinstance(value, Tensor) and is_reduced(call.do, value):
            continue
        depends |= value.depends
        shards |= value.shards if isinstance(value, (Unknown, Tensor)) else frozenset()
    return one(Unknown((call.name, call.args), why, call.label, depends, config, shards))


@MODELS.callable("builtins.int", "builtins.float", "builtins.bool")
def _number(call: Call) -> Values:
    given = call.arg(0, "x")
    if given is None:
        return one(Const(0))

    def convert(value: Value) -> Value:
        # `int(os.environ["RANK"])` is where the text of a rank becomes a number.
        if isinstance(value, Rank):
            return Rank(value.kind, value.source, place=value.place)
        if isinstance(value, Size):
            return Size(value.kind, place=value.place)
        if isinstance(value, Const):
            return _converted(call.name, value)
        if isinstance(value, (Truth, Unknown)):
            return value
        # `float(loss)` waits for the GPU as `loss.item()` does.
        if isinstance(value, Tensor) and not (isinstance(value.device, Device) and value.device.is_cpu):
            call.emit(HostSync, call=call.name, subject=value)
        return unknown(call, "a number", [value]).bindings[0].value

    return given.mapped(convert)


def _converted(name: str, value: Const) -> Value:
    # Only these three are computed: no code of the program is ever run.
    kinds = {"builtins.int": int, "builtins.float": float, "builtins.bool": bool}
    try:
        return Const(kinds[name](value.value))
    except (TypeError, ValueError, OverflowError):
        return Unknown(("converted", name, value), "a number")


@MODELS.callable("builtins.str", "builtins.repr", "builtins.format")
def _text(call: Call) -> Values:
    given = call.arg(0, "object")
    if given is None:
        return one(Const(""))
    # `str(loss)` copies the tensor to the host.
    note_printed(call.do, given, call.place)
    return given.mapped(
        lambda v: Const(str(v.value)) if isinstance(v, Const) else (v if isinstance(v, Text) else Text((v,)))
    )


@MODELS.callable("builtins.print")
def _print(call: Call) -> Values:
    for values in call.args:
        note_printed(call.do, values, call.place)
    # A mean over one rank's share that is shown as if it were the whole.
    report(call.do, "print", call.args, call.place)
    return one(NONE)


@MODELS.callable("builtins.range")
def _range(call: Call) -> Values:
    for values in call.args:
        for value in values:
            # Environment variables are text: `range(os.environ["WORLD_SIZE"])` is a TypeError.
            if isinstance(value, (Rank, Size)) and value.as_text:
                call.emit(RankTextUsed, rank=value, use="given to `range`")
    if len(call.args) == 1:
        return one(Range(one(Const(0)), call.args[0]))
    if len(call.args) >= 2:
        return one(Range(call.args[0], call.args[1]))
    return unknown(call, "a range")


@MODELS.callable(
    "builtins.enumerate", "builtins.zip", "builtins.reversed", "builtins.sorted", "itertools.chain", "itertools.islice"
)
def _iterating(call: Call) -> Values:
    kind = call.name.rpartition(".")[2]
    # The second argument of `enumerate` and `islice` is a number, not a source of items.
    items = call.args if kind in ("zip", "chain") else call.args[:1]
    return one(Enumerated(kind, items))


# Progress bars hand on the items as they are: the loader behind one is still iterated.
@MODELS.callable("tqdm.*", "rich.progress.track", "itertools.cycle")
def _progress(call: Call) -> Values:
    # tqdm says `iterable`, rich says `sequence`.
    given = call.arg(0, "iterable") or call.arg(0, "sequence")
    if given is None:
        return one(Unknown(("tqdm", call.identity()), "a progress bar", call.label, escaped_from="tqdm.tqdm"))
    return one(Enumerated("tqdm", (given,)))


@MODELS.callable("tqdm.trange", "tqdm.auto.trange")
def _trange(call: Call) -> Values:
    return _range(call)


@MODELS.method(Enumerated)
def _bar_method(call: Call) -> Values:
    """`pbar.set_postfix(loss=…)` and its kind."""
    report(call.do, "print", (*call.args, *call.keywords.values()), call.place)
    for values in (*call.args, *call.keywords.values()):
        note_printed(call.do, values, call.place)
    return one(call.receiver) if call.name == "__enter__" and call.receiver else one(NONE)


@MODELS.callable("builtins.iter")
def _iter(call: Call) -> Values:
    given = call.arg(0, "object")
    if given is None:
        return unknown(call, "an iterator")

    def start(value: Value) -> Value:
        # Each `iter(loader)` starts an epoch: infinite loaders are written so, around StopIteration.
        if isinstance(value, Loader):
            call.emit(Iterate, loader=value)
            return LoaderIterator(call.identity(), call.place, call.label, value)
        return value

    return given.mapped(start)


@MODELS.callable("builtins.next")
def _next(call: Call) -> Values:
    given = call.arg(0, "iterator")
    return call.do.items_of(given, call.node) if given is not None else unknown(call, "an item")


@MODELS.callable("builtins.len")
def _len(call: Call) -> Values:
    only = call.args[0].only if call.args else None
    items = call.do.known_items(only) if only is not None else None
    if items is not None:
        return one(Const(len(items)))
    if isinstance(only, Const) and isinstance(only.value, (str, bytes)):
        return one(Const(len(only.value)))
    # `len(loader)` is the same on all ranks: DistributedSampler pads the shares to one length.
    return one(Unknown(("len", only), "a length", call.label, config=isinstance(only, (Loader, Dataset, Sampler))))


@MODELS.callable("builtins.list", "builtins.tuple", "builtins.set", "builtins.frozenset")
def _sequence(call: Call) -> Values:
    if not call.args:
        return call.do.new_list([], call.node)
    given = call.args[0].only
    # `list(model.parameters())` keeps its owners for the optimizer; the generator itself is used up once.
    if isinstance(given, Parameters):
        return one(given)
    # `range(rank, n, world_size)`: indices that differ between ranks, a hand-made shard.
    if isinstance(given, Range) and given.depends:
        return call.do.new_list([unknown(call, "a number", [given])], call.node, exact=False)
    items = call.do.known_items(given) if given is not None else None
    if items is not None:
        return one(TupleOf(items)) if call.name.endswith("tuple") else call.do.new_list(list(items), call.node)
    return call.do.new_list([call.do.items_of(call.args[0], call.node)], call.node, exact=False)


@MODELS.callable("builtins.dict", "collections.OrderedDict", "collections.defaultdict")
def _dict(call: Call) -> Values:
    entries: list[tuple[Values | None, Values]] = [
        # The factory that `defaultdict` takes first is no dictionary.
        (None, given)
        for given in call.args
        if isinstance(given.only, DictOf)
    ]
    entries += [(one(Const(name)), values) for name, values in call.keywords.items()]
    return call.do.new_dict(entries, call.node, exact=not call.open_ended)


MAX_MAPPED = 8
"""As many items that are known one by one are mapped one by one."""


@MODELS.callable("builtins.filter", "builtins.map")
def _filter(call: Call) -> Values:
    if len(call.args) < 2:
        return unknown(call, "an iterator")
    only = call.args[1].only
    # `filter(lambda p: p.requires_grad, model.parameters())` is how fine-tuning builds optimizers.
    if call.name.endswith("filter"):
        return (
            call.args[1]
            if isinstance(only, (Parameters, ListOf, TupleOf))
            else one(Enumerated("filter", call.args[1:2]))
        )
    known = call.do.known_items(only) if only is not None else None
    # One by one, since `map(copy, layers)` makes separate objects.
    if known is not None and len(call.args) == 2 and len(known) <= MAX_MAPPED:
        return call.do.new_list([call.do.call(call.args[0], (item,), {}, call.node) for item in known], call.node)
    item = call.do.items_of(call.args[1], call.node)
    return call.do.new_list([call.do.call(call.args[0], (item,), {}, call.node)], call.node, exact=False)


@MODELS.callable("builtins.sum", "builtins.max", "builtins.min", "builtins.abs", "builtins.round", "builtins.pow")
def _arithmetic(call: Call) -> Values:
    given = flat(call.do, call.all_values())
    for value in list(given):
        # `sum(losses)` has the graph of each of the losses.
        if isinstance(value, (Enumerated, ListOf)):
            given += list(call.do.items_of(one(value), call.node))
    if any(isinstance(value, Tensor) for value in given):
        return one(combined(call.do, given, call.place, call.label, call.sure_values()))
    if len(given) == 1 and isinstance(given[0], Const):
        return one(given[0])
    # `max(1, world_size)`: guards against 0 change nothing where several processes run.
    if len(given) == 2 and call.name.endswith("max") and isinstance(given[1], Size) and isinstance(given[0], Const):
        return one(given[1])
    return unknown(call, "a number", given)


@MODELS.callable("builtins.isinstance", "builtins.issubclass")
def _isinstance(call: Call) -> Values:
    kinds = flat(call.do, list(call.args[1])) if len(call.args) > 1 else []
    here = call.args[0].given(call.do.path) if call.args else None
    answers = here.mapped(lambda value: _is_one_of(value, kinds)) if here is not None else None
    if answers is not None and answers.all(lambda answer: answer != NONE):
        return union([answers])
    # The same class on every rank: such a branch is no rank-dependent one.
    atom = Atom(("isinstance", call.args), Dependence.NONE, call.label, call.place, switch=False)
    return one(Truth(Literal(atom, True)))


def _is_one_of(value: Value, kinds: list[Value]) -> Value:
    """TRUE, FALSE, or NONE where it is not known."""
    answers = [_is_a(value, kind) for kind in kinds]
    if True in answers:
        return TRUE
    return FALSE if answers and all(answer is False for answer in answers) else NONE


def _is_a(value: Value | None, kind: Value) -> bool | None:
    name = kind.name if isinstance(kind, Library) else ""
    if isinstance(value, Const):
        return type(value.value).__name__ == name.rpartition(".")[2] if name.startswith("builtins.") else None
    if isinstance(value, Wrapper):
        return _wrapper_is_a(value, name)
    cls = getattr(value, "cls", None)
    if isinstance(kind, Class) and isinstance(cls, Class):
        todo = [cls]
        # Bases of the project are walked; library bases are named by `library_bases`.
        while todo:
            each = todo.pop()
            if each == kind:
                return True
            todo += [base for base in each.bases if isinstance(base, Class)]
        # A base that was not read may derive from the class in question.
        return False if cls.complete else None
    if isinstance(value, Module):
        return _module_is_a(value, name)
    if isinstance(value, Tensor):
        # A batch as a whole may be a tensor, a tuple or a dictionary.
        return True if name in ("torch.Tensor", "torch.FloatTensor") and value.batch_of is None else None
    if isinstance(value, (DictOf, ListOf, TupleOf)):
        # `isinstance(batch, Mapping)` is asked as often as `dict`.
        word = {"DictOf": "dict", "ListOf": "list", "TupleOf": "tuple"}[type(value).__name__]
        return name.rpartition(".")[2].lower() in (word, {"dict": "mapping"}.get(word, "sequence")) if name else None
    return None


def _wrapper_is_a(value: Wrapper, name: str) -> bool | None:
    last = name.rpartition(".")[2]
    # `model.module if isinstance(model, DDP) else model` is the common way to unwrap.
    if last in ("DistributedDataParallel", "DataParallel", "FullyShardedDataParallel"):
        return value.kind.value == last
    return True if name == "torch.nn.Module" else None


def _module_is_a(value: Module, name: str) -> bool | None:
    if name == "torch.nn.Module":
        return True
    if name.rpartition(".")[2] in ("DistributedDataParallel", "DataParallel", "FullyShardedDataParallel"):
        return False
    return None


OTHER_BACKENDS = frozenset(["mps", "xpu", "npu", "hpu", "mlu", "musa", "xla", "privateuseone"])


def _answer(known: bool | None) -> Value:
    return NONE if known is None else (TRUE if known else FALSE)


@MODELS.callable("builtins.hasattr")
def _hasattr(call: Call) -> Values:
    given, name = (call.args[0], call.constant(1, "name")) if len(call.args) > 1 else (None, None)
    here = given.given(call.do.path) if given is not None else None
    if here is not None and isinstance(name, str):
        # `hasattr(model, "module")` asks for a wrapper; the answer decides how keys are saved.
        answers = here.mapped(lambda value: _answer(_has(call, value, name)))
        if answers.all(lambda answer: answer != NONE):
            return union([answers])
    value = given.only if given is not None else None
    config = isinstance(value, (Namespace, Unknown)) and value.depends is Dependence.NONE
    atom = Atom(("hasattr", call.args), text=call.label, place=call.place, switch=config)
    return one(Truth(Literal(atom, True)))


def _has(call: Call, value: Value, name: str) -> bool | None:
    if call.do.fact(value, name) is not None or call.do.find_method(value, name) is not None:
        return True
    if isinstance(value, Wrapper):
        answer = wrapper_has(value, name)
        return _has(call, value.inner, name) if answer is None else answer
    if isinstance(value, (Module, Instance)):
        cls = value.cls
        known = isinstance(cls, Class) and cls.complete
        # Bare models have no `.module`, so the check tells wrapped from bare.
        return False if name == "module" and (known or isinstance(value, Module)) else None
    if isinstance(value, Sampler):
        # Of torch's samplers only DistributedSampler has `set_epoch`.
        return bool(value.base.distributed) if name == "set_epoch" and value.distributed is not None else None
    if isinstance(value, Loader):
        return name in ("sampler", "dataset", "batch_sampler") or None
    if value == NONE:
        return False
    # The libraries are new: what a program asks for, before it falls back on something older, is there.
    return True if isinstance(value, Library) and name not in OTHER_BACKENDS else None


@MODELS.callable("builtins.getattr")
def _getattr(call: Call) -> Values:
    value, name = (call.args[0], call.constant(1, "name")) if len(call.args) > 1 else (None, None)
    if value is None or not isinstance(name, str):
        receiver = call.args[0].only if call.args else None
        if isinstance(receiver, Library) and MODELS.find(f"{receiver.name}.*") is not None:
            # `getattr(torchvision.models, args.arch)`: one of the names there.
            return one(Library(f"{receiver.name}.*"))
        made_by = f"{receiver.name}.*" if isinstance(receiver, Library) else ""
        return one(
            Unknown(("getattr", call.args), "an attribute whose name is not known", call.label, escaped_from=made_by)
        )
    here = value.given(call.do.path)
    return union(_get(call, each.value, name).under(each.when) for each in here.bindings)


def _get(call: Call, value: Value, name: str) -> Values:
    default = call.arg(2, "default")
    # `getattr(model, "module", model)` unwraps without asking for the class.
    if default is not None and isinstance(value, (Module, Wrapper, Instance)) and _has(call, value, name) is False:
        return default
    return call.do.attribute(value, name, call.node)


@MODELS.callable("builtins.setattr")
def _setattr(call: Call) -> Values:
    name = call.constant(1, "name")
    if len(call.args) > 2 and isinstance(name, str):
        for value in call.args[0]:
            setter = MODELS.setters.get(type(value))
            # `setattr(self, f"layer{i}", layer)` registers a layer as plain assignment does.
            if setter is not None:
                setter(call.do, value, name, call.args[2], call.place)
            call.do.set_fact(value, name, call.args[2])
    return one(NONE)


@MODELS.callable("sys.exit", "builtins.exit", "builtins.quit", "os._exit")
def _exit(call: Call) -> Values:
    status = call.arg(0, "status")
    # The launcher ends the other ranks too where one fails; after a quiet end they go on and wait.
    failed = status is not None and not status.all(lambda value: value in (NONE, Const(0), FALSE))
    call.emit(LeaveLoop, how="abort" if failed else "exit", loop=None)
    call.do.end(failed)
    return one(NONE)


@MODELS.callable("builtins.open")
def _open(call: Call) -> Values:
    mode = call.constant(1, "mode")
    # Every rank opens the same path: files written by several ranks are torn.
    if isinstance(mode, str) and mode[:1] in ("w", "a", "x"):
        call.emit(Save, call="open", path=call.arg(0, "file"), checkpoint=False)
    return one(Unknown(("file", call.identity()), "an open file", call.label, escaped_from="io.open"))


@MODELS.callable("builtins.type")
def _type(call: Call) -> Values:
    types = call.args[0].mapped(_type_of) if len(call.args) == 1 else None
    return types if types is not None and types.all(lambda each: each != NONE) else unknown(call, "a type")


def _type_of(value: Value) -> Value:
    """The class of an object, None where it is not known."""
    # `type(model) is DDP` or `in (DataParallel, DDP)`: as seen in YOLOv5.
    if isinstance(value, Wrapper) and value.kind is not WrapperKind.PREPARED:
        return Library(CALLABLES[value.kind])
    cls = getattr(value, "cls", None)
    if isinstance(cls, Class):
        return cls
    made_by = value.made_by if isinstance(value, Module) else ""
    return Library(made_by) if made_by.startswith("torch.nn.") else NONE


@MODELS.callable("builtins.callable")
def _callable(call: Call) -> Values:
    only = call.args[0].only if call.args else None
    if isinstance(only, (Function, Bound, Method, Class, Library, Module, Wrapper)):
        return one(TRUE)
    return one(FALSE) if only == NONE else unknown(call, "whether something can be called")


@MODELS.callable("builtins.vars")
def _vars(call: Call) -> Values:
    return one(Unknown(("vars", call.args), "attributes as a dictionary", call.label, config=True))


@MODELS.method(TupleOf)
def _tuple_method(call: Call) -> Values:
    return unknown(call, "a count")


@MODELS.method(ListOf, "append", "add", "insert")
def _append(call: Call) -> Values:
    assert call.receiver is not None
    given = call.args[-1:] if call.args else ()
    call.do.add_items(call.receiver, list(given))
    for value in [value for values in given for value in values] if call.name == "append" else ():
        # `losses.append(loss)` keeps every graph alive; memory grows each iteration.
        if isinstance(value, Tensor) and value.graph is True and surely_has_graph(call.do, value):
            kept = [each for each in flat(call.do, [call.receiver]) if isinstance(each, Tensor) and each.graph is True]
            held = frozenset().union(*(each.forwards for each in (value, *kept)))
            call.emit(Accumulated, tensor=value, into=getattr(call.receiver, "label", "a list"), held=held)
    return one(NONE)


@MODELS.method(ListOf, "extend", "update")
def _extend(call: Call) -> Values:
    assert call.receiver is not None
    known = call.do.known_items(call.args[0].only) if call.args and call.args[0].only is not None else None
    if known is not None:
        call.do.add_items(call.receiver, list(known))
    elif call.args:
        call.do.add_items(call.receiver, [call.do.items_of(call.args[0], call.node)], exact=False)
    return one(NONE)


@MODELS.method(ListOf, "pop", "copy", "__getitem__")
def _pop(call: Call) -> Values:
    assert call.receiver is not None
    return one(call.receiver) if call.name == "copy" else call.do.items_of(one(call.receiver), call.node)


@MODELS.method(ListOf)
def _list_method(call: Call) -> Values:
    return one(NONE) if call.name in ("sort", "reverse", "clear", "remove") else unknown(call, "a number")


@MODELS.method(DictOf, "items", "keys", "values")
def _dict_view(call: Call) -> Values:
    assert isinstance(call.receiver, DictOf)
    known = call.do.pairs(call.receiver) or []
    more = call.do.fact(call.receiver, "more")
    rows = [_row(call.name, key, value) for key, value in known]
    # Entries under computed keys come on top of those that are known.
    if more is not None:
        rows.append(_row(call.name, one(Unknown(("key of", call.receiver), "a key")), more))
    return call.do.new_list(rows, call.node, exact=more is None)


def _row(name: str, key: Values, value: Values) -> Values:
    return one(TupleOf((key, value))) if name == "items" else (key if name == "keys" else value)


@MODELS.method(DictOf, "get", "pop", "setdefault")
def _dict_get(call: Call) -> Values:
    assert isinstance(call.receiver, DictOf)
    key = call.args[0].only if call.args else None
    entries = call.do.pairs(call.receiver) or []
    for each, value in entries:
        if key is not None and each.only == key:
            # A popped key must not be found again when the rest is passed on as `**kwargs`.
            if call.name == "pop":
                _forget(call.do, call.receiver, each)
            return value
    default = call.arg(1, "default") or one(NONE)
    if call.name == "setdefault" and call.args:
        call.do.put_item(call.receiver, call.args[0], default, call.node)
    more = call.do.fact(call.receiver, "more")
    # Absent so far is not absent for good where unknown entries may have come.
    candidates = [more] if more is not None else []
    if not isinstance(key, Const):
        candidates += [value for _, value in entries]
    return union([*candidates, default])


def _forget(do: Interpreter, value: DictOf, key: Values) -> None:
    kept = [pair for pair in do.pairs(value) or [] if pair[0] != key]
    do.set_fact(value, "keys", one(TupleOf(tuple(each for each, _ in kept))))
    do.set_fact(value, "entries", one(TupleOf(tuple(each for _, each in kept))))


@MODELS.method(DictOf, "update")
def _dict_update(call: Call) -> Values:
    assert call.receiver is not None
    given = call.args[0].only if call.args else None
    for key, value in call.do.pairs(given) or []:
        call.do.put_item(call.receiver, key, value, call.node)
    for name, values in call.keywords.items():
        call.do.put_item(call.receiver, one(Const(name)), values, call.node)
    # `config.update(loaded)`: any setting may have been replaced.
    if given is not None and call.do.pairs(given) is None:
        call.do.put_item(call.receiver, one(given), one(Unknown(("updated", given), "entries of something")), call.node)
    return one(NONE)


@MODELS.method(DictOf)
def _dict_method(call: Call) -> Values:
    return one(call.receiver) if call.name == "copy" and call.receiver else unknown(call, "part of a dictionary")


@MODELS.method(Const, "format")
@MODELS.method(Text, "format")
def _format(call: Call) -> Values:
    given = (*call.args, *call.keywords.values())
    values = [value for each in given for value in agreed(call.do, each)]
    for each in given:
        note_printed(call.do, each, call.place)
    receiver = call.receiver.parts if isinstance(call.receiver, Text) else (call.receiver,)
    return one(Text((*(part for part in receiver if part is not None), *values)))


@MODELS.method(Const, "join")
def _join(call: Call) -> Values:
    return one(Text(tuple(flat(call.do, call.all_values()))))


@MODELS.method(Const)
@MODELS.method(Text)
def _text_method(call: Call) -> Values:
    if isinstance(call.receiver, Const) and isinstance(call.receiver.value, str):
        return one(_fold_text(call, call.receiver.value))
    # These answer with a bool or a number, which must not be taken for a path.
    if call.receiver is None or call.name.startswith(("is", "starts", "ends", "find", "count", "index")):
        return unknown(call, "an answer about a text", [call.receiver] if call.receiver is not None else [])
    return one(Text((call.receiver,)))


def _fold_text(call: Call, text: str) -> Value:
    args = [values.only for values in call.args]
    plain = [arg.value for arg in args if isinstance(arg, Const)]
    # `args.backend.lower() == "nccl"` and `device.startswith("cuda")` decide branches.
    if len(plain) == len(args) and call.name in (
        "lower",
        "upper",
        "strip",
        "startswith",
        "endswith",
        "replace",
        "title",
    ):
        try:
            result = getattr(text, call.name)(*plain)
        except (TypeError, ValueError):
            return Unknown((call.name, text, call.args), "text", call.label)
        return Const(result)
    return Unknown((call.name, text, call.args), "text", call.label)
