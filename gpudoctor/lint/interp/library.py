"""What the interpreter does with names, objects and calls of libraries: it asks the models, and notes what escapes."""

from __future__ import annotations

import ast
from functools import lru_cache
from typing import TYPE_CHECKING

from gpudoctor.lint.analyses.collective_taint import after_operator
from gpudoctor.lint.analyses.data_parallel_replicas import extent_of_sum, of_extent
from gpudoctor.lint.analyses.forward_body import check_meeting
from gpudoctor.lint.analyses.loss_scale import of_arithmetic, operator_of
from gpudoctor.lint.domain.abstract_state import SettingState, TensorState
from gpudoctor.lint.domain.arguments import NO_ARGUMENTS, Arguments
from gpudoctor.lint.domain.container import DictOf, Enumerated, ListOf, TupleOf
from gpudoctor.lint.domain.data import Loader, Sampler
from gpudoctor.lint.domain.device import CPU, Device
from gpudoctor.lint.domain.function import BoundMethod, Class, Instance, Library, Namespace, Partial, ProjectModule
from gpudoctor.lint.domain.group import Work
from gpudoctor.lint.domain.module import Module, Wrapper
from gpudoctor.lint.domain.optim import Optimizer, Parameters
from gpudoctor.lint.domain.rank import Rank, Size, SizeKind
from gpudoctor.lint.domain.symbols import Attribute, CallResult, Item, MethodResult
from gpudoctor.lint.domain.tensor import Tensor, TensorOrigin
from gpudoctor.lint.domain.value import UNBOUND, Anonymous, Const, Unknown, Value, Values
from gpudoctor.lint.events.knowledge import Escape
from gpudoctor.lint.events.placement import ConstantMixed
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.flow.valueset import ValueSet
from gpudoctor.lint.interp import attributes
from gpudoctor.lint.interp.attributes import class_of, has_option, library_call
from gpudoctor.lint.interp.machine import singleton
from gpudoctor.lint.interp.records import ChosenCall
from gpudoctor.lint.library import environment_variables, tensors
from gpudoctor.lint.library.dynamic_import import member_named_by
from gpudoctor.lint.library.library_names import DATA_METHODS, canonical, computes, gives_settings, is_harmless, shows
from gpudoctor.lint.library.missing_attributes import note_opened
from gpudoctor.lint.library.register import MODELS
from gpudoctor.lint.library_call import NOT_ANSWERED
from gpudoctor.record import replace

if TYPE_CHECKING:
    from gpudoctor.lint.interp.evaluator import Evaluator

PLAIN_BUILTINS = frozenset(["builtins.dict", "builtins.list", "builtins.set", "builtins.tuple", "builtins.str"])
ESCAPING = (Module, Wrapper, Loader, Sampler, Optimizer, Parameters, Instance, Work)
CONTAINER_DEPTH = 3
CALL_BACK = ("threading.", "multiprocessing.", "torch.multiprocessing.", "concurrent.", "asyncio.", "unittest.")


def is_known(name: str, exactly: bool) -> bool:
    """A model answers for this name; `exactly` where one for all names that begin so does not count."""
    known = canonical(name)
    # The model of `torch.*` answers for any name, which is no sign that it exists.
    return known in MODELS.callables if exactly else MODELS.find(known) is not None


def library_name(m: Evaluator, name: str, node: ast.AST) -> Values:
    """A library name as it is mentioned."""
    name = canonical(name)
    # Few names are values: most are called, and answered for then.
    model = MODELS.names.get(name)
    return model(m, m.place(node)) if model is not None else _mentioned(name)


@lru_cache(maxsize=1024)
def _mentioned(name: str) -> Values:
    return singleton(Library(name))


