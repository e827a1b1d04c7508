"""Environment variables: what the launcher sets, what the program writes, and what is open."""

from __future__ import annotations

from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.abstract_state import PROCESS, ProcessState
from gpudoctor.lint.domain.rank import Rank, RankKind, RankSource, Size, SizeKind, as_setting
from gpudoctor.lint.domain.value import (
    FALSE,
    NONE,
    TRUE,
    UNBOUND,
    Anonymous,
    Const,
    Text,
    Unknown,
    Value,
    Values,
    text_of,
)
from gpudoctor.lint.events.process import EnvironmentRead, EnvironmentWrite
from gpudoctor.lint.flow.valueset import union
from gpudoctor.lint.interface.contents import pairs
from gpudoctor.lint.interface.hooks import HOOKS, answers, told
from gpudoctor.lint.interface.library_call import MODELS, Call, LibraryContext, always, singleton
from gpudoctor.lint.source.group_options import variable_in
from gpudoctor.record import dataclass, replace


@dataclass(frozen=True)
class Environ(Value):
    """`os.environ`, or a copy of it: what is written there is for a process that gets it."""

    copied_at: Location | None = None


ENVIRON = Environ()
RANKS = {
    "RANK": (RankKind.GLOBAL, RankSource.ENVIRONMENT),
    "LOCAL_RANK": (RankKind.LOCAL, RankSource.ENVIRONMENT),
    # torchrun numbers the nodes so; with `--nproc-per-node` it is no rank of a process.
    "GROUP_RANK": (RankKind.NODE, RankSource.ENVIRONMENT),
    # `srun` sets these and none of torchrun's: programs for clusters read both.
    "SLURM_PROCID": (RankKind.GLOBAL, RankSource.SLURM),
    "SLURM_LOCALID": (RankKind.LOCAL, RankSource.SLURM),
    "SLURM_NODEID": (RankKind.NODE, RankSource.SLURM),
    # mpirun and horovodrun.
    "OMPI_COMM_WORLD_RANK": (RankKind.GLOBAL, RankSource.MPI),
    "OMPI_COMM_WORLD_LOCAL_RANK": (RankKind.LOCAL, RankSource.MPI),
    "PMI_RANK": (RankKind.GLOBAL, RankSource.MPI),
}
SIZES = {
    "WORLD_SIZE": SizeKind.WORLD,
    "LOCAL_WORLD_SIZE": SizeKind.LOCAL_WORLD,
    "SLURM_NTASKS": SizeKind.WORLD,
    "SLURM_NPROCS": SizeKind.WORLD,
    "SLURM_NTASKS_PER_NODE": SizeKind.LOCAL_WORLD,
    "SLURM_NNODES": SizeKind.NODES,
    "SLURM_JOB_NUM_NODES": SizeKind.NODES,
    "OMPI_COMM_WORLD_SIZE": SizeKind.WORLD,
    "PMI_SIZE": SizeKind.WORLD,
}
_SET_BY_TASKS = {"srun": ("SLURM_", "PMI_"), "mpirun": ("OMPI_", "PMI_")}
_NOTHING = ("=",)
"""With which no variable begins."""
# torchrun passes nothing on the command line: `--local_rank` came only from torch.distributed.launch.
SET_BY_TORCHRUN = frozenset(
    [
        "RANK",
        "LOCAL_RANK",
        "GROUP_RANK",
        "WORLD_SIZE",
        "LOCAL_WORLD_SIZE",
        "MASTER_ADDR",
        "MASTER_PORT",
        "TORCHELASTIC_RUN_ID",
        "TORCHELASTIC_RESTART_COUNT",
        "TORCHELASTIC_MAX_RESTARTS",
        # Set to 1 by torchrun where several processes share a node.
        "OMP_NUM_THREADS",
    ]
)

# Where `srun` has put the tasks. Who asks for them wants to know whether it was `srun` that started the program.
PLACEMENT = frozenset(
    [
        "SLURM_NODELIST",
        "SLURM_JOB_NODELIST",
        "SLURM_STEP_NODELIST",
        "SLURM_TASKS_PER_NODE",
        "SLURM_STEP_TASKS_PER_NODE",
        "SLURM_STEP_NUM_TASKS",
    ]
)


MODELS.name("os.environ")(always(ENVIRON))


def _name(values: Values | None) -> str | None:
    return text_of(values.single) if values is not None else None


def _of(call: Call) -> Environ:
    """Where the call looks: a copy has what its maker wrote there, and else what it was copied from."""
    return call.receiver if isinstance(call.receiver, Environ) else ENVIRON


def _written(do: LibraryContext, where: Environ, name: str) -> Values | None:
    """What the program has set a variable to."""
    own = do.own_attribute(where, name) if where.copied_at is not None else None
    return own if own is not None else do.entry(PROCESS, ProcessState.environment, name)


def _write(call: Call, name: str, value: Values) -> None:
    value_there = value.map(_as_written)
    if _of(call).copied_at is not None:
        call.do.set_own_attribute(_of(call), name, value_there)
        return
    call.emit(EnvironmentWrite, name=name, value=as_setting(value))
    # A program that sets RANK itself, as spawned workers do, reads back what it wrote.
    call.do.set_entry(PROCESS, ProcessState.environment, name, value_there)


def _is_set(do: LibraryContext, name: str, where: Environ = ENVIRON) -> bool | None:
    """Whether a variable is there: by the launcher or by the program; None where that is open."""
    written = _written(do, where, name)
    if written is not None and not written.any(_is_left_alone):
        return True
    # What no launcher ever sets says nothing of how the program is launched.
    if not (name in RANKS or name in SIZES or name in SET_BY_TORCHRUN or name in PLACEMENT):
        return None
    # `mp.spawn` sets none of them, so `"RANK" in os.environ` tells the launchers apart.
    launcher = do.launch.launched_by
    if name in SET_BY_TORCHRUN and launcher == "torchrun":
        return True
    if name.startswith(_SET_BY_TASKS.get(launcher, _NOTHING)) and (name in RANKS or name in SIZES):
        return True
    # `if "SLURM_JOB_ID" in os.environ: os.environ["RANK"] = ...`.
    return False if written is None else None


