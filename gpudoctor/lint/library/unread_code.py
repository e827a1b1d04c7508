"""Code that was not read: what it may do to what it is given, and what comes back."""

from __future__ import annotations

import ast

from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.abstract_state import NO, PROCESS, ProcessState, SettingState, TensorState
from gpudoctor.lint.domain.arguments import Arguments
from gpudoctor.lint.domain.container import DictOf, Enumerated, ListOf, TupleOf
from gpudoctor.lint.domain.data import Loader, Sampler
from gpudoctor.lint.domain.function import BoundMethod, ChosenCall, Instance, Method, Namespace, Partial, class_of
from gpudoctor.lint.domain.group import Work
from gpudoctor.lint.domain.heuristics import (
    LOSS,
    SHOWS_SAMPLES,
    TRAINS,
    begins_group,
    has_to_do_with_gpus,
    has_to_do_with_seeds,
)
from gpudoctor.lint.domain.module import Module, Wrapper
from gpudoctor.lint.domain.optim import Optimizer, Parameters
from gpudoctor.lint.domain.provenance import provenance_of
from gpudoctor.lint.domain.rank import RankKind, SizeKind
from gpudoctor.lint.domain.symbols import Attribute, CallResult, MethodResult, Widened, each_of, from_settings
from gpudoctor.lint.domain.tensor import Tensor, tensors_in
from gpudoctor.lint.domain.value import (
    UNBOUND,
    Anonymous,
    Unknown,
    Value,
    Values,
    divergence_of,
    shards_of,
    single_of,
    text_of,
)
from gpudoctor.lint.events.knowledge import Escape
from gpudoctor.lint.events.reporting import UseLogger
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.interface.contents import described_by, known_items, note_any_name, pairs
from gpudoctor.lint.interface.hooks import HOOKS, told
from gpudoctor.lint.interface.library_call import (
    MODELS,
    NOT_ANSWERED,
    Call,
    LibraryContext,
    alternatives,
    said_by_stub,
    singleton,
)
from gpudoctor.lint.library.hidden_ranks import hide_rank
from gpudoctor.lint.library.library_names import (
    DATA_METHODS,
    IMPORTS,
    computes,
    gives_settings,
    is_between_processes,
    is_harmless,
    shows,
)
from gpudoctor.lint.library.missing_attributes import note_opened
from gpudoctor.lint.library.replaced_defaults import EntryText, open_defaults
from gpudoctor.lint.library.tensor_operations import combine
from gpudoctor.lint.library.tensors import as_loss, combined, report, shards_in, shares_of
from gpudoctor.manifest.compiled import functions
from gpudoctor.record import replace

PLAIN_BUILTINS = frozenset(["builtins.dict", "builtins.list", "builtins.set", "builtins.tuple", "builtins.str"])
ESCAPING = (Module, Wrapper, Loader, Sampler, Optimizer, Parameters, Instance, Work)
CONTAINER_DEPTH = 3
CALL_BACK = ("threading.", "multiprocessing.", "torch.multiprocessing.", "concurrent.", "asyncio.", "unittest.")
_MOVES = frozenset({"to", "cuda"})
WRITES_TABLE = ("save_to_disk", "to_csv", "to_json", "to_parquet")
_LOUD = _MOVES | {
    *("backward", "item", "tolist", "numpy", "cpu", "shuffle", "to_iterable_dataset", "train_test_split"),
    *WRITES_TABLE,
}
"""Methods that do what their name says, whatever they are called on."""


@told(HOOKS.attribute_sets)
def _kept_by_unread_code(do: LibraryContext, owner: Value, name: str, values: Values, place: Location) -> None:
    """`nets = Munch(...); nets.fan = fan`: whoever goes over `nets` has the model, too."""
    unread = bool(owner.escaped_from) and not owner.config
    if unread and values.any(lambda value: value.is_model):
        _note_escape(do, "an attribute", (values,), place)


@told(HOOKS.arrays_compared)
def _compare_arrays(do: LibraryContext, values: list[Value], node: ast.AST) -> Values | None:
    """`predicted == labels` of NumPy is an array of answers, made of the same share of the data."""
    arrays = [each for each in values if computes(each.escaped_from)]
    if len(arrays) < len(values):
        return None
    answers, text = CallResult("numpy.equal", tuple(arrays)), do.text(node, 40)
    apart, shards = divergence_of(arrays), shards_of(arrays)
    return singleton(Unknown(answers, "answers for each item", text, apart, False, shards, "numpy.equal"))