def call_library(m: Evaluator, name: str, arguments: Arguments, node: ast.AST) -> Values:
    """Call a library callable: its model answers, else the result is unknown."""
    if m.iteration_probe is not None:
        m.iteration_probe.called(name, arguments.positional)
    first = arguments.positional[:1]
    receiver = first[0].single if first and name.endswith(".__init__") else None
    constructor = MODELS.methods.get((type(receiver), "__init__")) if receiver is not None else None
    if constructor is not None:
        # `nn.Linear.__init__(self, …)` in a class of the project.
        return constructor(library_call(m, "__init__", arguments.without_first(), node, receiver))
    model = MODELS.find(name)
    answered = model(library_call(m, name, arguments, node, None)) if model is not None else NOT_ANSWERED
    return _unknown_result(m, name, arguments, node) if answered is NOT_ANSWERED else answered


def _unknown_result(m: Evaluator, name: str, arguments: Arguments, node: ast.AST) -> Values:
    # Optimizers of unknown libraries are known by what they are given.
    for fallback in MODELS.fallbacks:
        answered = fallback(library_call(m, name, arguments, node, None))
        if answered is not NOT_ANSWERED:
            return answered
    given = (*arguments,)
    _note_shown(m, name, given, node)
    divergence = Divergence.NONE
    # Unknown code may wrap, move or step what it gets: rules of absence must stand back.
    if not is_harmless(name):
        note_escape(m, name, given, node)
        divergence = Divergence.UNREAD
    # Code that was not read may have asked the other ranks.
    shards = tensors.shares_of(m, given) if computes(name) else frozenset()
    if any(isinstance(value, Tensor) for values in given for value in values):
        return _with_shards(_unread(m, [value for values in given for value in values], node), shards)
    for values in given:
        for value in values:
            divergence |= value.divergence
    given_by_name = tuple(sorted(arguments.keywords.items(), key=lambda item: item[0]))
    term = CallResult(name, (arguments.positional, given_by_name))
    why, settings = f"what {name} returns", gives_settings(name)
    return singleton(Unknown(term, why, m.text(node, 40), divergence, settings, shards, escaped_from=name))


def _with_shards(values: Values, shards: frozenset[Value]) -> Values:
    return values.map(lambda value: replace(value, shards=shards) if isinstance(value, Tensor) else value)


def _note_shown(m: Evaluator, name: str, given: tuple[Values, ...], node: ast.AST) -> None:
    """Numbers that a logger or a progress bar is handed are shown or kept by it."""
    if shows(name):
        tensors.report(m, "log", given, m.place(node))


def note_escape(m: Evaluator, into: str, given: tuple[Values, ...], node: ast.AST) -> None:
    """Objects that matter are handed to code that cannot be read."""
    reached = _reached(m, [value for each in given for value in each])
    note_opened(m, reached)
    told = any(isinstance(value, Size) and value.kind is SizeKind.WORLD for value in reached)
    m.emit(Escape, at=m.place(node), into=into, values=tuple(filter(_matters, reached)), told_world_size=told)


def _objects(m: Evaluator, values: list[Value]) -> list[Value]:
    """The objects that matter among some values and what those hold."""
    return [each for each in _reached(m, values) if _matters(each)]


def _matters(value: Value) -> bool:
    # Whoever holds a loss may run its backward.
    return isinstance(value, ESCAPING) or _has_graph(value)


def _reached(m: Evaluator, values: list[Value]) -> list[Value]:
    """Some values and what they hold, a few levels deep."""
    seen: dict[Value, None] = {}
    # Each once: what holds itself, or the same thing many times over, would be gone through again and again.
    for _ in range(CONTAINER_DEPTH + 1):
        values = [value for value in dict.fromkeys(values) if value not in seen]
        seen |= dict.fromkeys(values)
        values = [each for value in values for each in _held(m, value)]
    return list(seen)


def _has_graph(value: Value) -> bool:
    return isinstance(value, Tensor) and value.graph is True


