"""Programs that start their own processes: `mp.spawn`, `Process`, `start_processes`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import chain

from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.abstract_state import NO, PROCESS, ProcessState
from gpudoctor.lint.domain.arguments import NO_ARGUMENTS, Arguments
from gpudoctor.lint.domain.container import TupleOf
from gpudoctor.lint.domain.function import BoundMethod, Function, Instance, Library, Namespace, Partial, function_of
from gpudoctor.lint.domain.group import Cluster
from gpudoctor.lint.domain.rank import Rank, RankKind, RankSource, Size
from gpudoctor.lint.domain.symbols import CallResult
from gpudoctor.lint.domain.value import NONE, Anonymous, Const, Term, Unknown, Value, Values, single_of, text_of
from gpudoctor.lint.events.collective import Collective
from gpudoctor.lint.events.data_loading import MakeLoader
from gpudoctor.lint.events.knowledge import Escape, UseManaged
from gpudoctor.lint.events.model import Wrap
from gpudoctor.lint.events.placement import DeviceUsed, Move
from gpudoctor.lint.events.process import EnvironmentWrite, InitGroup, SetStartMethod, Spawn
from gpudoctor.lint.events.training_step import Backward, MakeOptimizer, OptimizerStep
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.interface.contents import find_method, known_items, pairs
from gpudoctor.lint.interface.hooks import HOOKS, told
from gpudoctor.lint.interface.library_call import MODELS, NOT_ANSWERED, Call, plain_result, singleton
from gpudoctor.lint.library.environment_variables import RANKS, SIZES
from gpudoctor.lint.library.library_names import is_between_processes
from gpudoctor.lint.library.stub_bodies import follow
from gpudoctor.lint.library.stub_models import inherited_method
from gpudoctor.lint.library.unread_code import attributes_of
from gpudoctor.manifest.compiled import classes
from gpudoctor.manifest.effects import LaunchEffect


def _required(target: Value | None) -> tuple[int, int | None] | None:
    """How few and how many positional arguments a function takes."""
    given, names = 0, set[str]()
    if isinstance(target, Partial):
        given, names = len(target.args), {name for name, _ in target.keywords}
        target = target.function
    # `mp.spawn(self.worker)`: `self` is given already.
    given += isinstance(target, BoundMethod)
    function = function_of(target)
    if function is None:
        return None
    signature = function.node.args
    positional = [each.arg for each in (*signature.posonlyargs, *signature.args) if each.arg not in names][given:]
    least = max(0, len(positional) - len(function.defaults))
    return least, None if signature.vararg else len(positional)


@MODELS.callable("torch.multiprocessing.spawn", "torch.multiprocessing.start_processes")
def _spawn(call: Call) -> Values:
    target = call.given("fn")
    args = call.given("args")
    only = single_of(target)
    given = single_of(args)
    rest = known_items(call.do, given)
    nprocs = call.given("nprocs") or singleton(NONE)
    # One process beside its parent is no job of several.
    if nprocs.single == Const(1) and target is not None:
        if not call.do.several_processes:
            call.do.launch.run_spawned(target, Arguments((singleton(Const(0)), *(rest or ()))), call.node)
        return call.unknown(Anonymous("spawned", call.place), "the spawned process")
    call.emit(
        Spawn, target=called(target), args=single_of(args, TupleOf),
        nprocs=single_of(call.given("nprocs"), Const, Size, Unknown), guarded=call.do.launch.under_main_guard,
        required=_required(only),
        arguments=1 if args is None else 1 + len(given.items) if isinstance(given, TupleOf) else None,
        # `args=(config)` is no tuple: the worker fails with "argument after * must be an iterable".
        not_unpacked=args is not None and known_items(call.do, given) is None and args.all(_is_one),
        rank_called=only.node.args.args[0].arg if isinstance(only, Function) and only.node.args.args else "",
        # Spawned workers are pickled by name: "Can't pickle local object".
        target_is_local=isinstance(only, Function) and _is_local(only),
        target_in_notebook=isinstance(only, Function) and only.place.path.endswith(".ipynb"),
        start_method=_method_of(call.given("start_method") or singleton(Const("spawn"))),
    )  # fmt: skip
    call.do.launch.assume_several_processes(nprocs)
    if target is not None:
        # spawn passes the index first: the rank on one node, a local rank on several.
        index = singleton(Rank(RankKind.LOCAL, RankSource.SPAWN_INDEX, place=call.place))
        call.do.launch.run_spawned(target, Arguments((index, *(rest or ()))), call.node)
    return call.unknown(Anonymous("spawned", call.place), "the spawned processes")


def _is_local(function: Function) -> bool:
    """No new process finds it by its name: what `functools.wraps` has named after another one stands in its place."""
    inside = len(function.scopes) > 1 or isinstance(function.node, ast.Lambda)
    return inside and "functools.wraps" not in function.decorators


@MODELS.callable("torch.multiprocessing.Process", "torch.multiprocessing.get_context.Process")
def _process(call: Call) -> Values:
    """`Process(target=f, args=(rank, …))` in a loop or a list over the ranks: what counts them is the rank."""
    target, args = call.keywords.get("target"), call.keywords.get("args")
    named = dict(_by_name(call, call.keywords.get("kwargs")))
    items: tuple[Values, ...] | None = ()
    if args is not None or not named:
        items = known_items(call.do, single_of(args))
    # A single helper process, such as a queue's feeder, is no launch.
    if target is None or items is None:
        return _helper(call)
    arguments = Arguments(items, named)
    given = [value for values in (*items, *named.values()) for value in values]
    if not _starts_rank(call, given, target, arguments, single_of(args, TupleOf)):
        return _helper(call)
    call.do.launch.run_spawned(target, arguments, call.node)
    return _made(call)


_RANKS_WORK = (
    Backward, Collective, DeviceUsed, InitGroup, MakeLoader, MakeOptimizer, Move, OptimizerStep, Spawn, UseManaged,
    Wrap,
)  # fmt: skip


_SHORT_WORK = 60
"""Statements of what prepares a file. A rank's work is longer, or shows what it is before."""


