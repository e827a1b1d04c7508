"""Events of processes: groups, what starts them, their environment, options and seeds."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Hashable, Sequence

from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.container import TupleOf
from gpudoctor.lint.domain.function import Parser
from gpudoctor.lint.domain.rank import Numbers, Rank, SettingValues, Size
from gpudoctor.lint.domain.symbols import NodeProduct, Setting
from gpudoctor.lint.domain.value import NONE, Anonymous, Const, Text, Unknown, Value, int_of, single_of, text_of
from gpudoctor.lint.events.event_context import Event, RankAgreement
from gpudoctor.lint.flow.condition import Literal
from gpudoctor.lint.flow.valueset import ValueSet
from gpudoctor.manifest.compiled import error_above
from gpudoctor.record import dataclass

LOCAL_RANK_OPTIONS = frozenset({"--local_rank", "--local-rank"})


@dataclass(frozen=True, kw_only=True)
class InitGroup(Event):
    """`init_process_group`, or a library call that does it (`by`)."""

    by: str
    backend: ValueSet[Const | Text | Unknown] | None = None
    init_method: ValueSet[Const | Text | Unknown] | None = None
    rank: Numbers | None = None
    world_size: Numbers | None = None
    binds_device: bool = False
    """It is told the device of the rank."""
    timed: bool = False
    """It is told how long ranks wait for each other."""
    again: bool | None = None
    """A process group was there already: True, False, or None where that is not known."""

    @property
    def only_backend(self) -> str:
        """The backend that is surely meant; empty where it is not known, or none is named: gloo beside NCCL then."""
        return (text_of(single_of(self.backend)) or "").lower()

    def backend_by(self, left_out: Callable[[Value], Value]) -> str:
        """The same with each option as it is where the user leaves it out."""
        named = single_of(self.backend)
        return (text_of(left_out(named)) or "").lower() if named is not None else ""

    @property
    def is_own(self) -> bool:
        """The program calls `init_process_group` itself."""
        return self.by.endswith("init_process_group")

    @property
    def address(self) -> str:
        """The `init_method` that it surely has; empty where that is not known, or left out."""
        return text_of(single_of(self.init_method)) or ""

    def may_use(self, backend: str) -> bool:
        """This backend may be meant."""
        return self.backend is not None and self.backend.any(lambda value: text_of(value) == backend)

    @property
    def from_environment(self) -> bool:
        """The meeting point is read from the environment, on all paths: `tcp://` and `file://` name it themselves."""
        return meets_by_environment(self.init_method)

    @property
    def told_rank(self) -> Value | None:
        """The one rank that it may be told."""
        return single_of(self.rank)

    @property
    def told_size(self) -> Value | None:
        """The one number of ranks that it may be told."""
        return single_of(self.world_size)

    @property
    def number_of_ranks(self) -> int | None:
        """How many ranks there are, where that is written as a number."""
        return int_of(single_of(self.world_size))

    @property
    def counts_nodes(self) -> bool:
        """It is told the rank as `node * gpus + local_rank`."""
        return self.rank is not None and self.rank.all(lambda told: isinstance(told, Rank) and told.formula is not None)

    @property
    def of_node_alone(self) -> bool:
        """It is told `node * gpus` as the rank, without the number of the process in its node."""
        return self.rank is not None and self.rank.all(lambda told: isinstance(told.term, NodeProduct))


def meets_by_environment(method: ValueSet[Value] | None) -> bool:
    """This `init_method` reads from the environment where the ranks meet."""
    return method is None or method.all(lambda given: given == NONE or text_of(given) == "env://")


@dataclass(frozen=True, kw_only=True)
class DestroyGroup(Event):
    """`destroy_process_group`."""


@dataclass(frozen=True, kw_only=True)
class Spawn(Event):
    """`mp.spawn(target, args, nprocs)`. `guarded` where it runs only under the main guard or in a function."""

    target: str = ""
    """What the program calls what is started."""
    args: TupleOf | None = None
    """What each process hands to it, behind its number, where that is given and known to be a tuple."""
    nprocs: Const | Size | Unknown | None = None
    guarded: bool = True
    arguments: int | None = None
    """How many arguments each process hands to the target, the rank included; None where it is not known."""
    not_unpacked: bool = False
    """`args` is a value that surely cannot be unpacked."""
    required: tuple[int, int | None] | None = None
    """How few and how many positional arguments the target takes, None for many; None where it is not known."""
    rank_called: str = ""
    """What the target calls the argument that is the number of the process; empty where it gets none, or others."""
    target_is_local: bool = False
    target_in_notebook: bool = False
    """The target is defined in a cell: only a process that is forked knows it."""
    start_method: str | None = ""
    """As Python calls them; `remote` where the new process neither is a copy nor imports the program. Empty for the
    default of the platform, and None where it may be several."""
    by: str = "mp.spawn"

    @property
    def number(self) -> int | None:
        """How many processes it starts, where that is written as a number."""
        return int_of(self.nprocs)

    @property
    def imports(self) -> bool:
        """The new process imports the program, as with `spawn`; a forked one is a copy."""
        return self.start_method in ("spawn", "forkserver", "")


@dataclass(frozen=True, kw_only=True)
class SetStartMethod(Event):
    """`set_start_method`: how processes are started from here on, workers of loaders among them."""


@dataclass(frozen=True, kw_only=True)
class ReadOwn(Event):
    """The process asks (`call`) for what another one gets another answer to: the date, a name that nobody else has. The
    answer has the term `OwnReading(identity)`. A random number is `drawn` from the generator of python or numpy, which
    begins alike on all ranks where it is seeded; of a `clock` several often get the same."""

    call: str
    identity: Hashable = None
    drawn: str = ""
    clock: bool = False


@dataclass(frozen=True, kw_only=True)
class Swallowed(Event):
    """A handler that catches errors of all kinds, and after which nothing tells that there was one: it does not raise,
    keeps nothing, and tells no code that was not read. What was tried are the events from `since` up to `until`."""

    since: int
    until: int


@dataclass(frozen=True, kw_only=True)
class Caught(Event):
    """A handler after which the program goes on: it takes the exceptions named in `errors`, Python's own and those of
    stubs, and those below them, from what stands in `tried`."""

    errors: tuple[str, ...]
    tried: Location
    reports: bool = True
    """It takes errors of all kinds, and says that there was one: its author did not expect this one."""

    leaves: bool = False
    """It does not come out behind what it protects: it leaves the round of a loop, or the function."""

    def takes(self, error: str) -> bool:
        """It takes this exception, Python's own or that of a stub."""
        return any(_is_above(each, error) for each in self.errors)

    def tries(self, event: Event) -> bool:
        """An error there comes to this handler, if it takes it."""
        return _leads_into(self.tried, event)

    def does(self, event: Event) -> bool:
        """It happens in the handler itself."""
        return _leads_into(self.location, event)