def _held(m: Evaluator, value: Value) -> list[Value]:
    """What somebody who gets this gets with it."""
    # An object that escapes takes along what its attributes hold.
    if isinstance(value, Instance):
        return attributes_of(m, value)
    if isinstance(value, (TupleOf, ListOf)):
        return [each for item in m.known_items(value) or () for each in item]
    if isinstance(value, DictOf):
        return [each for _, item in m.pairs(value) or () for each in item]
    if isinstance(value, Enumerated):
        return [each for item in value.items for each in item]
    # A callback carries its object: `hook(trainer.on_step)`.
    if isinstance(value, BoundMethod):
        return [value.receiver]
    return [each for item in value.args for each in item] if isinstance(value, Partial) else []


def attributes_of(m: Evaluator, value: Value) -> list[Value]:
    """What the attributes of an object hold."""
    return [each for name in m.store.names(value) for each in (m.read((value, name)) or ())]


def call_unknown(m: Evaluator, value: Value, arguments: Arguments, node: ast.AST) -> Values:
    """Call something of which nothing is known."""
    known = (*arguments,)
    if isinstance(value, Unknown):
        _note_chosen(m, value, known, node)
        if len(arguments.positional) == 1 and _method_of(value) == "update" and not m.path.literals:
            m.set_state(_receiver_of(value), SettingState.merged, arguments.positional[0])
        # `cfg.merge_from_file(args.config)`: what stood there was the default.
        elif value.escaped_from.startswith("yacs.") and _method_of(value).startswith("merge_from_"):
            _open_defaults(m, _receiver_of(value), {})
        answered = _unknown_method(m, value, arguments, node)
        if answered is not None:
            return answered
        _note_shown(m, value.escaped_from, known, node)
        _note_unread(m, value, known, node)
    given = arguments.values()
    made_by = value.escaped_from if isinstance(value, Unknown) else ""
    shards = value.shards if isinstance(value, Unknown) else frozenset()
    if computes(made_by):
        # numpy sums this rank's numbers and asks nobody else.
        shards |= tensors.shares_of(m, known)
    if any(isinstance(each, Tensor) for each in given):
        return _with_shards(_unread(m, given, node), shards)
    divergence, config = value.divergence, isinstance(value, Unknown) and value.config
    if isinstance(value, Unknown) and not value.config and not is_harmless(value.escaped_from):
        divergence |= Divergence.UNREAD
    for each in given:
        divergence |= each.divergence
    term = CallResult(value, arguments.key)
    # What it comes from says more than that it was returned.
    why = value.why if isinstance(value, Unknown) and value.why else "what an unknown callable returns"
    return singleton(Unknown(term, why, m.text(node, 40), divergence, config, shards, escaped_from=made_by))


def _note_chosen(m: Evaluator, value: Unknown, given: tuple[Values, ...], node: ast.AST) -> None:
    """Remember the call, should the program seem to train nothing: what a setting has chosen may be what trains."""
    chosen = value.config or gives_settings(value.escaped_from)
    if chosen and node not in m.unread and isinstance(node, ast.Call):
        name = _method_of(value)
        by = value.escaped_from.removesuffix(f".{name}") if name else value.escaped_from
        m.unread[node] = ChosenCall(node, m.place(node), name, by, given)


def _open_defaults(m: Evaluator, owner: Unknown, done: dict[Value, int], depth: int = CONTAINER_DEPTH) -> None:
    """Every entry of a configuration may be another one from here on."""
    # Entries lie in one another by many ways: gone through on each of them, they take minutes.
    if done.get(owner, -1) >= depth:
        return
    done[owner] = depth
    for name in m.store.names(owner):
        held = m.read((owner, name))
        if held is not None and held.any(lambda value: isinstance(value, Const)):
            m.write(
                (owner, name),
                singleton(Unknown(Attribute(owner, name), "chosen at the start", name, config=True)),
            )
        for part in held or () if depth else ():
            if isinstance(part, Unknown):
                _open_defaults(m, part, done, depth - 1)