@told(HOOKS.library_call)
def _unknown_result(do: LibraryContext, name: str, arguments: Arguments, node: ast.AST) -> Values:
    # Optimizers of unknown libraries are known by what they are given.
    for fallback in MODELS.fallbacks:
        answered = fallback(Call(do, name, arguments, node, do.result_name(node)))
        if answered is not NOT_ANSWERED:
            return answered
    given = (*arguments,)
    _note_shown(do, name, given, node)
    divergence = Divergence.NONE
    # Unknown code may wrap, move or step what it gets: rules of absence must stand back.
    if not is_harmless(name):
        note_escape(do, name, given, node)
        divergence = Divergence.UNREAD
    else:
        _note_functions(do, [value for values in given for value in values])
    # Code that was not read may have asked the other ranks.
    shards = shares_of(do, given) if computes(name) else frozenset()
    if any(isinstance(value, Tensor) for values in given for value in values):
        return _with_shards(_unread(do, [value for values in given for value in values], node), shards)
    for values in given if not computes(name) else (leaf for each in given for leaf in alternatives(do, each)):
        divergence |= divergence_of(values)
    given_by_name = tuple(sorted(arguments.keywords.items(), key=lambda item: item[0]))
    why, settings = f"what {name} returns", gives_settings(name)
    term = CallResult(name, (arguments.positional, given_by_name))
    # Each section of a configuration is a `CfgNode()` of its own.
    if settings and not given and name.rpartition(".")[2][:1].isupper():
        term = CallResult(name, do.allocation_site(do.place(node)))
    return singleton(Unknown(term, why, do.text(node, 40), divergence, settings, shards, escaped_from=name))


def _with_shards(values: Values, shards: frozenset[Value]) -> Values:
    return values.map(lambda value: value.if_tensor(shards=shards))


def _note_shown(do: LibraryContext, name: str, given: tuple[Values, ...], node: ast.AST) -> None:
    """Numbers that a logger or a progress bar is handed are shown or kept by it."""
    # A class makes something that may be shown: samples in a `wandb.Table`.
    if shows(name) and not name.rpartition(".")[2][:1].isupper():
        report(do, "log", given, do.place(node))


def note_escape(
    do: LibraryContext, into: str, given: tuple[Values, ...], node: ast.AST, *, of_no_library: bool = False
) -> None:
    """Objects that matter are handed to code that cannot be read."""
    _note_escape(do, into, given, do.place(node), of_no_library)


def _note_escape(
    do: LibraryContext, into: str, given: tuple[Values, ...], place: Location, of_no_library: bool = False
) -> None:
    reached = _reached(do, [value for each in given for value in each])
    note_opened(do, reached)
    _note_functions(do, reached)
    told = any(value.counts(SizeKind.WORLD) for value in reached)
    values, may_begin = tuple(filter(_matters, reached)), told or begins_group(into)
    chooses = may_begin or of_no_library or has_to_do_with_gpus(into) or any(map(_tells_rank, reached))
    do.emit(
        Escape, at=place, into=into, values=values, may_begin_group=may_begin, may_choose_gpu=chooses,
        trains=TRAINS.fits(into), sets_seed=has_to_do_with_seeds(into), of_no_library=of_no_library,
    )  # fmt: skip
    for each in reached if may_begin else ():
        # `init_distributed_mode(args)` writes the rank over an option of that name.
        if isinstance(each, Namespace):
            do.set_flag(each, SettingState.has_ranks)


def _tells_rank(value: Value) -> bool:
    """It is a rank, or settings in which that of each process may stand."""
    return value.counts(*RankKind) or isinstance(value, Namespace) or value.config


def _note_functions(do: LibraryContext, values: list[Value]) -> None:
    """Whoever has a function may call it."""
    functions = (each for each in values if each.is_handed_over)
    do.execution.handed_over.update(dict.fromkeys(functions))


def _objects(do: LibraryContext, values: list[Value]) -> list[Value]:
    """The objects that matter among some values and what those hold."""
    return [each for each in _reached(do, values) if _matters(each)]


def _matters(value: Value) -> bool:
    # Whoever holds a loss may run its backward.
    return isinstance(value, ESCAPING) or value.graph is True


def _reached(do: LibraryContext, values: list[Value]) -> list[Value]:
    """Some values and what they hold, a few levels deep."""
    seen: dict[Value, None] = {}
    # Each once: what holds itself, or the same thing many times over, would be gone through again and again.
    for _ in range(CONTAINER_DEPTH + 1):
        values = [value for value in dict.fromkeys(values) if value not in seen]
        seen |= dict.fromkeys(values)
        values = [each for value in values for each in _held(do, value)]
    return list(seen)