def _leads_into(block: Location, event: Event) -> bool:
    return any(at.path == block.path and block.line <= at.line <= block.end_line for at in event.led_there)


def exception(name: str) -> type[BaseException] | None:
    """Python's own exception of this name."""
    found = getattr(builtins, name, None)
    return found if isinstance(found, type) and issubclass(found, BaseException) else None


def _is_above(name: str, error: str) -> bool:
    if name == error:
        return True
    above, raised = exception(name), exception(error_above(error) or error)
    return above is not None and raised is not None and issubclass(raised, above)


@dataclass(frozen=True, kw_only=True)
class NameMissing(Event):
    """All ranks read a name or an attribute here, which is bound only where `guard` fails; or they ask an attribute of
    what is None where `guard` holds."""

    name: str
    guard: Literal
    asked: frozenset[Literal]
    """The tests that lead here, and may ask for the rank in other words; of a name those behind what binds it."""
    error: str
    """What Python raises where it is not bound."""
    is_none: bool = False


@dataclass(frozen=True, kw_only=True)
class GroupAsked(Event):
    """Torch is asked for the rank or the size of the default process group, where there is none: a ValueError."""

    call: str


@dataclass(frozen=True, kw_only=True)
class RankAsked(Event):
    """The program itself asks a framework which rank it is, or whether it is the first: what one process need not."""


@dataclass(frozen=True, kw_only=True)
class EnvironmentRead(Event):
    """A read of an environment variable. `of_launcher` where it tells a process its rank or how many there are."""

    name: str
    insists: bool = True
    """It raises an error where the variable is not set."""
    has_default: bool | None = False
    """It says what counts then; False where that is None, and None where it may be."""
    of_launcher: bool = False


@dataclass(frozen=True, kw_only=True)
class EnvironmentWrite(Event):
    """A write of an environment variable."""

    name: str
    value: SettingValues

    @property
    def text(self) -> str | None:
        """What is surely written; None where that is not known."""
        return text_of(self.value.single)

    @property
    def parts(self) -> list[Value]:
        """What is put together to what may be written."""
        return [part for value in self.value for part in value.in_text]

    @property
    def puts_back(self) -> bool:
        """It may be what was read from this variable before."""
        return self.value.any(lambda value: value.term == Anonymous("environment variable", self.name))

    def surely(self, test: Callable[[str], bool]) -> bool:
        """Whichever of several texts is written, it passes this test."""
        return self.value.all(lambda value: (text := text_of(value)) is not None and test(text))


@dataclass(frozen=True, kw_only=True)
class RankTextUsed(Event):
    """The string of a rank variable is used where a number is needed. `use` says how: `compared with 0`."""

    rank: Rank | Size
    use: str


@dataclass(frozen=True, kw_only=True)
class ArgumentDeclared(Event):
    """A command line option. `flags` as written, `name` is its attribute. A number in a settings file has no flags."""

    name: str
    flags: tuple[str, ...]
    default: SettingValues | None = None
    left_out: Const | None = None
    """What it is where the user says nothing of it; None where that is not known."""
    switch: bool = False
    """It takes no value: `action="store_true"`."""
    parser: Parser | None = None
    """Where it is declared to one."""

    @property
    def chosen(self) -> Unknown:
        """What the user says of it: `args.name`."""
        return Unknown(Setting(self.name), "an option", config=True)

    @property
    def is_local_rank(self) -> bool:
        """It is the option by which launchers of old tell the local rank, in either spelling."""
        return not LOCAL_RANK_OPTIONS.isdisjoint(self.flags)

    @property
    def is_accumulation(self) -> bool:
        """It says by its name how many batches make a step: `--grad-accum`."""
        return "accum" in self.name and not self.switch


@dataclass(frozen=True, kw_only=True)
class ArgumentsParsed(Event):
    """`parser.parse_args()` of the command line: an option that is not declared ends the program."""

    parser: Parser


@dataclass(frozen=True, kw_only=True)
class SettingDefault(Event):
    """A setting is read with what it is where it was never made: `getattr(args, "amp", False)`."""

    value: Unknown
    text: str
    """How the source would write it without that."""
    left_out: Const


@dataclass(frozen=True, kw_only=True)
class SettingRead(Event):
    """A setting of the command line or a configuration is read."""

    name: str


@dataclass(frozen=True, kw_only=True)
class SeedSet(Event):
    """Random generators of the process are seeded: those `of` torch, cuda, numpy or python. `guarded` where a new
    process does not do it when it imports the program."""

    call: str
    of: Sequence[str]
    seed: RankAgreement | None
    """None where it is not given."""
    guarded: bool = False
