"""Ray: functions and objects that other processes run. What they do is done where the program asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.lint.domain.function import BoundMethod, Class, Function, Library
from gpudoctor.lint.domain.value import NONE
from gpudoctor.lint.library_call import MODELS, NOT_ANSWERED, Call, singleton

if TYPE_CHECKING:
    from gpudoctor.lint.domain.value import Values

_REMOTE = "ray.remote"
_ASKED = ("remote", "options")


@MODELS.decorator(_REMOTE)
def _made_remote(call: Call) -> Values:
    """`Worker.remote()` makes an object in a process of its own."""
    only = call.args[0].single
    if isinstance(only, Class):
        for name in _ASKED:
            call.do.set_own_attribute(only.scope, name, singleton(BoundMethod(only, Library(f"{_REMOTE}.{name}"))))
    return call.args[0]


@MODELS.callable(_REMOTE)
def _remote(call: Call) -> Values:
    """`ray.remote(Worker)`, `ray.remote(num_gpus=1)(Worker)`."""
    return _made_remote(call) if call.args else singleton(Library(_REMOTE))


@MODELS.callable(f"{_REMOTE}.remote")
def _asked_for(call: Call) -> Values:
    return call.do.call(call.args[0], call.arguments.without_first(), call.node) if call.args else NOT_ANSWERED


@MODELS.callable(f"{_REMOTE}.options")
def _with_options(call: Call) -> Values:
    return call.args[0] if call.args else NOT_ANSWERED


@MODELS.attribute(BoundMethod, "remote")
def _method(call: Call[BoundMethod]) -> Values:
    """`worker.step.remote(batch)` of an object that is made so."""
    owner = getattr(call.receiver.receiver, "cls", None)
    known = isinstance(owner, Class) and call.do.own_attribute(owner.scope, "remote") is not None
    return singleton(call.receiver) if known else NOT_ANSWERED


@MODELS.attribute(Function, "remote")
def _function(call: Call[Function]) -> Values:
    return singleton(call.receiver) if _REMOTE in call.receiver.decorators else NOT_ANSWERED


@MODELS.callable("ray.init")
def _begun(call: Call) -> Values:
    """The program is the driver: whatever trains is started by it, and it runs once."""
    call.do.launch.start_ranks()
    return singleton(NONE)


@MODELS.callable("ray.get")
def _got(call: Call) -> Values:
    return call.args[0] if call.args else NOT_ANSWERED