def _held(do: LibraryContext, value: Value) -> list[Value]:
    """What somebody who gets this gets with it."""
    match value:
        # An object that escapes takes along what its attributes hold.
        case Instance():
            return attributes_of(do, value)
        case TupleOf() | ListOf():
            return [each for item in known_items(do, value) or () for each in item]
        case DictOf(cls=cls):
            entries = [each for _, item in pairs(do, value) or () for each in item]
            return [*entries, *attributes_of(do, value)] if cls is not None else entries
        case Enumerated(items=items) | Partial(args=items):
            return [each for item in items for each in item]
        # A callback carries its object: `hook(trainer.on_step)`.
        case BoundMethod(receiver):
            return [receiver]
    return []


def attributes_of(do: LibraryContext, value: Value) -> list[Value]:
    """What the attributes of an object hold."""
    return [each for name in do.names_of(value) for each in (do.own_attribute(value, name) or ())]


@told(HOOKS.unknown_call)
def call_unknown(do: LibraryContext, value: Value, arguments: Arguments, node: ast.AST) -> Values:
    """Call something of which nothing is known."""
    known = (*arguments,)
    _note_functions(do, [each for values in known for each in values])
    if isinstance(value, Unknown):
        if do.execution.listener is not None and value.escaped_from:
            do.execution.listener.called(value.escaped_from, arguments.positional)
        # `config.merge({"rank": rank})`, `logger.setup(rank)`: what it says from now on may be about the rank.
        if _may_keep(value):
            _keep(do, value, arguments)
        _note_chosen(do, value, known, node)
        _note_logged(do, value, node)
        if len(arguments.positional) == 1 and _method_of(value) == "update":
            if not do.path.literals:
                do.set_state(_receiver_of(value), SettingState.merged, arguments.positional[0])
            if not _entries_by_name(do, arguments.positional[0]):
                note_any_name(do, _receiver_of(value), *arguments.positional, *arguments.positional, node)
        # `cfg.merge_from_file(args.config)`: what stood there was the default.
        elif value.escaped_from.startswith("yacs.") and _method_of(value).startswith("merge_from_"):
            written = do.text(node.func).rpartition(".")[0] if isinstance(node, ast.Call) else value.label
            open_defaults(do, _receiver_of(value), EntryText(written, do.place(node)), {})
        answered = _entry_put(do, value, arguments) or _unknown_method(do, value, arguments, node)
        if answered is not None:
            return answered
        if not SHOWS_SAMPLES.fits(_method_of(value)):
            _note_shown(do, value.escaped_from, known, node)
        # Which of many methods it is: the object of any of them may be what it changes.
        may_be = each_of(value) if isinstance(value.term, Widened) else ()
        owners = [singleton(each.receiver) for each in may_be if isinstance(each, (BoundMethod, Method))]
        _note_unread(do, value, (*known, *owners), node)
    given = arguments.values()
    made_by = value.escaped_from
    shards = value.shards if isinstance(value, Unknown) else frozenset()
    # A loss is that of what it is given, whoever has written it.
    is_loss = LOSS.fits(made_by) and made_by.rpartition(".")[2][:1].isupper()
    if is_loss or computes(made_by):
        # numpy sums this rank's numbers and asks nobody else.
        shards |= shares_of(do, known)
        if isinstance(value.term, Attribute) and value.term.of is not None:
            shards |= shards_in(do, [value.term.of])
    if any(tensors_in(given)):
        made = _with_shards(_unread(do, given, node), shards)
        return made.map(lambda each: as_loss(do, each, made_by)) if is_loss else made
    divergence, config = value.divergence, value.config
    if isinstance(value, Unknown) and not from_settings(value) and not is_harmless(value.escaped_from):
        divergence |= Divergence.UNREAD
    # `saved["best"].to(device)` is the same number on the GPU of each rank.
    if not isinstance(value, Unknown) or _method_of(value) not in _MOVES:
        divergence |= divergence_of(given)
    term = CallResult(value, arguments.key)
    # What it comes from says more than that it was returned.
    why = value.why or "what an unknown callable returns"
    return singleton(Unknown(term, why, do.text(node, 40), divergence, config, shards, escaped_from=made_by))


def _may_keep(method: Unknown) -> bool:
    """It may keep what it is given: it is no method of plain data, and none of a library that keeps nothing."""
    name, made_by = _method_of(method), method.escaped_from.rpartition(".")[0]
    quiet = name in DATA_METHODS or (is_harmless(method.escaped_from) and not gives_settings(made_by))
    return bool(name) and not quiet


