"""Functions of the project with a backward of their own: `class Gather(torch.autograd.Function)`."""

from __future__ import annotations

from gpudoctor.lint.analyses.forward_body import replay_for_ranks
from gpudoctor.lint.domain.arguments import Arguments
from gpudoctor.lint.domain.container import ListOf, TupleOf
from gpudoctor.lint.domain.function import Class
from gpudoctor.lint.domain.tensor import Tensor, TensorOrigin
from gpudoctor.lint.domain.value import Anonymous, Unknown, Value, Values
from gpudoctor.lint.interface.contents import find_in_class, new_list
from gpudoctor.lint.interface.library_call import MODELS, NOT_ANSWERED, Call, flatten, singleton
from gpudoctor.lint.library.tensors import combined, made

FUNCTIONS = frozenset({"torch.autograd.Function", "torch.autograd.function.Function"})


@MODELS.method(Class, "apply")
def _apply(call: Call[Class]) -> Values:
    """`Gather.apply(x)` runs the `forward` of its class without a graph, and is a step in the graph itself."""
    cls = call.receiver
    forward = find_in_class(call.do, cls, "forward")
    if FUNCTIONS.isdisjoint(cls.library_bases) or forward is None:
        return NOT_ANSWERED
    context = singleton(Unknown(Anonymous("context", call.allocation_site()), "the context of a function"))
    with call.do.in_contexts("no_grad"):
        returned = call.do.call(forward, call.arguments.behind(context), call.node)
    _look_at_backward(call, cls, context)
    given = [value for value in flatten(call.do, call.all_values()) if isinstance(value, Tensor)]
    step = combined(call.do, [*given], call.place, call.label, []) if given else None
    return _with_graph(call, returned, step) if isinstance(step, Tensor) else returned


def _look_at_backward(call: Call, cls: Class, context: Values) -> None:
    """What is guarded in its backward is told where the function is used."""
    own = find_in_class(call.do, cls, "backward")
    # By node: a class that a function defines is another one in each call, also in those of its own backward.
    if own is not None and cls.node not in call.do.execution.studied:
        call.do.execution.studied[cls.node] = None
        gradient = singleton(_gradient(call, cls))
        with call.do.execution.speculative() as run:
            call.do.call(own, Arguments((context, gradient)), call.node)
        replay_for_ranks(call.do, run.events)


def _gradient(call: Call, cls: Class) -> Value:
    """What its backward is given: of the output of layers no gradient of weights."""
    given = [value for value in flatten(call.do, call.all_values()) if isinstance(value, Tensor)]
    if given and all(each.origin in (TensorOrigin.BATCH, TensorOrigin.OUTPUT) for each in given):
        return made(call.do, call.place, "a gradient", TensorOrigin.OTHER)
    return Unknown(Anonymous("gradient", cls), "a gradient")


def _with_graph(call: Call, returned: Values, step: Tensor) -> Values:
    """What the forward has returned, in the graph of what it was given."""

    def join(value: Value) -> Value:
        return value.if_tensor(graph=step.graph, forwards=step.forwards)

    only = returned.single
    if isinstance(only, TupleOf):
        return singleton(TupleOf(tuple(item.map(join) for item in only.items)))
    if isinstance(only, ListOf):
        return new_list(call.do, [call.do.items_of(returned, call.node).map(join)], call.node, exact=False)
    return returned.map(join)
