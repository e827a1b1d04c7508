"""Functions of the project with a backward of their own: `class Gather(torch.autograd.Function)`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from gpudoctor.lint.models.api import MODELS, NOT_ANSWERED, flat, one
from gpudoctor.lint.models.studies import tell_guarded
from gpudoctor.lint.models.tensors import combined
from gpudoctor.lint.values.base import Unknown
from gpudoctor.lint.values.container import ListOf, TupleOf
from gpudoctor.lint.values.function import Class
from gpudoctor.lint.values.tensor import Tensor
from gpudoctor.record import replace

if TYPE_CHECKING:
    from gpudoctor.lint.models.api import Call
    from gpudoctor.lint.values.base import Value, Values

FUNCTIONS = frozenset({"torch.autograd.Function", "torch.autograd.function.Function"})


@MODELS.method(Class, "apply")
def _apply(call: Call) -> Values:
    """`Gather.apply(x)` runs the `forward` of its class without a graph, and is a step in the graph itself."""
    cls = call.receiver
    assert isinstance(cls, Class)
    forward = call.do.find_in_class(cls, "forward")
    if FUNCTIONS.isdisjoint(cls.library_bases) or forward is None:
        return NOT_ANSWERED
    context = one(Unknown(("context", call.identity()), "the context of a function"))
    call.do.contexts.append("no_grad")
    try:
        returned = call.do.call(forward, (context, *call.args), {}, call.node)
    finally:
        call.do.contexts.pop()
    _look_at_backward(call, cls, context)
    given = [value for value in flat(call.do, call.all_values()) if isinstance(value, Tensor)]
    step = combined(call.do, [*given], call.place, call.label, []) if given else None
    return _with_graph(call, returned, step) if isinstance(step, Tensor) else returned


def _look_at_backward(call: Call, cls: Class, context: Values) -> None:
    """What is guarded in its backward is told where the function is used."""
    own = call.do.find_in_class(cls, "backward")
    if own is not None and cls not in call.do.studied:
        call.do.studied.add(cls)
        gradient = one(Unknown(("gradient", cls), "a gradient"))
        tell_guarded(call.do, call.do.rehearse(partial(call.do.call, own, (context, gradient), {}, call.node))[1])


def _with_graph(call: Call, returned: Values, step: Tensor) -> Values:
    """What the forward has returned, in the graph of what it was given."""

    def join(value: Value) -> Value:
        return replace(value, graph=step.graph, forwards=step.forwards) if isinstance(value, Tensor) else value

    only = returned.only
    if isinstance(only, TupleOf):
        return one(TupleOf(tuple(item.mapped(join) for item in only.items)))
    if isinstance(only, ListOf):
        return call.do.new_list([call.do.items_of(returned, call.node).mapped(join)], call.node, exact=False)
    return returned.mapped(join)
