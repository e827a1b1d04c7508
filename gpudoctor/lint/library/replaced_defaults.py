"""Defaults in the code that what the user wrote into a file replaces: from there on, they are settings."""

from __future__ import annotations

import ast

from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.abstract_state import SettingState
from gpudoctor.lint.domain.container import DictOf
from gpudoctor.lint.domain.function import Instance, Namespace
from gpudoctor.lint.domain.symbols import Attribute, Item, Setting, from_settings
from gpudoctor.lint.domain.value import NONE, UNBOUND, Const, Unknown, Value, Values, text_of
from gpudoctor.lint.events.process import SettingDefault
from gpudoctor.lint.interface.contents import add_more, ancestry, described_by, possible_pairs, put_entries
from gpudoctor.lint.interface.hooks import HOOKS, told
from gpudoctor.lint.interface.library_call import MODELS, NOT_ANSWERED, Call, LibraryContext, singleton
from gpudoctor.record import dataclass

DEPTH = 3
"""How deep sections of a configuration are gone through."""


@dataclass(frozen=True)
class EntryText:
    """How the source writes a part of a configuration, and where it is opened."""

    text: str
    at: Location


@told(HOOKS.written_under_any_name)
def _replace(do: LibraryContext, owner: Value, key: Values, new: Values, node: ast.AST) -> None:
    """`for key, value in loaded.items(): config[key] = value`."""
    if new.any(from_settings) or key.any(_is_read_key):
        target = _target(node)
        label = do.text(target) if target is not None else owner.label
        open_defaults(do, owner, EntryText(label, do.place(node)), {})


@MODELS.callable("builtins.exec")
def _executed(call: Call) -> Values:
    """`exec(open("configurator.py").read())`: text that is not read here may set whatever the module has set before."""
    if not call.args or text_of(call.args[0].single) is not None or len(call.args) > 1:
        return NOT_ANSWERED
    open_defaults(call.do, call.do.modules.own_module(), EntryText("", call.place), {}, depth=0)
    return singleton(NONE)


def _target(node: ast.AST) -> ast.expr | None:
    """How the source calls what is written into."""
    match node:
        case ast.Subscript(value=target) | ast.Call(func=ast.Attribute(value=target)):
            return target
        case ast.Call(func=ast.Name(), args=[target, *_]):
            return target
    return None


def _is_read_key(key: Value) -> bool:
    """One of the keys of a file; `results[args.dataset]` names an entry."""
    return isinstance(key, Unknown) and not isinstance(key.term, Setting) and not key.config and from_settings(key)


def open_defaults(
    do: LibraryContext, owner: Value, written: EntryText, done: dict[Value, int], depth: int = DEPTH
) -> None:
    """Every entry of a configuration may be another one from here on."""
    # Entries lie in one another by many ways: gone through on each of them, they take minutes.
    if done.get(owner, -1) >= depth:
        return
    done[owner] = depth
    owner = described_by(owner) or owner
    opened: dict[str, Values] = {}
    for name, held in _entries(do, owner):
        entry = EntryText(_text(owner, written.text, name), written.at)
        replaced = _setting(do, owner, name, held, entry)
        if replaced is not None:
            opened[name] = replaced
        for part in held if depth else ():
            # A file names what the code left empty.
            if isinstance(part, DictOf):
                add_more(do, part, singleton(Unknown(Item(part, None), "chosen at the start", entry.text, config=True)))
            if isinstance(part, (DictOf, Namespace, Unknown)):
                open_defaults(do, part, entry, done, depth - 1)
    if isinstance(owner, DictOf):
        put_entries(do, owner, {singleton(Const(name)): values for name, values in opened.items()})
        return
    for name, values in opened.items():
        do.set_own_attribute(owner.keeper, name, values)


def _text(owner: Value, written: str, name: str) -> str:
    # What has no name is called by a phrase of ours, and what a module has by its own.
    if " " in written or not written:
        return name
    by_key = isinstance(owner, DictOf) and owner.cls is None
    return f"{written}[{name!r}]" if by_key else f"{written.removesuffix('.__dict__')}.{name}"


def _entries(do: LibraryContext, owner: Value) -> list[tuple[str, Values]]:
    if isinstance(owner, DictOf):
        keyed = ((key.single, held) for key, held in possible_pairs(do, owner))
        return [(name, held) for key, held in keyed if (name := text_of(key)) is not None]
    cls = owner.cls if isinstance(owner, Instance) else None
    # What its class says of all objects is said of this one.
    keepers = [owner.keeper, *(each.scope for each in (ancestry(cls) if cls is not None else ()))]
    found: dict[str, Values | None] = {}
    for keeper in keepers:
        for name in do.names_of(keeper):
            found.setdefault(name, do.own_attribute(keeper, name))
    return [(name, held) for name, held in found.items() if held is not None and not name.startswith("__")]


def _setting(do: LibraryContext, owner: Value, name: str, held: Values, entry: EntryText) -> Values | None:
    """What an entry is from here on; None for what is no plain value."""
    term = Item(owner, Const(name)) if isinstance(owner, DictOf) else Attribute(owner, name)
    setting = Unknown(term, "chosen at the start", entry.text, config=True)
    # On some paths it may have been opened before, or not be there.
    defaults = [value for value in dict.fromkeys(held) if value != setting and value is not UNBOUND]
    if not defaults or not all(value.is_constant for value in defaults):
        return None
    default = defaults[0] if len(defaults) == 1 else None
    if default is not None:
        do.set_state(setting, SettingState.left_out, singleton(default))
        do.emit(SettingDefault, at=entry.at, value=setting, text=entry.text, left_out=default)
    return singleton(do.launch.setting(setting, entry.at, default))
