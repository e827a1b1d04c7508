"""What the interpreter does with names, objects and calls of libraries: it asks the models."""

from __future__ import annotations

import ast
from functools import lru_cache

from gpudoctor.lint.domain.abstract_state import NO, ObjectState, SettingState
from gpudoctor.lint.domain.arguments import NO_ARGUMENTS, Arguments
from gpudoctor.lint.domain.function import Class, Instance, Library, ProjectModule
from gpudoctor.lint.domain.symbols import Item
from gpudoctor.lint.domain.value import NONE, UNBOUND, Anonymous, Unknown, Value, Values, shards_of, singleton, text_of
from gpudoctor.lint.flow.condition import MAYBE_BY_RANK, Divergence
from gpudoctor.lint.interface.contents import find_method, hidden_in
from gpudoctor.lint.interface.library_call import NOT_ANSWERED
from gpudoctor.lint.interp import attributes
from gpudoctor.lint.interp.attributes import library_call
from gpudoctor.lint.interp.evaluator import Evaluator
from gpudoctor.lint.library.library_names import canonical
from gpudoctor.lint.library.register import HOOKS, MODELS


def is_known(name: str, exactly: bool) -> bool:
    """A model answers for this name; `exactly` where one for all names that begin so does not count."""
    known = canonical(name)
    # The model of `torch.*` answers for any name, which is no sign that it exists.
    return (MODELS.own(known) if exactly else MODELS.find(known)) is not None


def library_name(m: Evaluator, name: str, node: ast.AST) -> Values:
    """A library name as it is mentioned."""
    name = canonical(name)
    mentioned = _mentioned(name)
    # Few names are values: most are called, and answered for then.
    model = MODELS.names.get(name)
    return model(m, m.place(node)) if model is not None else mentioned


@lru_cache(maxsize=1024)
def _mentioned(name: str) -> Values:
    # A class may derive from it: what is known of its library is asked from now on.
    MODELS.load(name)
    return singleton(Library(name))


def call_library(m: Evaluator, name: str, arguments: Arguments, node: ast.AST) -> Values:
    """Call a library callable: its model answers, else the result is unknown."""
    if m.listener is not None:
        m.listener.called(name, arguments.positional)
    first = arguments.positional[:1]
    receiver = first[0].single if first and name.endswith(".__init__") else None
    constructor = MODELS.methods.get((type(receiver), "__init__")) if receiver is not None else None
    if constructor is not None:
        # `nn.Linear.__init__(self, …)` in a class of the project.
        return constructor(library_call(m, "__init__", arguments.without_first(), node, receiver))
    model = MODELS.find(name)
    answered = model(library_call(m, name, arguments, node, None)) if model is not None else NOT_ANSWERED
    return HOOKS.library_call[0](m, name, arguments, node) if answered is NOT_ANSWERED else answered


def library_item(m: Evaluator, value: Value, index: Values, node: ast.AST) -> Values:
    """`value[index]` for something that is no container of the program."""
    # `Queue[int]()`.
    if isinstance(value, Class) and "typing.Generic" in value.library_bases:
        return singleton(value)
    found = find_method(m, value, "__getitem__")
    if found is not None:
        return m.call(found, Arguments((index,)), node)
    only = index.single
    text = text_of(only)
    if isinstance(value, ProjectModule):
        # No name at all, as the None of a search, ends in an error.
        names = Values([each for each in index.restrict(m.path).bindings if each.value != NONE])
        if names.all(lambda each: bool(text_of(each))):
            return m.for_each_value(names, lambda each: attributes.attribute(m, value, text_of(each) or "", node), node)
    model = MODELS.methods.get((type(value), "__getitem__"))
    if model is not None:
        answered = model(library_call(m, "__getitem__", Arguments((index,)), node, value))
        if answered is not NOT_ANSWERED:
            return answered
    # `models.__dict__[args.arch]()` of the ImageNet example.
    if isinstance(value, Library) and value.name.endswith(".__dict__"):
        return library_name(m, f"{value.name.removesuffix('__dict__')}{text or '*'}", node)
    if isinstance(value, Unknown):
        # `config = yaml.load(f)`, then `config["rank"] = rank`: that entry is known.
        known = m.entry(value, SettingState.items, text) if text else None
        known = attributes.option_in(m, value, text, node) if known is None and text else known
        if known is not None and all(each.value is not UNBOUND for each in known.bindings):
            return known
        label = m.text(node, 40)
        # `data[start : start + length]` of a start that this rank has drawn is something of its own.
        drawn = index.any(lambda each: bool(each.divergence & Divergence.LOCAL))
        divergence = value.dependence | (Divergence.LOCAL if drawn else Divergence.NONE) | hidden_in(m, value)
        # Each rank reads a file of its own, and finds under this name what all have written there, as the epoch.
        if text and divergence is Divergence.RANK:
            divergence = MAYBE_BY_RANK
        item = Unknown(Item(value, only), value.why, label, divergence, value.config, value.shards, value.escaped_from)
        entry = m.setting(item, m.place(node))
        # Put there on one side of a branch, it is on the other what was read with the rest.
        return singleton(entry) if known is None else known.map(lambda each: entry if each is UNBOUND else each)
    # `line[:-2]` still says what numbers stand in it.
    shards = shards_of(value.in_text)
    return singleton(Unknown(Item(value, only), "an item", m.text(node, 40), value.divergence, shards=shards))


def set_library_item(m: Evaluator, value: Value, index: Values, values: Values, target: ast.Subscript) -> bool:
    """`os.environ[name] = value`, or an object's own `__setitem__`."""
    found = find_method(m, value, "__setitem__")
    if found is not None:
        m.call(found, Arguments((index, values)), target)
        return True
    if isinstance(value, Unknown) and (text := text_of(index.single)):
        m.set_entry(value, SettingState.items, text, values)
    model = MODELS.methods.get((type(value), "__setitem__"))
    if model is not None:
        model(library_call(m, "__setitem__", Arguments((index, values)), target, value))
    return model is not None


def iterate_object(m: Evaluator, value: Value, node: ast.AST) -> Values:
    """What a loop over an object gets: its own `__iter__`, else an unknown item."""
    begun = isinstance(value, Instance) and m.flag(value, ObjectState.begun) is not NO
    for name in ("__next__",) if begun else ("__iter__", "__next__", "__getitem__"):
        found = find_method(m, value, name)
        if found is None:
            continue
        arguments = Arguments((m.unknown(node, "an index"),)) if name == "__getitem__" else NO_ARGUMENTS
        base, errors = m.path, len(m.raised)
        made = m.call(found, arguments, node)
        if m.unreachable and m.raised[errors:] in (["StopIteration"], ["IndexError"]):
            # So ends what it goes over, and not the program.
            m.path, m.unreachable = base, False
        if name == "__iter__" and made.single != value and made.single is not None:
            return m.items_of(made, node)
        if name != "__iter__":
            return made
    model = MODELS.methods.get((type(value), "__iter__"))
    if model is not None:
        return model(library_call(m, "__iter__", NO_ARGUMENTS, node, value))
    return singleton(Unknown(Anonymous("item of", value), "an item", m.text(node, 40), value.divergence))
