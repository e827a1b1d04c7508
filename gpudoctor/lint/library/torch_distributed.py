"""`torch.distributed`: process groups, ranks and collectives."""

from __future__ import annotations

import ast

from gpudoctor.lint.analyses.async_work import WAITING, begin_work, end_work, note_use
from gpudoctor.lint.analyses.collective_signatures import flaw_of, note_pickled, writes_into_copy
from gpudoctor.lint.analyses.collective_taint import mark_result, sharing_memory
from gpudoctor.lint.domain.abstract_state import (
    MAYBE,
    NO,
    PROCESS,
    YES,
    ContainerState,
    ProcessState,
    TensorState,
    WorkState,
)
from gpudoctor.lint.domain.arguments import NO_ARGUMENTS
from gpudoctor.lint.domain.container import ListOf, TupleOf
from gpudoctor.lint.domain.device import Device
from gpudoctor.lint.domain.function import Library, Method, library_name_of
from gpudoctor.lint.domain.group import DefaultGroup, Group, Work, group_of
from gpudoctor.lint.domain.rank import Rank, RankKind, RankSource, Size, SizeKind, as_numbers
from gpudoctor.lint.domain.symbols import CallResult, MethodResult, Setting
from gpudoctor.lint.domain.tensor import Tensor, TensorOrigin, tensors_in
from gpudoctor.lint.domain.value import (
    FALSE,
    NONE,
    TRUE,
    Anonymous,
    Const,
    Text,
    Unknown,
    Value,
    Values,
    divergence_of,
    of_kinds,
    single_of,
)
from gpudoctor.lint.events.collective import Collective, as_exchanged
from gpudoctor.lint.events.process import DestroyGroup, InitGroup
from gpudoctor.lint.flow.condition import MAYBE_BY_RANK, Divergence
from gpudoctor.lint.interface.contents import known_items, new_list
from gpudoctor.lint.interface.hooks import HOOKS, told
from gpudoctor.lint.interface.library_call import (
    MODELS,
    NOT_ANSWERED,
    Call,
    LibraryContext,
    always,
    flatten,
    logs,
    singleton,
)
from gpudoctor.lint.library.devices import devices_of, note_text, use
from gpudoctor.lint.library.tensors import made
from gpudoctor.manifest.compiled import functions
from gpudoctor.manifest.effects import BetweenTwoEffect, CollectiveEffect, GroupEffect

KEEP_THE_GRAPH = ("torch.distributed.nn.", "torch.distributed._functional_collectives.")
"""Collectives below return a new tensor."""


def group_exists(do: LibraryContext) -> bool | None:
    """Whether the default process group exists by now; None where that is not known."""
    # Until somebody initialises it there is none: collectives raise "Default process group has not been initialized".
    # Under `if args.distributed:` only some paths have it.
    return {NO: False, MAYBE: None, YES: True}[do.flag(PROCESS, ProcessState.group)]


def how_to_meet(call: Call, backend: str = "backend") -> dict[str, object]:
    """How the processes of a group find each other, as the call says."""
    texts = {"backend": call.given(backend), "init_method": call.given("init_method")}
    numbers = {"world_size": call.given("world_size"), "rank": call.given("rank")}
    return {
        **{name: of_kinds(given, Const, Text, Unknown) for name, given in texts.items()},
        **{name: as_numbers(given) for name, given in numbers.items()},
    }


def begin_group(call: Call, by: str, **fields: object) -> None:
    """The default process group exists from here on."""
    call.emit(InitGroup, by=by, again=group_exists(call.do), **fields)
    call.do.set_flag(PROCESS, ProcessState.group)


@told(HOOKS.group_lacking)
def _begin_here(do: LibraryContext, node: ast.AST) -> None:
    do.call(singleton(Library("torch.distributed.init_process_group")), NO_ARGUMENTS, node)


