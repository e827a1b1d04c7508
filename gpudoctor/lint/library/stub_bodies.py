"""What a library calls of the program: the bodies of its stub, which are followed where the program calls it."""

from __future__ import annotations

from gpudoctor.lint.domain.function import BoundMethod, Class, Library
from gpudoctor.lint.domain.group import ManagedObject
from gpudoctor.lint.domain.value import Value, Values
from gpudoctor.lint.interface.library_call import MODELS, NOT_ANSWERED, Call, singleton
from gpudoctor.manifest.compiled import body, classes, functions
from gpudoctor.manifest.effects import FollowEffect


def follow(call: Call, name: str, owner: Value | None = None) -> Values:
    """Follow what a function of a library does, or a method for an object; NOT_ANSWERED where no stub says so."""
    known = body(name)
    if known is None:
        return NOT_ANSWERED
    text, named = known
    given = {each: _meant(call, dotted) for each, dotted in named}
    function = call.do.modules.function_at(text, call.node, **given)
    called = BoundMethod(owner, function) if owner is not None else function
    return call.do.call(singleton(called), call.arguments, call.node)


def _meant(call: Call, dotted: str) -> Values:
    known = MODELS.names.get(dotted)
    return known(call.do, call.place) if known is not None else singleton(Library(dotted))


@MODELS.effect(FollowEffect)
def _followed(call: Call, effect: FollowEffect) -> Values:
    if call.name not in classes():
        return follow(call, call.name)
    made = ManagedObject(call.allocation_site(), call.place, call.label, "", call.name, call.name)
    follow(call, f"{call.name}.__init__", made)
    return singleton(made)


@MODELS.decorator(*functions("followed"))
def _decorated(call: Call) -> Values:
    """What the body makes of the function that is decorated with it."""
    return follow(call, call.name)


def declared_bases(cls: Class | None) -> list[str]:
    """The library classes above a class of the project of which a stub says what they do."""
    return sorted(classes() & cls.library_bases) if cls is not None else []
