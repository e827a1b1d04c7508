"""Programs that start their own processes: `mp.spawn`, `Process`, `start_processes`."""

from __future__ import annotations

import ast

from gpudoctor.lint.models.api import MODELS, Call, one
from gpudoctor.lint.values.base import NONE, Unknown, Value, Values
from gpudoctor.lint.values.event import Spawn
from gpudoctor.lint.values.function import Bound, Function, Partial
from gpudoctor.lint.values.rank import Rank, RankKind, RankSource


def _required(target: Value | None) -> tuple[int, int | None] | None:
    """How few and how many positional arguments a function takes."""
    given, names = 0, set[str]()
    if isinstance(target, Partial):
        given, names = len(target.args), {name for name, _ in target.keywords}
        target = target.function
    # `mp.spawn(self.worker)`: `self` is given already.
    if isinstance(target, Bound):
        given, target = given + 1, target.function
    if not isinstance(target, Function):
        return None
    signature = target.node.args
    positional = [each.arg for each in (*signature.posonlyargs, *signature.args) if each.arg not in names][given:]
    least = max(0, len(positional) - len(target.defaults))
    return least, None if signature.vararg else len(positional)


@MODELS.callable("torch.multiprocessing.spawn", "torch.multiprocessing.start_processes")
def _spawn(call: Call) -> Values:
    target = call.arg(0, "fn")
    args = call.arg(1, "args")
    only = target.only if target is not None else None
    given = args.only if args is not None else None
    call.emit(
        Spawn, target=target or one(NONE), args=args, nprocs=call.arg(2, "nprocs"),
        # `args=(config)` is no tuple: the worker fails with "argument after * must be an iterable".
        args_node_is_tuple=given is None or call.do.known_items(given) is not None,
        guarded=call.do.under_main_guard, required=_required(only),
        # Spawned workers are pickled by name: "Can't pickle local object".
        target_is_local=isinstance(only, Function) and (len(only.scopes) > 1 or isinstance(only.node, ast.Lambda)),
        start_method=call.arg(5, "start_method"),
    )  # fmt: skip
    if target is not None:
        # spawn passes the index first: the rank on one node, a local rank on several.
        index = one(Rank(RankKind.LOCAL, RankSource.SPAWN_INDEX, place=call.place))
        rest = call.do.known_items(given) if given is not None else None
        call.do.run_spawned(target, (index, *(rest or ())), call.node)
    return one(Unknown(("spawned", call.place), "the spawned processes", call.label))


@MODELS.callable("torch.multiprocessing.Process", "torch.multiprocessing.get_context.Process")
def _process(call: Call) -> Values:
    """`Process(target=f, args=(rank, …))` in a loop over the ranks: the counter of the loop is the rank."""
    target, args = call.keywords.get("target"), call.keywords.get("args")
    items = call.do.known_items(args.only) if args is not None and args.only is not None else None
    # A single helper process, such as a queue's feeder, is no launch.
    if target is None or items is None or not call.do.in_loop:
        return one(
            Unknown(("process", call.identity()), "a process", call.label, escaped_from="multiprocessing.Process")
        )
    ranked = tuple(_as_rank(call, values) for values in items)
    # Without a counter among the arguments the processes know no rank.
    if ranked == items:
        return one(
            Unknown(("process", call.identity()), "a process", call.label, escaped_from="multiprocessing.Process")
        )
    call.emit(
        Spawn, target=target, args=args, nprocs=None, args_node_is_tuple=True, guarded=True, required=None,
        target_is_local=False,
    )  # fmt: skip
    call.do.run_spawned(target, ranked, call.node)
    return one(Unknown(("process", call.identity()), "a process", call.label, escaped_from="multiprocessing.Process"))


def _as_rank(call: Call, values: Values) -> Values:
    only = values.only
    # On one machine the counter is the global rank as well.
    if isinstance(only, Unknown) and isinstance(only.key, tuple) and only.key[:1] == ("counter",):
        return one(Rank(RankKind.LOCAL, RankSource.SPAWN_INDEX, place=call.place))
    return values


@MODELS.callable("torch.multiprocessing.*")
def _other(call: Call) -> Values:
    return one(Unknown((call.name, call.args), f"what {call.name} returns", call.label, escaped_from=call.name))