def _takes_part(call: Call, target: Values, arguments: Arguments) -> bool:
    """What is started may do a rank's work: it does not just prepare the data, file by file, for who has started it."""
    with call.do.execution.speculative(_SHORT_WORK) as run:
        call.do.call(target, arguments, call.node)
    return not run.whole or any(isinstance(each, _RANKS_WORK) for each in run.events)


@MODELS.callable("torch.multiprocessing.get_context")
def _context(call: Call) -> Values:
    """It has what the module has, `class Worker(context.Process)` included."""
    return singleton(Library(call.name))


@MODELS.method(Instance, "start")
def _started(call: Call[Instance]) -> Values:
    """`class Worker(Process)`: a process of its own does what its `run` says, a thread does it beside the program."""
    bases = call.receiver.cls.library_bases
    run = find_method(call.do, call.receiver, "run")
    if run is None or not any(base.rpartition(".")[2] in ("Process", "Thread", "SpawnProcess") for base in bases):
        return inherited_method(call)
    if any(base.endswith("Thread") for base in bases):
        call.do.launch.run_beside(run, NO_ARGUMENTS, call.node)
        return singleton(NONE)
    if not _starts_rank(call, [call.receiver], run, NO_ARGUMENTS):
        call.emit(Escape, into="multiprocessing.Process")
    call.do.launch.run_spawned(run, NO_ARGUMENTS, call.node)
    return singleton(NONE)


def _by_name(call: Call, given: Values | None) -> Iterator[tuple[str, Values]]:
    for key, values in pairs(call.do, single_of(given)) or ():
        if isinstance(key.single, Const):
            yield str(key.single.value), values