def _keep(do: LibraryContext, method: Unknown, arguments: Arguments) -> None:
    receiver = _receiver_of(method)
    if _method_of(method) != "update":
        hide_rank(do, receiver, arguments)
        return
    named = [pair for each in arguments.positional for pair in _entries_by_name(do, each)]
    # `self.__dict__.update(settings)`
    owner = described_by(receiver)
    for name, values in (*named, *arguments.keywords.items()):
        if owner is not None:
            do.set_own_attribute(owner, name, values)
        else:
            do.set_entry(receiver, SettingState.items, name, values)


def _entry_put(do: LibraryContext, method: Unknown, arguments: Arguments) -> Values | None:
    """`config.get("rank", 0)`, of an entry that the program has put there on each path that leads here."""
    name = text_of(single_of(arguments.positional[0])) if arguments.positional else None
    if name is None or _method_of(method) != "get":
        return None
    put = do.entry(_receiver_of(method), SettingState.items, name)
    return put if put is not None and not put.any(lambda each: each is UNBOUND) else None


def _entries_by_name(do: LibraryContext, values: Values) -> list[tuple[str, Values]]:
    """What a dictionary holds, where all of its keys are known to be texts."""
    only = values.single
    # With entries under other keys besides, it is not known under which names they come.
    if not isinstance(only, DictOf) or known_items(do, only) is None:
        return []
    named = [(text_of(key.single), held) for key, held in pairs(do, only) or ()]
    texts = [(name, held) for name, held in named if name is not None]
    return texts if len(texts) == len(named) else []


def _note_logged(do: LibraryContext, value: Unknown, node: ast.AST) -> None:
    match value.term:
        case Attribute(Unknown(escaped_from=maker) as logger) if maker in LOGGERS and _method_of(value) not in _CLOSE:
            do.emit(UseLogger, at=do.place(node), logger=logger)


LOGGERS = frozenset(functions("starts_logger"))
_CLOSE = frozenset({"close", "finish", "end", "flush"})


def _note_chosen(do: LibraryContext, value: Unknown, given: tuple[Values, ...], node: ast.AST) -> None:
    """Remember the call, should the program seem to train nothing: what a setting has chosen may be what trains."""
    if node in do.execution.chosen_calls or not isinstance(node, ast.Call):
        return
    imported = _imported_by(do, value)
    if imported or value.config or gives_settings(value.escaped_from):
        name = _method_of(value)
        by = value.escaped_from.removesuffix(f".{name}") if name else value.escaped_from
        do.execution.chosen_calls[node] = ChosenCall(node, do.place(node), name, imported or by, given)


def _imported_by(do: LibraryContext, value: Unknown) -> str:
    """Who has imported the module that it comes from, where nobody knows which one that is; empty for all else."""
    if do.flag(PROCESS, ProcessState.imports_unknown) is NO:
        return ""
    made = (each.function for each in provenance_of(value, 4) if isinstance(each, CallResult))
    return next((each for each in made if each in IMPORTS), "")


def _note_unread(do: LibraryContext, value: Unknown, given: tuple[Values, ...], node: ast.AST) -> None:
    """Something unknown is called: it may do anything with what it gets, and with what it knows already."""
    # A writer of tensorboard gets numbers, a callable of unknown make may get to the model.
    if value.escaped_from and is_harmless(value.escaped_from):
        # `errors.put(error)`: another process hears of it.
        if is_between_processes(value.escaped_from):
            do.emit(Escape, at=do.place(node), into=value.escaped_from)
        return
    # `name.split(".")`, `frame.astype(int)`, `batch["image"].to(device)`: whatever it is, this reads it.
    reads = _method_of(value) in DATA_METHODS or _method_of(value) in _MOVES or _takes_entries(value)
    if reads and not _objects(do, [each for values in given for each in values]):
        return
    callee = do.text(node.func if isinstance(node, ast.Call) else node)
    into = value.escaped_from or value.label or "unknown code"
    note_escape(do, into, given, node, of_no_library=not value.escaped_from)
    if not value.escaped_from:
        why = f"`{callee}` was not followed: {value.why or 'nothing is known about it'}"
        do.record_imprecision(why, do.place(node), unread=True)


def _takes_entries(value: Unknown) -> bool:
    """`config.update`, `self.__dict__.update`"""
    match value.term:
        case Attribute(Unknown(Attribute(_, "__dict__")), "update"):
            return True
    return value.config and _method_of(value) == "update"