def _learn_local_rank(call: Call) -> None:
    """`set_device(cfg.local_rank)` before it: were this one number for all, they would all be on one GPU."""
    chosen = call.do.state(PROCESS, ProcessState.current_gpu)
    device = chosen.single if chosen is not None and call.do.launch.launched_by == "torchrun" else None
    index = device.index if isinstance(device, Device) else device
    # Options of the command line are declared, so whether a launcher passes them is known.
    if isinstance(index, Unknown) and not isinstance(index.term, Setting):
        call.do.launch.assume_rank(singleton(index), RankKind.LOCAL)


@MODELS.callable("torch.distributed.init_process_group")
def _init(call: Call) -> Values:
    # `rank=os.environ["RANK"]` gives text where the rendezvous needs a number.
    note_text(call, call.given("world_size"), "given as `world_size` of the process group")
    note_text(call, call.given("rank"), "given as `rank` in the process group")
    # An option that is passed here is the rank, whatever the program calls it.
    call.do.launch.assume_rank(call.given("rank") or singleton(NONE))
    rank = single_of(call.given("rank"))
    # `[Worker.remote(rank, count) for rank in range(count)]`: each of the numbers is the rank of one.
    if rank is not None and isinstance(rank.term, Anonymous) and rank.term.kind == "counter":
        call.do.launch.assume_counted(rank.term)
    _learn_local_rank(call)
    bound = call.keywords.get("device_id")
    use(call, devices_of(bound, call.place), "process group", call.argument_places.get("device_id"))
    begin_group(
        call,
        call.name,
        **how_to_meet(call),
        # Binds the group to a GPU (torch 2.3), which makes `set_device` less needed.
        binds_device=bound is not None,
        timed=call.given("timeout") is not None,
    )
    return singleton(NONE)


# The fact stays: what comes after the training is seldom distributed again.
MODELS.callable("torch.distributed.destroy_process_group")(logs(DestroyGroup))


@MODELS.callable("torch.distributed.is_initialized")
def _is_initialized(call: Call) -> Values:
    # `if several: init(); model = DDP(model)`, and later: the paths that have the group are those with the wrapper.
    return call.do.execution.flag_by_path(PROCESS, ProcessState.group)


@MODELS.callable(
    "mmcv.runner.get_dist_info", "mmcv.runner.dist_utils.get_dist_info", "mmengine.dist.get_dist_info",
    "mmengine.dist.utils.get_dist_info",
)  # fmt: skip
def _rank_and_size(call: Call) -> Values:
    """Both numbers of the process group, which it asks for first: 0 and 1 where there is none."""
    # Its own libraries make the group out of sight.
    if not (call.do.several_processes and group_exists(call.do)):
        names = ("the rank", "the world size")
        answers = [Unknown(CallResult(call.name, name), name, dependence=Divergence.UNREAD) for name in names]
        return singleton(TupleOf(tuple(map(singleton, answers))))
    rank = Rank(RankKind.GLOBAL, RankSource.PROCESS_GROUP, place=call.place)
    return singleton(TupleOf((singleton(rank), singleton(Size(SizeKind.WORLD, place=call.place)))))


@MODELS.effect(GroupEffect)
def _new_group(call: Call, effect: GroupEffect) -> Values:
    call.emit(
        # A collective itself: also ranks outside the new group must call it.
        Collective, call="new_group", in_place=False, arguments=tuple(call.keywords),
        group_exists=group_exists(call.do), members=divergence_of(_members(call)), makes_group=True,
    )  # fmt: skip
    whole = call.name == "torch.distributed.new_group" and not call.open_ended and call.arg(0, "ranks") is None
    made = singleton(Group(call.allocation_site(), call.place, call.label, whole, _of_one(call)))
    # These give the group of this rank, and all of them.
    return singleton(TupleOf((made, new_list(call.do, [made], call.node, exact=False)))) if effect.returns_all else made


def _members(call: Call) -> list[Value]:
    """Who is in the group; a rank that makes a group for itself alone is left out."""
    ranks = call.arg(0, "ranks")
    if ranks is None or _of_one(call):
        return []
    return flatten(call.do, [*ranks, *call.do.items_of(ranks, call.node)])


def _of_one(call: Call) -> bool:
    items = known_items(call.do, single_of(call.arg(0, "ranks")))
    return items is not None and len(items) == 1


