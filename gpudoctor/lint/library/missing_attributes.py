"""Attributes that an object surely lacks: of a class that was read whole, or of what a command line declares."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from gpudoctor.lint.domain.abstract_state import NO, YES, ModuleState, ObjectState, SettingState
from gpudoctor.lint.domain.container import items_held
from gpudoctor.lint.domain.function import Class, Instance, Library, Namespace, Parser
from gpudoctor.lint.domain.module import Module
from gpudoctor.lint.domain.value import Const, Value, Values
from gpudoctor.lint.flow.interning import for_one_program
from gpudoctor.lint.interface.contents import fields_of
from gpudoctor.lint.interface.hooks import HOOKS, told
from gpudoctor.lint.interface.library_call import LibraryContext
from gpudoctor.lint.library.library_names import MODULE, PLAIN
from gpudoctor.lint.library.wrapper_names import CALLABLES, FSDP_MODULE, OWN, every_module_has
from gpudoctor.lint.source.syntax_walk import bound_by, nodes_of, walk
from gpudoctor.manifest.compiled import declared

_UNDER_ANY_NAME = frozenset(
    """
    setattr vars locals exec update __dict__ __getattr__ __getattribute__ __setattr__ __new__ __setstate__
    __init_subclass__
    """.split()
)
"""What may give an object an attribute whose name is not written there."""


@told(HOOKS.opened)
def note_opened(do: LibraryContext, values: Iterable[Value]) -> None:
    """From here on, these may have attributes that nobody was seen to set."""
    for value in values:
        if isinstance(value, (Class, Instance, Namespace, Parser, Module)):
            do.set_flag(value, ObjectState.opened)


def declares(do: LibraryContext, value: Namespace, name: str) -> bool:
    """It comes from a command line that was read whole, which has such an option."""
    return name in (_options(do, value) or ())


def lacks(do: LibraryContext, value: Value, name: str) -> bool:
    """It surely has no such attribute, where none was found in it or in its class."""
    if not isinstance(value, (Instance, Namespace)) or name.startswith("__"):
        return False
    # What one branch sets, or a round of a loop, may be there in another one.
    if do.flag(value, ObjectState.opened) is not NO or name in do.names_of(value):
        return False
    if isinstance(value, Namespace):
        options = _options(do, value)
        return options is not None and name not in options
    return _never_sets(do, value.cls, name)


@told(HOOKS.lacks)
def cannot_have(do: LibraryContext, value: Value, name: str) -> bool:
    """To read this attribute, where none was found, surely ends in an `AttributeError`."""
    if isinstance(value, Module):
        return _module_lacks(do, value, name)
    return not name.startswith("_") and lacks(do, value, name)


@told(HOOKS.inherits)
def inherits(value: Module, name: str) -> bool:
    """A class of a library above its own has it."""
    bases = value.cls.library_bases if value.cls is not None else ()
    return (
        every_module_has(name)
        or any(CALLABLES[kind] in bases and name in own for kind, own in OWN.items())
        or any(declared(f"{base}.{name}") is not None for base in bases)
    )


def _module_lacks(do: LibraryContext, value: Module, name: str) -> bool:
    if every_module_has(name) or do.flag(value, ObjectState.opened) is not NO or name in do.names_of(value):
        return False
    # It has them since it was sharded in place; that it has no `no_sync` a rule tells, and what follows counts as well.
    sharded = do.flag(value, ModuleState.sharded) is not NO
    if sharded and (name == "no_sync" or declared(f"{FSDP_MODULE}.{name}") is not None):
        return False
    if value.cls is None:
        # Of the attributes of a library's layers no more is known than that none of them is a wrapper.
        return name == "module" and value.made_by.startswith(("torch.nn.", "torchvision.models."))
    # In its constructor it may not have come to the attribute yet.
    made = value.exact and do.flag(value, ModuleState.constructed) is YES
    return made and _never_sets(do, value.cls, name, as_module=True)


def _options(do: LibraryContext, value: Namespace) -> frozenset[object] | None:
    """The names of all options of a command line; None where some may have been missed."""
    if do.flag(value, ObjectState.opened) is not NO:
        return None
    return _names_in(do.state(value, SettingState.option_names))


@for_one_program
def _names_in(options: Values | None) -> frozenset[object] | None:
    items = [item.single for item in items_held(options)]
    names = frozenset([item.value for item in items if isinstance(item, Const) and item.value])
    return names if names and all(isinstance(item, Const) and item.value for item in items) else None


def _never_sets(do: LibraryContext, cls: Value, name: str, as_module: bool = False) -> bool:
    """It and its bases were read whole, and no object of it has such an attribute."""
    # A library's base or decorator, and a metaclass, may do anything.
    if isinstance(cls, Library):
        return cls.name in PLAIN or (as_module and cls.name == MODULE)
    if (
        not isinstance(cls, Class)
        or not cls.complete
        or do.flag(cls, ObjectState.opened) is not NO
        or name in fields_of(cls)
    ):
        return False
    node, written = cls.node, _written_in(cls.node)
    if node.keywords or len(node.decorator_list) > cls.is_dataclass:
        return False
    if name in written or not written.isdisjoint(_UNDER_ANY_NAME):
        return False
    # `self.register_buffer("mask", mask)`
    if as_module and name in _texts_in(cls.node):
        return False
    return all(_never_sets(do, base, name, as_module) for base in cls.bases)


@for_one_program
def _written_in(cls: ast.ClassDef) -> frozenset[str]:
    """The names that are bound in a class or set in its methods, and what sets attributes under any name."""
    found = set(_bound_by(cls.body))
    for node in walk(cls):
        name = getattr(node, "attr", getattr(node, "id", getattr(node, "name", "")))
        sets = isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load)
        if sets or name in _UNDER_ANY_NAME:
            found.add(name or "")
    return frozenset(found)


def _bound_by(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The names that the body of a class binds, and not those of its methods."""
    for node in nodes:
        if name := bound_by(node):
            yield name
        else:
            yield from _bound_by(ast.iter_child_nodes(node))


@for_one_program
def _texts_in(cls: ast.ClassDef) -> frozenset[str]:
    """What is written in a class as text: it may be the name of a buffer."""
    texts = (node.value for node in nodes_of(ast.Constant, cls))
    return frozenset(text for text in texts if isinstance(text, str) and text.isidentifier())