def _note_unread(m: Evaluator, value: Unknown, given: tuple[Values, ...], node: ast.AST) -> None:
    """Something unknown is called: it may do anything with what it gets, and with what it knows already."""
    # A writer of tensorboard gets numbers, a callable of unknown make may get to the model.
    if value.escaped_from and is_harmless(value.escaped_from):
        return
    # `name.split(".")`, `frame.astype(int)`: whatever it is, this reads it.
    if _method_of(value) in DATA_METHODS and not _objects(m, [each for values in given for each in values]):
        return
    note_escape(m, value.escaped_from or value.label or "unknown code", given, node)
    if not value.escaped_from:
        callee = m.text(node.func if isinstance(node, ast.Call) else node)
        m.record_imprecision(f"`{callee}` was not followed: {value.why or 'nothing is known about it'}", m.place(node))


def _method_of(value: Unknown) -> str:
    """The name under which something unknown was asked of something unknown, where it was."""
    return value.term.name if isinstance(value.term, Attribute) else ""


def _receiver_of(value: Unknown, label: str = "") -> Unknown:
    """What the method was asked of."""
    of = value.term.of if isinstance(value.term, Attribute) else None
    term = of.term if isinstance(of, Unknown) else Anonymous("receiver", of)
    return Unknown(term, value.why if label else "", label)


_LOUD = frozenset({"to", "cuda", "save_to_disk"})
"""Methods that do what their name says, whatever they are called on."""


def _unknown_method(m: Evaluator, value: Unknown, arguments: Arguments, node: ast.AST) -> Values | None:
    """`x.backward()` of something unknown still is what it is called."""
    name = _method_of(value)
    # What objects that a library made can do is known by its name: `mesh.get_rank()`.
    own = MODELS.callables.get(value.escaped_from) if name and value.escaped_from else None
    if own is not None:
        return own(library_call(m, name, arguments, node, _receiver_of(value)))
    model = MODELS.methods.get((Unknown, name)) if name else None
    # `writer.step()` of a known library is no optimizer's step; a move goes where it says, whoever made what it moves.
    quiet = value.escaped_from and is_harmless(value.escaped_from) and name not in _LOUD
    if model is None or quiet:
        return None
    receiver = _receiver_of(value, value.label.rpartition(".")[0])
    answered = model(library_call(m, name, arguments, node, receiver))
    return None if answered is NOT_ANSWERED else answered


def unanswered(m: Evaluator, receiver: Value, name: str, arguments: Arguments, node: ast.AST) -> Values:
    """A method of a library object for which no model answers."""
    given = arguments.values()
    stored = _is_builtin(receiver) and not _objects(m, given)
    if isinstance(receiver, Instance) and not stored and not _is_quiet(receiver, name):
        note_escape(m, name, (*arguments,), node)
        note_escape(m, name, (singleton(receiver),), node)
    term = MethodResult(receiver, name, arguments.key)
    return singleton(Unknown(term, f"what .{name}() returns", m.text(node, 40), receiver.divergence))


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