@MODELS.callable(*(name for name in functions("collective") if name.rpartition(".")[0] == "torch.distributed"))
def _collective(call: Call) -> Values:
    name, effect = call.name.rpartition(".")[2], call.effect(CollectiveEffect) or CollectiveEffect()
    target = call.given(effect.writes)
    # Without `async_op=True` the call returns None, not the tensor.
    asynchronous = call.is_true(-1, "async_op")
    subject = next(iter(tensors_in(flatten(call.do, list(target or ())))), None)
    work = Work(call.allocation_site(), call.place, call.label, subject)
    group = group_of(call.given("group"))
    call.emit(
        Collective, call=name, subject=as_exchanged(target), group=group, asynchronous=asynchronous,
        group_exists=group_exists(call.do), arguments=tuple(call.keywords), returned=work, flaw=flaw_of(call, effect),
        on_cpu=() if effect.objects else tuple(each for each in call.sure_values() if _lies_on_cpu(call, each)),
        temporary=writes_into_copy(call, effect.writes), effect=effect, operation=_operation(call),
        sent=as_exchanged(call.given(effect.sends)) if effect.sends else None,
    )  # fmt: skip
    if effect.objects:
        note_pickled(call, call.given(effect.sends or effect.writes), sent=True)
    # In place: the argument holds the result, also where the return value is ignored.
    if target is not None:
        _make_whole(call, target, effect)
        mark_result(call, effect, target)
    if asynchronous:
        begin_work(call, name, work, flatten(call.do, list(target or ())))
    elif isinstance(group, DefaultGroup):
        # Ranks that have met have done what they began before.
        end_work(call, None)
    call.do.set_state(work, WorkState.call, singleton(Const(name)))
    # `async_op=self.overlap`: who waits then has asked whether there is a handle.
    given = call.keywords.get("async_op")
    known = given is None or isinstance(given.single, Const)
    call.do.set_state(
        work, WorkState.asynchronous, singleton(TRUE if asynchronous else FALSE) if known else given or singleton(FALSE)
    )
    return singleton(work)


def _operation(call: Call) -> str:
    given = call.given("op")
    default = "SUM" if given is None and not call.open_ended else ""
    return library_name_of(single_of(given)).rpartition(".")[2] or default


def _lies_on_cpu(call: Call, value: Value) -> bool:
    """It was made on the CPU by the program itself, or brought there."""
    if not isinstance(value, Tensor) or not value.on_cpu:
        return False
    # What a model returns lies where the model is, which may have been moved out of sight.
    return value.origin is TensorOrigin.FACTORY or call.do.flag(value, TensorState.moved_to_host) is not NO


def _make_whole(call: Call, target: Values, effect: CollectiveEffect) -> None:
    """What all ranks wrote together is the same on all of them."""
    # One object, also where rank 0 has put its own into a list of its own: `objects = [config]`.
    label = next((each.label for each in target), "")
    objects = singleton(Unknown(Anonymous("gathered", call.allocation_site()), "an object from all ranks", label))
    for value in target:
        if isinstance(value, Tensor):
            for tensor in sharing_memory(call.do, value):
                call.do.set_flag(tensor, TensorState.reduced)
        elif isinstance(value, ListOf):
            for each in tensors_in(flatten(call.do, [value])):
                call.do.set_flag(each, TensorState.reduced)
            # Object collectives unpickle new objects into the list instead of filling tensors.
            if effect.objects:
                _replace_objects(call, value, objects)
            else:
                call.do.set_state(
                    value, ContainerState.more, singleton(made(call.do, call.place, value.label, TensorOrigin.OTHER))
                )


def _replace_objects(call: Call, value: ListOf, gathered: Values) -> None:
    """What stood in the list before is gone; the same objects lie there on all ranks."""
    items = known_items(call.do, value)
    if items is None:
        call.do.set_state(value, ContainerState.more, gathered)
    else:
        call.do.set_state(value, ContainerState.items, singleton(TupleOf(tuple(gathered for _ in items))))