def _helper(call: Call) -> Values:
    """A process beside the training, as a server: it gets the environment as it is when it is started."""
    call.emit(Escape, into="multiprocessing.Process")
    return _made(call)


def _made(call: Call) -> Values:
    return call.unknown(
        Anonymous("process", call.allocation_site()), "a process", escaped_from="multiprocessing.Process"
    )


def _is_counted(value: Value) -> bool:
    """Another in each round of the loop: its counter, or what was calculated from it."""
    return Divergence.BATCH_INDEX in value.divergence


def _was_counter(value: Value) -> bool:
    """It is known by now to be the rank."""
    return isinstance(value, Rank) and value.source is RankSource.SPAWN_INDEX


def _starts_rank(
    call: Call, given: list[Value], target: Values, arguments: Arguments, args: TupleOf | None = None
) -> bool:
    """One process is started for each of a counter, which it is given: that is its rank from the beginning on."""
    launch = call.do.launch
    # A rank of a job has helpers, as the workers of its loader.
    if call.do.flag(PROCESS, ProcessState.group) is not NO:
        return False
    # In an object as well: `Process(target=f, args=(Settings(rank=rank),))`, `Worker(rank)`.
    kept = (attributes_of(call.do, value) for value in given if isinstance(value, Instance))
    held = [*given, *chain.from_iterable(kept)]
    # `workers = [Worker(rank) for rank in range(n)]`: the loop that starts them goes over what was counted before.
    counter = next(filter(None, (_counted_before(call, each) for each in held)), None)
    # `rank + node * gpus`, or `args.local_rank = rank` before it: all of it follows from what the loop counts.
    in_loop = bool(call.do.execution.open_loops) and (launch.counts_ranks or any(map(_is_counted, held)))
    # What a rank starts by its own number is beside it.
    known = not launch.started_here and any(map(_was_counter, held))
    if not (counter or in_loop or known):
        return False
    # Where it is assumed already, it was looked at before the program began again.
    if not (in_loop and launch.counts_ranks) and not _takes_part(call, target, arguments):
        return False
    # That processes are started is known before it is assumed which: the program begins again for either.
    call.emit(Spawn, target=called(target), args=args, start_method=_start_method(call))
    if counter or in_loop:
        launch.assume_counted(counter)
    return True


def _counted_before(call: Call, value: Value) -> Term | None:
    """What counts it, where that is none of the loops around."""
    match value:
        case Unknown(Anonymous("counter", (loop, _)) as counter):
            rounds = [each.event.identity for each in call.do.execution.open_loops]
            return counter if loop not in rounds else None
    return None


def _start_method(call: Call) -> str | None:
    """How `Process` starts one; empty where that is not known."""
    if call.name.endswith("get_context.Process"):
        return ""
    # Until Python 3.14 it forks on Linux.
    return _method_of(call.do.state(PROCESS, ProcessState.start_method) or singleton(Const("fork")))


def _method_of(given: Values) -> str | None:
    """The method that is asked for; empty for that of the platform, None where it is not known."""
    only = given.single
    return "" if only is not None and only.is_none else text_of(only)


def called(target: Values | None) -> str:
    """What the program calls what is started, for people."""
    only = single_of(target)
    return (function_of(only) or only).label if only is not None else ""


def _is_one(value: Value) -> bool:
    """It cannot be unpacked."""
    # Text can be unpacked, letter by letter; the wrong count then shows it.
    if isinstance(value, Unknown):
        return value.kind in ("int", "float", "bool")
    return isinstance(value, (Namespace, Rank, Size)) or (value.is_constant and not value.is_text)


@MODELS.callable("torch.multiprocessing.set_start_method")
def _set_start_method(call: Call) -> Values:
    call.emit(SetStartMethod)
    call.do.set_state(PROCESS, ProcessState.start_method, call.arg(0, "method") or singleton(NONE))
    return singleton(NONE)