def library_item(m: Evaluator, value: Value, index: Values, node: ast.AST) -> Values:
    """`value[index]` for something that is no container of the program."""
    if isinstance(value, environment_variables.Environ):
        return environment_variables.read(library_call(m, "__getitem__", Arguments((index,)), node, value))
    # `Queue[int]()`.
    if isinstance(value, Class) and "typing.Generic" in value.library_bases:
        return singleton(value)
    found = attributes.find_method(m, value, "__getitem__")
    if found is not None:
        return m.call(found, Arguments((index,)), node)
    model = MODELS.methods.get((type(value), "__getitem__"))
    if model is not None:
        return model(library_call(m, "__getitem__", Arguments((index,)), node, value))
    only = index.single
    # `models.__dict__[args.arch]()` of the ImageNet example.
    if isinstance(value, Library) and value.name.endswith(".__dict__"):
        return library_name(m, f"{value.name.removesuffix('__dict__')}{_text_of(only) or '*'}", node)
    if isinstance(value, ProjectModule) and _text_of(only):
        return attributes.attribute(m, value, _text_of(only), node)
    if isinstance(value, ProjectModule):
        found = member_named_by(m, value, only, library_call(m, "__getitem__", Arguments((index,)), node, value))
        if found is not None:
            return found
    if isinstance(value, Unknown):
        # `config = yaml.load(f)`, then `config["rank"] = rank`: that entry is known.
        known = m.entry(value, SettingState.items, _text_of(only)) if _text_of(only) else None
        known = _option_in(m, value, _text_of(only), node) if known is None and _text_of(only) else known
        if known is not None and all(each.value is not UNBOUND for each in known.bindings):
            return known
        label = m.text(node, 40)
        # `data[start : start + length]` of a start that this rank has drawn is something of its own.
        drawn = index.any(lambda each: bool(each.divergence & Divergence.LOCAL))
        divergence = value.dependence | (Divergence.LOCAL if drawn else Divergence.NONE)
        item = Unknown(Item(value, only), value.why, label, divergence, value.config, value.shards, value.escaped_from)
        entry = m.setting(item, m.place(node))
        # Put there on one side of a branch, it is on the other what was read with the rest.
        return singleton(entry) if known is None else known.map(lambda each: entry if each is UNBOUND else each)
    return singleton(Unknown(Item(value, only), "an item", m.text(node, 40), value.divergence))


def _option_in(m: Evaluator, value: Unknown, name: str, node: ast.AST) -> Values | None:
    """`vars(args)[name]`, also after `config.update(vars(args))`: an option under its name."""
    merged = m.state(value, SettingState.merged)
    for each in (value, *(merged or ())):
        owner = None
        match each.term if isinstance(each, Unknown) else None:
            case CallResult("builtins.vars", (ValueSet() as given, *_)):
                owner = given.single
        if isinstance(owner, Namespace) and has_option(m, owner, name):
            return attributes.attribute(m, owner, name, node)
    return None


def _text_of(value: Value | None) -> str:
    return value.value if isinstance(value, Const) and isinstance(value.value, str) else ""


def set_library_item(m: Evaluator, value: Value, index: Values, values: Values, target: ast.Subscript) -> bool:
    """`os.environ[name] = value`, or an object's own `__setitem__`."""
    if isinstance(value, environment_variables.Environ):
        environment_variables.write(library_call(m, "__setitem__", Arguments((index, values)), target, value))
        return True
    found = attributes.find_method(m, value, "__setitem__")
    if found is not None:
        m.call(found, Arguments((index, values)), target)
        return True
    if isinstance(value, Unknown) and _text_of(index.single):
        m.set_entry(value, SettingState.items, _text_of(index.single), values)
    model = MODELS.methods.get((type(value), "__setitem__"))
    if model is not None:
        model(library_call(m, "__setitem__", Arguments((index, values)), target, value))
    return model is not None


def environment_has(m: Evaluator, key: Value, container: Value) -> Value | None:
    """`"RANK" in os.environ`."""
    return environment_variables.has(m, key) if isinstance(container, environment_variables.Environ) else None


def iterate_object(m: Evaluator, value: Value, node: ast.AST) -> Values:
    """What a loop over an object gets: its own `__iter__`, else an unknown item."""
    for name in ("__iter__", "__next__", "__getitem__"):
        found = attributes.find_method(m, value, name)
        if found is None:
            continue
        arguments = Arguments((m.unknown(node, "an index"),)) if name == "__getitem__" else NO_ARGUMENTS
        made = m.call(found, arguments, node)
        if name == "__iter__" and made.single != value and made.single is not None:
            return m.items_of(made, node)
        if name != "__iter__":
            return made
    model = MODELS.methods.get((type(value), "__iter__"))
    if model is not None:
        return model(library_call(m, "__iter__", NO_ARGUMENTS, node, value))
    return singleton(Unknown(Anonymous("item of", value), "an item", m.text(node, 40), value.divergence))


