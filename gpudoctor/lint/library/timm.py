"""timm beside its models: optimizers, schedulers and scalers that training programs take from it."""

from __future__ import annotations

from gpudoctor.lint.domain.abstract_state import LoaderState
from gpudoctor.lint.domain.arguments import Arguments
from gpudoctor.lint.domain.data import Loader
from gpudoctor.lint.domain.module import Module, Wrapper
from gpudoctor.lint.domain.optim import Optimizer, Parameters, Scheduler
from gpudoctor.lint.domain.value import NONE, Values
from gpudoctor.lint.interface.library_call import MODELS, Call, flatten, singleton
from gpudoctor.lint.library.torch_optim import new_optimizer, owners
from gpudoctor.record import replace


@MODELS.callable("timm.optim.*")
def _optim(call: Call) -> Values:
    last = call.name.rpartition(".")[2]
    given = call.arg(0, "base_optimizer") if last == "Lookahead" else None
    if given is not None:
        # It steps the optimizer that it wraps, and hands on all else.
        return given
    if last[:1].isupper():
        return singleton(_optimizer(call))
    modules, complete = owners(
        call.do,
        [each for each in flatten(call.do, call.all_values()) if isinstance(each, (Module, Wrapper, Parameters))],
    )
    # `add_weight_decay(model)` and `param_groups_layer_decay(model)` sort parameters into groups.
    if modules:
        return singleton(Parameters(call.allocation_site(), call.place, call.label, modules, complete))
    return singleton(call.result())


def _optimizer(call: Call) -> Optimizer:
    """Wherever the model stands among what it is given."""
    models = [values for values in (*call.args, *call.keywords.values()) if values.has(Module, Wrapper, Parameters)]
    return new_optimizer(replace(call, arguments=Arguments(tuple(models))))


@MODELS.callable("timm.scheduler.*")
def _scheduler(call: Call) -> Values:
    # What else is there tells something of them.
    if not call.name.rpartition(".")[2][:1].isupper():
        return singleton(call.result())
    held = next((each for each in call.all_values() if isinstance(each, Optimizer)), None)
    return singleton(Scheduler(call.allocation_site(), call.place, call.label, call.name, held))


@MODELS.callable("timm.data._brought")
def _prefetching(call: Call) -> Values:
    """What a loader yields then lies on the GPU already."""
    given = call.args[0] if call.args else singleton(NONE)
    for loader in given:
        if isinstance(loader, Loader):
            call.do.set_flag(loader, LoaderState.brought)
    return given