def _method_of(value: Unknown) -> str:
    """The name under which something unknown was asked of something unknown, where it was."""
    return value.term.name if isinstance(value.term, Attribute) else ""


def _unknown_method(do: LibraryContext, value: Unknown, arguments: Arguments, node: ast.AST) -> Values | None:
    """`x.backward()` of something unknown still is what it is called."""
    name = _method_of(value)
    # What objects that a library made can do is known by its name: `mesh.get_rank()`.
    of_library = value.escaped_from and (name or isinstance(value.term, CallResult))
    own = MODELS.own(value.escaped_from if name else f"{value.escaped_from}.__call__") if of_library else None
    if own is not None or of_library:
        receiver = _owner_of(value) if name else value
        call = Call(do, name or "__call__", arguments, node, do.result_name(node), receiver)
        answered = own(call) if own is not None else said_by_stub(call)
        if answered is not NOT_ANSWERED:
            return answered
    model = MODELS.methods.get((Unknown, name)) if name else None
    # `writer.step()` of a known library is no optimizer's step; a move goes where it says, whoever made what it moves.
    quiet = value.escaped_from and is_harmless(value.escaped_from) and name not in _LOUD
    if model is None or quiet:
        return None
    receiver = _receiver_of(value, value.label.rpartition(".")[0])
    answered = model(Call(do, name, arguments, node, do.result_name(node), receiver))
    return None if answered is NOT_ANSWERED else answered


def _owner_of(value: Unknown) -> Unknown:
    """What the method was asked of, and which library has made it."""
    return replace(_receiver_of(value), escaped_from=value.escaped_from.rpartition(".")[0])


def _receiver_of(value: Unknown, label: str = "") -> Unknown:
    """What the method was asked of."""
    of = value.term.of if isinstance(value.term, Attribute) else None
    term = of.term if isinstance(of, Unknown) else Anonymous("receiver", of)
    return Unknown(term, value.why if label else "", label, agreed=isinstance(of, Unknown) and of.agreed)


@told(HOOKS.method_call)
def unanswered(do: LibraryContext, receiver: Value, name: str, arguments: Arguments, node: ast.AST) -> Values:
    """A method of a library object for which no model answers."""
    given = arguments.values()
    # `vae.decode(latents)`: the graph goes on through a method of a library's model.
    with_graph = [each for each in tensors_in(given) if each.graph] if isinstance(receiver, Module) else []
    if with_graph:
        return _unread(do, [*with_graph], node)
    stored = _is_builtin(receiver) and not _objects(do, given)
    if isinstance(receiver, Instance) and not stored and not _is_quiet(receiver, name):
        note_escape(do, name, (*arguments,), node)
        note_escape(do, name, (singleton(receiver),), node)
    term = MethodResult(receiver, name, arguments.key)
    return singleton(Unknown(term, f"what .{name}() returns", do.text(node, 40), receiver.divergence))


def _is_builtin(receiver: Value) -> bool:
    """`class Settings(dict)`: what it has from there, as `settings.get("lr", 1)`, calls nothing back."""
    cls = class_of(receiver)
    return cls is not None and cls.complete and bool(cls.library_bases) and cls.library_bases <= PLAIN_BUILTINS


def _is_quiet(receiver: Instance, name: str) -> bool:
    """A constructor that nobody has written, one of a library's class, or a method of a logger: it does nothing to what
    it gets."""
    cls = class_of(receiver)
    if cls is None or not cls.complete:
        return False
    if not cls.library_bases:
        # That of `object`, to which settings in `class Args: lr = 1e-3` come down.
        return name == "__init__"
    quiet = is_harmless if name.endswith("__init__") else shows
    # Threads and processes call back what they are given.
    return not any(base.startswith(CALL_BACK) for base in cls.library_bases) and all(map(quiet, cls.library_bases))


def _unread(do: LibraryContext, values: list[Value], node: ast.AST) -> Values:
    """What code that cannot be read makes of tensors: it may bring them to one device first."""
    works: list[Value] = [value for value in values if isinstance(value, Work)]
    if works:
        return combine(do, works, node)
    made = combined(do, values, do.place(node), do.text(node, 40), [])
    if not isinstance(made, Tensor):
        return singleton(made)
    # A score may come back on the CPU, whatever it was computed from.
    made = replace(made, device=None)
    # It may be an object that holds them, with an in-place `to` of its own.
    do.set_flag(made, TensorState.made_by_unread_code)
    return singleton(made)