@MODELS.attribute(Work)
def _work_attribute(call: Call[Work]) -> Values:
    work, name = call.receiver, call.name
    asynchronous = call.do.state(work, WorkState.asynchronous)
    # Only an asynchronous call returns something that has `wait`.
    may_be_handle = asynchronous is not None and asynchronous.single != FALSE
    if may_be_handle and name in WAITING:
        end_work(call, work)
        return singleton(Method(work, name))
    note_use(call.do, work, f"asked for its `.{name}`", call.place)
    return singleton(Method(work, name))


@MODELS.method(Work, "__operate__", "__getitem__")
def _work_operand(call: Call[Work]) -> Values:
    # `loss = dist.all_reduce(loss) / n`: TypeError, None is no number.
    does, made = ("indexed", "item of") if call.name == "__getitem__" else ("used in a calculation", "result of")
    note_use(call.do, call.receiver, does, call.place)
    return call.unknown(Anonymous(made, call.receiver), "made from what a collective returns")


MODELS.method(Work)(always(NONE))


@MODELS.callable(*(name for name in functions("collective") if name.startswith(KEEP_THE_GRAPH)))
@MODELS.callable(*(f"{each}*" for each in KEEP_THE_GRAPH))
def _functional(call: Call) -> Values:
    """Collectives that return their result."""
    name = call.name.rpartition(".")[2]
    if name[:1].isupper():
        # `torch.distributed.nn.RemoteModule` and its kind are classes, which one process may make alone.
        return singleton(call.result(f"a {name}", fresh=True))
    given = flatten(call.do, call.all_values())
    known = any(tensors_in(given))
    # Differentiable collectives return a new tensor and keep the graph.
    result = made(
        call.do, call.place, call.label, TensorOrigin.OUTPUT if known else TensorOrigin.OTHER,
        graph=True if known else None,
        forwards=frozenset().union(*(v.forwards for v in given)),
    )  # fmt: skip
    subject = as_exchanged(call.args[0] if call.args else call.given("tensor"))
    call.emit(
        Collective, call=name, by="torch.distributed.nn", subject=subject, in_place=False,
        returned=result, effect=call.effect(CollectiveEffect) or CollectiveEffect(),
        group=group_of(call.given("group")),
    )  # fmt: skip
    call.do.set_flag(result, TensorState.reduced)
    return singleton(result)


@MODELS.effect(BetweenTwoEffect)
def _point_to_point(call: Call, effect: BetweenTwoEffect) -> Values:
    name = call.name.rpartition(".")[2]
    if not effect.in_background:
        return singleton(call.result("a request", fresh=True))
    work = Work(call.allocation_site(), call.place, call.label)
    begin_work(call, name, work, [])
    call.do.set_state(work, WorkState.call, singleton(Const(name)))
    call.do.set_state(work, WorkState.asynchronous, singleton(TRUE))
    return singleton(work)


@MODELS.method(Unknown, "wait")
def _wait_for_unknown(call: Call) -> Values:
    # Which handle it is was lost: it may be any.
    end_work(call, None)
    return singleton(NONE)


MODELS.name("torch.distributed.group.WORLD", "torch.distributed.GroupMember.WORLD")(always(DefaultGroup()))


@MODELS.callable("torch.distributed.*")
def _other(call: Call) -> Values:
    # A manager that gets a handle waits for it.
    for work in [value for value in call.all_values() if isinstance(value, Work)]:
        end_work(call, work)
    return singleton(call.result())


@MODELS.attribute(Group)
def _group_attribute(call: Call[Group]) -> Values:
    if call.name == "rank":
        return singleton(Method(call.receiver, "rank"))
    return NOT_ANSWERED


MODELS.method(Group, "rank")(lambda call: place_in_group(call, call.receiver))


def place_in_group(call: Call, group: Group) -> Values:
    """The rank within a group that is not the default one."""
    # Each group counts anew: several ranks are the first of theirs, and all are where each has one for itself.
    return call.unknown(MethodResult(group, "rank", ()), "the place of this rank in a group", MAYBE_BY_RANK)