def part(m: Evaluator, tensor: Tensor, node: ast.AST, key: object = None) -> Values:
    """An item of a tensor, or of a batch whose shape is not known."""
    whole = tensors.as_reduced(m, tensor)
    label = m.text(node, 40) if isinstance(node, ast.Subscript) else ""
    found = tensors.part_of(m, whole, m.allocation_site(m.place(node)), m.place(node), label, key)
    # `x[0]` may be a number, `x[:n]` is none.
    index = node.slice if isinstance(node, ast.Subscript) else None
    sliced = any(isinstance(each, ast.Slice) for each in (index.elts if isinstance(index, ast.Tuple) else [index]))
    return singleton(found if sliced else replace(found, root=None))


def _unread(m: Evaluator, values: list[Value], node: ast.AST) -> Values:
    """What code that cannot be read makes of tensors: it may bring them to one device first."""
    works: list[Value] = [value for value in values if isinstance(value, Work)]
    if works:
        return combine(m, works, node)
    made = tensors.combined(m, values, m.place(node), m.text(node, 40), [])
    if not isinstance(made, Tensor):
        return singleton(made)
    # A score may come back on the CPU, whatever it was computed from.
    made = replace(made, device=None)
    # It may be an object that holds them, with an in-place `to` of its own.
    m.set_flag(made, TensorState.made_by_unread_code)
    return singleton(made)


def combine(m: Evaluator, values: list[Value], node: ast.AST) -> Values:
    """What an operation on tensors returns."""
    for value in values:
        if isinstance(value, Work):
            return MODELS.methods[Work, "__operate__"](library_call(m, "__operate__", NO_ARGUMENTS, node, value))
    result = tensors.combined(m, values, m.place(node), m.text(node, 40))
    # `(grid == rank).nonzero()` is where this rank stands.
    for value in values:
        if isinstance(value, Rank) and isinstance(result, Tensor):
            result = replace(result, dependence=result.dependence | value.divergence)
    if isinstance(node, (ast.Compare, ast.BinOp, ast.AugAssign)):
        check_meeting(m, values, "this operation", m.place(node))
    if isinstance(node, ast.Compare):
        return singleton(tensors.without_graph(_still_constant(values, result)))
    if isinstance(node, (ast.BinOp, ast.AugAssign)):
        result = after_operator(node.op, values[-1], result)
    arithmetic = isinstance(node, (ast.BinOp, ast.AugAssign, ast.UnaryOp))
    if arithmetic:
        result = _still_constant(values, result)
        result = of_arithmetic(m, result, values, operator_of(node), m.place(node))
    return singleton(of_extent(result, extent_of_sum(values)) if arithmetic else result)


def _still_constant(values: list[Value], result: Value) -> Value:
    """`torch.arange(n) * 2` is a constant as well."""
    # Of two constants it is not known which one a message should name.
    operands = [value for value in values if isinstance(value, Tensor)]
    if len(operands) != 1 or not isinstance(result, Tensor) or result.device != CPU:
        return result
    return replace(result, root=operands[0].root)


def note_accumulation(m: Evaluator, target: ast.expr, new: Values, node: ast.AST) -> None:
    """`total += loss`: a graph may be kept beyond the iteration."""
    if new.any(lambda value: isinstance(value, Tensor)):
        tensors.note_accumulation(m, m.text(target, 40), new, m.place(node))


def note_written(m: Evaluator, old: Values, by: Values, node: ast.AST) -> None:
    """`total += loss`: what is written in place lies where it lay, and takes nothing from a GPU, not even a number."""
    total, other = old.single, by.single
    if isinstance(total, Tensor) and total.origin is TensorOrigin.FACTORY and total.device == CPU:
        there = other.device if isinstance(other, Tensor) else None
        # What has more than one number was told as any operation.
        if total.root is None and isinstance(there, Device) and there.is_accelerator:
            m.emit(ConstantMixed, at=m.place(node), by="this operation", constant=total, other=other, module=None)


def note_printed(m: Evaluator, values: Values, node: ast.AST) -> None:
    """A value becomes text: a tensor must come to the host for that."""
    tensors.note_printed(m, values, m.place(node))
