"""timm beside its models: optimizers, schedulers and scalers that training programs take from it."""

from __future__ import annotations

from gpudoctor.lint.domain.abstract_state import LoaderState
from gpudoctor.lint.domain.arguments import Arguments
from gpudoctor.lint.domain.container import TupleOf
from gpudoctor.lint.domain.data import Loader
from gpudoctor.lint.domain.device import Device
from gpudoctor.lint.domain.function import Library
from gpudoctor.lint.domain.module import Module, Wrapper
from gpudoctor.lint.domain.optim import Optimizer, Parameters, Scheduler
from gpudoctor.lint.domain.rank import Rank, RankKind, RankSource, Size, SizeKind
from gpudoctor.lint.domain.symbols import CallResult
from gpudoctor.lint.domain.value import FALSE, NONE, TRUE, Const, Unknown, Value, Values
from gpudoctor.lint.interface.library_call import MODELS, Call, flatten, singleton
from gpudoctor.lint.library.devices import use
from gpudoctor.lint.library.torch_distributed import begin_group
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


@MODELS.callable("timm.optim.create_optimizer", "timm.optim.create_optimizer_v2")
def _chosen_optimizer(call: Call) -> Values:
    return singleton(_optimizer(call))


def _optimizer(call: Call) -> Optimizer:
    """Wherever the model stands among what it is given."""
    models = [values for values in (*call.args, *call.keywords.values()) if values.has(Module, Wrapper, Parameters)]
    return new_optimizer(replace(call, arguments=Arguments(tuple(models))))


@MODELS.callable("timm.scheduler.*")
def _scheduler(call: Call) -> Values:
    # What else is there tells something of them.
    return singleton(_made(call) if call.name.rpartition(".")[2][:1].isupper() else call.result())


@MODELS.callable("timm.scheduler.create_scheduler", "timm.scheduler.create_scheduler_v2")
def _chosen_scheduler(call: Call) -> Values:
    """`scheduler, epochs = create_scheduler(args, optimizer)`."""
    made = singleton(_made(call))
    epochs = singleton(
        Unknown(CallResult(call.name, call.allocation_site()), "the number of epochs", "num_epochs", config=True)
    )
    return singleton(TupleOf((made, epochs)))


def _made(call: Call) -> Scheduler:
    held = [each for each in call.all_values() if isinstance(each, Optimizer)]
    return Scheduler(call.allocation_site(), call.place, call.label, call.name, held[0] if held else None)


@MODELS.callable("timm.data.create_dataset", "timm.data.dataset_factory.create_dataset")
def _dataset(call: Call) -> Values:
    """Pictures of a folder, or of what else the name says."""
    folder = singleton(Library("torchvision.datasets.ImageFolder"))
    return call.do.call(folder, Arguments((call.arg(1, "root") or singleton(NONE),)), call.node)


@MODELS.callable("timm.data._brought")
def _prefetching(call: Call) -> Values:
    """What a loader yields then lies on the GPU already."""
    given = call.args[0] if call.args else singleton(NONE)
    for loader in given:
        if isinstance(loader, Loader):
            call.do.set_flag(loader, LoaderState.brought)
    return given


@MODELS.callable("timm.utils.init_distributed_device", "timm.utils.distributed.init_distributed_device")
def _init_distributed(call: Call) -> Values:
    """It makes the process group where a launcher has started several processes, and writes down who this one is."""
    do, several = call.do, call.do.several_processes
    local: Value = Rank(RankKind.LOCAL, RankSource.ENVIRONMENT, place=call.place) if several else Const(0)
    rank: Value = Rank(RankKind.GLOBAL, RankSource.PROCESS_GROUP, place=call.place) if several else Const(0)
    size: Value = Size(SizeKind.WORLD, place=call.place) if several else Const(1)
    device = singleton(Device("cuda", local, call.place))
    if several:
        begin_group(call, call.name, backend=singleton(Const("nccl")))
    use(call, device, "set_device")
    found = {"distributed": singleton(TRUE if several else FALSE), "device": device}
    found |= {"rank": singleton(rank), "local_rank": singleton(local), "world_size": singleton(size)}
    for args in call.arg(0, "args") or ():
        for name, values in found.items():
            do.set_own_attribute(args, name, values)
    return device


@MODELS.callable("timm.utils.accuracy", "timm.utils.metrics.accuracy")
def _accuracy(call: Call) -> Values:
    return MODELS.prefixes["torch."](call)