def _is_left_alone(value: Value) -> bool:
    """The program has written the variable on some path, and not on this one."""
    return value is UNBOUND


def _value(call: Call, name: str, otherwise: Values | None = None) -> Values:
    do, place = call.do, call.place
    written = _written(do, _of(call), name)
    if written is None:
        return _set_outside(do, name, place)
    found = []
    for each in written.bindings:
        value = singleton(replace(each.value, place=place) if isinstance(each.value, (Rank, Size)) else each.value)
        here = otherwise or _set_outside(do, name, place) if _is_left_alone(each.value) else value
        found.append(here.guarded_by(each.condition))
    return union(found)


def _set_outside(do: LibraryContext, name: str, place: Location) -> Values:
    """What the launcher or the user has set."""
    if name in RANKS and do.several_processes:
        kind, source = RANKS[name]
        # Text until `int()` is called: `os.environ["RANK"] == 0` is never true.
        return singleton(Rank(kind, source, as_text=True, place=place))
    if name in SIZES and do.several_processes:
        return singleton(Size(SIZES[name], as_text=True, place=place))
    return singleton(Unknown(Anonymous("environment variable", name), "an environment variable", name, config=True))


def read_variable(do: LibraryContext, name: str, place: Location) -> Values:
    """What a variable says that others than the program read, as settings that name it."""
    return _written(do, ENVIRON, name) or _set_outside(do, name, place)


def as_numbers(values: Values) -> Values:
    """As settings are read, which are numbers where they look like such."""
    return values.map(lambda each: replace(each, as_text=False) if isinstance(each, (Rank, Size)) else each)


@told(HOOKS.written_settings)
def named_in_setting(do: LibraryContext, written: object, place: Location) -> Values | None:
    """What a setting is that names a variable; None for any other."""
    name = variable_in(written)
    return as_numbers(read_variable(do, name, place)) if name else None


def has(do: LibraryContext, key: Value, where: Environ = ENVIRON) -> Value | None:
    """`name in os.environ`."""
    name = text_of(key)
    known = _is_set(do, name, where) if name is not None else None
    # `if "SLURM_PROCID" in os.environ` picks a launcher's branch of `init_distributed_mode`.
    return None if known is None else (TRUE if known else FALSE)


answers(HOOKS.memberships, Environ)(has)


@MODELS.method(Environ, "__getitem__")
def read(call: Call) -> Values:
    """`os.environ[name]`."""
    name = _name(call.arg(0, "key"))
    if name is None:
        return call.unknown(Anonymous("environment variable", call.args), "an environment variable", config=True)
    call.emit(EnvironmentRead, name=name, of_launcher=name in RANKS or name in SIZES)
    return _value(call, name)


@MODELS.method(Environ, "__setitem__")
def write(call: Call) -> Values:
    """`os.environ[name] = value`."""
    name = _name(call.arg(0, "key"))
    if name is not None:
        # `setdefault("RANK")` without a value raises; what follows is not ours to judge.
        _write(call, name, call.arg(1, "value") or singleton(NONE))
    return singleton(NONE)


def _as_written(value: Value) -> Value:
    """`str(rank)` is what the launcher would have written there."""
    number = value.parts[0] if isinstance(value, Text) and len(value.parts) == 1 else None
    return replace(number, as_text=True) if isinstance(number, (Rank, Size)) else value


@MODELS.callable("os.getenv")
@MODELS.method(Environ, "get", "pop")
def get(call: Call) -> Values:
    """`os.environ.get(name, default)`."""
    name = _name(call.arg(0, "key"))
    default = call.arg(1, "default") or singleton(NONE)
    if name is None:
        return call.unknown(Anonymous("environment variable", call.args), "an environment variable", config=True)
    stands = not default.any(lambda value: value == NONE)
    call.emit(
        EnvironmentRead, name=name, insists=False, has_default=stands or (False if default.single == NONE else None),
        of_launcher=name in RANKS or name in SIZES,
    )  # fmt: skip
    known = _is_set(call.do, name, _of(call))
    # `int(os.environ.get("LOCAL_RANK", -1))`: without a launcher the default is what counts.
    if known is False:
        return default
    return _value(call, name, default if known is None else None)


@MODELS.method(Environ, "setdefault")
def _setdefault(call: Call) -> Values:
    name = _name(call.arg(0, "key"))
    # `setdefault("MASTER_ADDR", "localhost")` under torchrun changes nothing.
    if name is None or _is_set(call.do, name, _of(call)):
        return read(call) if name is not None else singleton(NONE)
    return write(call)


@MODELS.method(Environ, "update")
def _update(call: Call) -> Values:
    given = call.first
    entries = [(key, value) for key, value in pairs(call.do, given) or ()]
    for key, value in entries + [(singleton(Const(name)), value) for name, value in call.keywords.items()]:
        name = _name(key)
        if name is not None:
            _write(call, name, value)
    return singleton(NONE)


@MODELS.method(Environ, "__contains__")
def _contains(call: Call) -> Values:
    only = call.first
    answer = has(call.do, only, _of(call)) if only is not None else None
    return singleton(answer or Unknown(Anonymous("environment has", only), "an environment variable", config=True))


MODELS.method(Environ, "copy")(lambda call: singleton(Environ(call.place)))


MODELS.method(Environ, "keys", "items", "values")(lambda call: singleton(_of(call)))