_QUEUES = ("Queue", "SimpleQueue", "JoinableQueue")


@MODELS.callable(*(f"torch.multiprocessing.{made}{each}" for made in ("", "get_context.") for each in _QUEUES))
def _queue(call: Call) -> Values:
    # Each process takes other things out of it.
    return singleton(call.result(fresh=True, divergence=Divergence.LOCAL))


@told(HOOKS.changes_by_itself)
def _is_shared(owner: Value, _name: str) -> bool:
    """`stop.value = True`, of a `Value` of a `Manager`: each process sees what any of them has written."""
    return is_between_processes(owner.escaped_from)


MODELS.callable("torch.multiprocessing.*")(plain_result)


@MODELS.callable("submitit.*")
def _submitit(call: Call) -> Values:
    name = f"submitit.{call.name.rpartition('.')[2]}"
    if name in classes():
        return singleton(Cluster(call.allocation_site(), call.place, call.label, name))
    return singleton(call.result())


@MODELS.method(Cluster, "submit", "map_array")
def _submit(call: Call) -> Values:
    args = call.args[1:]
    if call.name == "map_array":
        args = tuple(call.do.items_of(each, call.node) for each in args)
    if call.args:
        call.do.launch.run_spawned(call.args[0], Arguments(args, call.keywords), call.node)
    return call.unknown(Anonymous("job", call.allocation_site()), "a job of the cluster", escaped_from="submitit.Job")


@MODELS.method(Cluster)
def _other_method(call: Call[Cluster]) -> Values:
    followed = follow(call, call.full_name, call.receiver)
    return followed if followed is not NOT_ANSWERED else singleton(NONE)


@MODELS.callable("accelerate.launchers.notebook_launcher")
def _notebook_launcher(call: Call) -> Values:
    """It forks the processes through torch's elastic launcher, which sets the variables that `torchrun` sets."""
    function, given, count = call.given("function"), call.given("args"), call.given("num_processes")
    items = known_items(call.do, single_of(given))
    result = call.unknown(CallResult(call.name, call.allocation_site()), "what the processes return")
    if function is None:
        return result
    if count is not None and count.single == Const(1):
        return call.do.call(function, Arguments(items or ()), call.node)
    call.emit(
        Spawn, target=called(function), args=single_of(given, TupleOf), start_method="fork", by="notebook_launcher",
        nprocs=single_of(count, Const, Size, Unknown),
    )  # fmt: skip

    def prepare() -> None:
        for name, value in _set_by_launcher(call.place).items():
            call.emit(EnvironmentWrite, name=name, value=singleton(value))
            call.do.set_entry(PROCESS, ProcessState.environment, name, singleton(value))

    call.do.launch.run_spawned(function, Arguments(items or ()), call.node, prepare=prepare)
    return result


def _set_by_launcher(place: Location) -> dict[str, Value]:
    found: dict[str, Value] = {
        name: Rank(*RANKS[name], as_text=True, place=place) for name in ("RANK", "LOCAL_RANK", "GROUP_RANK")
    }
    found |= {name: Size(SIZES[name], as_text=True, place=place) for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE")}
    address = ("MASTER_ADDR", "MASTER_PORT")
    return found | {
        name: Unknown(Anonymous("environment variable", name), "set by the launcher", name, config=True)
        for name in address
    }


@MODELS.effect(LaunchEffect)
def _launch_function(call: Call, effect: LaunchEffect) -> Values:
    function, given = call.given(effect.function), call.given(effect.args)
    items = known_items(call.do, given.single) if given is not None and given.single is not None else ()
    if function is not None:
        if effect.meet:
            call.emit(
                Spawn, target=called(function), args=single_of(given, TupleOf), start_method="remote",
                by=call.full_name,
            )  # fmt: skip
        call.do.launch.run_spawned(function, Arguments(tuple(items or ())), call.node)
    return singleton(call.result("what the processes return", fresh=True))
