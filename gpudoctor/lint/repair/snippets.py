"""How a careful colleague would write a rank or a device in a program: with its own names, where it has some."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gpudoctor.lint.domain.device import Device
from gpudoctor.lint.domain.rank import Rank, RankKind, RankSource
from gpudoctor.lint.domain.value import Const, Value
from gpudoctor.lint.repair.repair import Always, Code, Either, Holds, Imported, Replace, Source
from gpudoctor.manifest.framework_roles import framework

if TYPE_CHECKING:
    from typing import Literal, Protocol

    from gpudoctor.diagnostic import Location
    from gpudoctor.lint.domain.module import Wrapper
    from gpudoctor.lint.events.event_context import Event
    from gpudoctor.lint.events.process import InitGroup

    OwnWay = Literal[
        "accumulates_by", "device", "first_goes_ahead", "searches_by", "shares_by", "wraps_behind", "wraps_by"
    ]

    class Managed(Protocol):
        """A program as far as it says who is in charge of it."""

        @property
        def managed_by(self) -> frozenset[str]: ...

        @property
        def first_worker(self) -> str: ...

        def before_group(self, event: Event) -> bool: ...

        @property
        def may_run_alone(self) -> bool: ...

        @property
        def launcher(self) -> str: ...

        @property
        def takes_local_rank(self) -> bool: ...

        def is_before_torch(self, *version: int) -> bool: ...


GLOBAL = Rank(RankKind.GLOBAL, RankSource.PROCESS_GROUP)
LOCAL = Rank(RankKind.LOCAL, RankSource.ENVIRONMENT)
FROM_LAUNCHER: Code = ("int(", Imported("os.environ"), '["LOCAL_RANK"])')
"""The local rank, as torchrun hands it over."""


def is_first(groups: Iterable[InitGroup], at: Event, *, spawned: bool) -> Either:
    """A test for the first rank: by the name of the rank, or by asking the group, which need not be there always."""
    own: tuple[Code, ...] = ((Holds(LOCAL), " == 0"),) if spawned else ()
    asked: Code = (Imported("torch.distributed.get_rank"), "() == 0")
    group = next(iter(groups), None)
    # Who asks a group that is made only later ends with an error.
    if group is not None and at.order < group.order:
        # Without a launcher there is one process, the first.
        from_launcher: Code = ("int(", Imported("os.environ"), '.get("RANK", 0)) == 0')
        return Either(((Holds(GLOBAL), " == 0"), *own, *(() if spawned else (from_launcher,))))
    made = (*group.context.calls, group.location) if group is not None else ()
    # A helper may serve a program of one process, too: one that has no group to ask.
    own_file = any(at.location.path == place.path for place in made)
    always: Code = (*map(Always, made), *asked) if own_file else ()
    maybe: Code = ("not ", Imported("torch.distributed.is_initialized"), "() or ", *asked)
    return Either(((Holds(GLOBAL), " == 0"), *own, *([always] if always else []), maybe))


def waits_for_all(program: Managed) -> str:
    """What makes all ranks wait for each other, for a remedy."""
    return "accelerator.wait_for_everyone()" if "accelerate" in program.managed_by else "dist.barrier()"


def local_rank_of(program: Managed) -> str:
    """The rank on its node in the words of who starts the processes, for a remedy."""
    asked = framework(program.launcher).local_rank
    # It hands it over as an option, under this name; and in the variable as well, since it is torchrun inside.
    if program.takes_local_rank and program.is_before_torch(1, 9):
        return "args.local_rank"
    variable = "SLURM_LOCALID" if program.launcher == "slurm" else "LOCAL_RANK"
    return asked or f'int(os.environ["{variable}"])'


def own(program: Managed, word: OwnWay) -> str:
    """What the framework in charge has for that, as the field of `Framework` says; empty where none has its own."""
    return next(filter(None, (getattr(framework(name), word) for name in sorted(program.managed_by))), "")


def asked_first(program: Managed, at: Event) -> str:
    """The test for the first rank in the words of the framework in charge, for a remedy."""
    inside = [framework(name) for name in sorted(program.managed_by)]
    # Workers are ranks of one process group, whatever else the program does with another framework.
    of_workers = any(each.by_workers for each in inside)
    asked = "" if of_workers else next((each.first_rank for each in inside if each.first_rank), "")
    if asked or program.first_worker:
        return asked or program.first_worker
    # `get_rank` raises where there is no process group yet; without a launcher there is one process, the first.
    if program.before_group(at):
        return 'int(os.environ.get("RANK", 0)) == 0'
    return f"{'not dist.is_initialized() or ' if program.may_run_alone else ''}dist.get_rank() == 0"


def local_rank(*, spawned: bool) -> Either:
    """The rank on its node, which is the number of its GPU."""
    # Only a launcher sets the variable.
    return Either(((Holds(LOCAL),), *(() if spawned else (FROM_LAUNCHER,))))


def own_gpu(*, spawned: bool) -> Either:
    """What `set_device` wants for the GPU of a rank."""
    return Either(((Holds(LOCAL),), (Holds(Device("cuda", LOCAL)),), *(() if spawned else (FROM_LAUNCHER,))))


def moved_to(value: Value) -> Either:
    """The end of an expression whose value is to be on a device: `.to(device)`, or `.cuda()` where it has no name."""
    if value.is_cuda and value.index is None:
        return Either(((".to(", Holds(value), ")"), (".cuda()",)))
    return Either(((".to(", device(value), ")"),))


def model_inside(wrapper: Wrapper, at: Location, part: Literal["function", "receiver"]) -> Replace:
    """The model of a wrapper in the place of the wrapper. A name of the bare model is right with and without one."""
    model = Either(((Holds(wrapper.inner),), (Always(wrapper.place), Source(at, part), ".module")))
    return Replace(at, (model,), part=part)


def device(value: Value) -> Either:
    """What `.to(...)` wants for a device: its name, the rank that is its index, or the text for it."""
    choices: list[Code] = [(Holds(value),)]
    if isinstance(value, Device):
        if isinstance(value.index, Rank):
            choices.append((Holds(value.index),))
        elif value.index is None:
            choices.append((f'"{value.type}"',))
        elif isinstance(value.index, Const):
            choices.append((f'"{value.type}:{value.index.value!r}"',))
    return Either(tuple(choices))
