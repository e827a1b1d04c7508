"""What a library calls of the program: the bodies of its stub, which are followed where the program calls it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpudoctor.lint.domain.arguments import Arguments
from gpudoctor.lint.domain.function import BoundMethod, Class, Function, Library
from gpudoctor.lint.domain.group import ManagedObject
from gpudoctor.lint.domain.symbols import CallResult, Operation
from gpudoctor.lint.domain.value import FALSE, TRUE, Const, Unknown
from gpudoctor.lint.library_call import MODELS, NOT_ANSWERED, Call, singleton
from gpudoctor.manifest.compiled import body, classes
from gpudoctor.manifest.effects import FollowEffect

if TYPE_CHECKING:
    from gpudoctor.lint.domain.value import Value, Values


def follow(call: Call, name: str, owner: Value | None = None) -> Values:
    """Follow what a function of a library does, or a method for an object; NOT_ANSWERED where no stub says so."""
    known = body(name)
    if known is None:
        return NOT_ANSWERED
    text, named = known
    given = {each: singleton(Library(dotted)) for each, dotted in named}
    function = call.do.modules.function_at(text, call.node, **given)
    called = BoundMethod(owner, function) if owner is not None else function
    return call.do.call(singleton(called), call.arguments, call.node)


@MODELS.effect(FollowEffect)
def _followed(call: Call, effect: FollowEffect) -> Values:
    if call.name not in classes():
        return follow(call, call.name)
    made = ManagedObject(call.allocation_site(), call.place, call.label, "", call.name, call.name)
    follow(call, f"{call.name}.__init__", made)
    return singleton(made)


def declared_bases(cls: Value | None) -> list[str]:
    """The library classes above a class of the project of which a stub says what they do."""
    return sorted(classes() & cls.library_bases) if isinstance(cls, Class) else []


@MODELS.callable("gpudoctor.manifest.effects.surely")
def _surely(call: Call) -> Values:
    return singleton(TRUE if call.args and all(_holds(call, True)) else FALSE)


@MODELS.callable("gpudoctor.manifest.effects.possibly")
def _possibly(call: Call) -> Values:
    return singleton(FALSE if call.args and all(_holds(call, False)) else TRUE)


def _holds(call: Call, answer: bool) -> Iterator[bool]:
    tested = call.args[0].restrict(call.do.path)
    return (isinstance(each, Const) and bool(each.value) is answer for each in tested)


@MODELS.callable("gpudoctor.manifest.effects.made_of", "gpudoctor.manifest.effects.calls_of")
def _made_of(call: Call) -> Values:
    part = call.args[1].single if len(call.args) > 1 else None
    called = call.name.endswith(".calls_of")
    found = part is not None and call.args[0].any(lambda each: _has(each, part, called))
    return singleton(TRUE if found else FALSE)


def _has(value: Value, part: Value, called: bool) -> bool:
    match value.term if isinstance(value, Unknown) else None:
        case Operation(_, left, right):
            return _has(left, part, called) or _has(right, part, called)
        case CallResult(str() as function):
            return called and isinstance(part, Library) and part.name == function
    return value == part and not called


@MODELS.callable("gpudoctor.manifest.effects.as_taken")
def _as_taken(call: Call) -> Values:
    """Call a function of the program with as many arguments as it takes."""
    if not call.args:
        return NOT_ANSWERED
    return call.do.for_each_value(call.args[0], lambda value: _with_fewer(call, value), call.node)


def _with_fewer(call: Call, value: Value) -> Values:
    function = value.function if isinstance(value, BoundMethod) else value
    given = call.args[1:]
    if isinstance(function, Function) and function.node.args.vararg is None:
        names = function.node.args
        given = given[: len(names.posonlyargs) + len(names.args) - isinstance(value, BoundMethod)]
    return call.do.call(singleton(value), Arguments(given, call.keywords), call.node)
