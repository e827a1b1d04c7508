"""The log: what the training program does, in order, each with its place and the way that led there.

Every event knows its `location`, the calls that led to it (`calls`, outermost first), the loops around it (`loops`,
outermost first, across calls) and the condition of its path (`when`).
"""

from __future__ import annotations

from collections.abc import Hashable

from gpudoctor.diagnostic import Location
from gpudoctor.lint.flow.condition import Dependence
from gpudoctor.lint.values.base import Value, Values
from gpudoctor.lint.values.files import ChangeFolder as ChangeFolder
from gpudoctor.lint.values.files import Download as Download
from gpudoctor.lint.values.files import ReadFile as ReadFile
from gpudoctor.lint.values.inside import BatchCut as BatchCut
from gpudoctor.lint.values.inside import ConstantMixed as ConstantMixed
from gpudoctor.lint.values.inside import Crossed as Crossed
from gpudoctor.lint.values.inside import FixedMet as FixedMet
from gpudoctor.lint.values.inside import ForwardTalks as ForwardTalks
from gpudoctor.lint.values.inside import GradientFlag as GradientFlag
from gpudoctor.lint.values.inside import PartAdded as PartAdded
from gpudoctor.lint.values.inside import PartExchanged as PartExchanged
from gpudoctor.lint.values.inside import TensorKept as TensorKept
from gpudoctor.lint.values.inside import UnusedPart as UnusedPart
from gpudoctor.lint.values.inside import WeightsDrawn as WeightsDrawn
from gpudoctor.lint.values.items import ItemOnGpu as ItemOnGpu
from gpudoctor.lint.values.items import ItemRead as ItemRead
from gpudoctor.lint.values.items import Streamed as Streamed
from gpudoctor.lint.values.shown import Averaged as Averaged
from gpudoctor.lint.values.shown import Report as Report
from gpudoctor.lint.values.shown import StartLogger as StartLogger
from gpudoctor.lint.values.steps import Accumulated as Accumulated
from gpudoctor.lint.values.steps import Backward as Backward
from gpudoctor.lint.values.steps import ClearGradients as ClearGradients
from gpudoctor.lint.values.steps import ClipGradients as ClipGradients
from gpudoctor.lint.values.steps import GradientsSwitched as GradientsSwitched
from gpudoctor.lint.values.steps import GradientSync as GradientSync
from gpudoctor.lint.values.steps import MakeOptimizer as MakeOptimizer
from gpudoctor.lint.values.steps import OptimizerStep as OptimizerStep
from gpudoctor.lint.values.steps import Recompute as Recompute
from gpudoctor.lint.values.steps import ScaleGradients as ScaleGradients
from gpudoctor.lint.values.steps import ScalerCall as ScalerCall
from gpudoctor.lint.values.steps import TakeGradient as TakeGradient
from gpudoctor.lint.values.way import Event as Event
from gpudoctor.lint.values.way import Loop as Loop
from gpudoctor.lint.values.way import Way as Way
from gpudoctor.record import dataclass

# --- processes -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class InitGroup(Event):
    """`init_process_group`, or a library call that does it (`by`)."""

    by: str
    backend: Values | None = None
    init_method: Values | None = None
    rank: Values | None = None
    world_size: Values | None = None
    device_id: Values | None = None
    timeout: Values | None = None
    again: bool | None = None
    """A process group was there already: True, False, or None where that is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DestroyGroup(Event):
    """`destroy_process_group`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spawn(Event):
    """`mp.spawn(target, args, nprocs)`. `guarded` where it runs only under the main guard or in a function."""

    target: Values
    args: Values | None
    nprocs: Values | None
    args_node_is_tuple: bool
    guarded: bool
    required: tuple[int, int | None] | None = None
    """How few and how many positional arguments the target takes, None for many; None where it is not known."""
    target_is_local: bool = False
    target_in_notebook: bool = False
    """The target is defined in a cell: only a process that is forked knows it."""
    start_method: Values | None = None
    by: str = "mp.spawn"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetStartMethod(Event):
    """`set_start_method`: how processes are started from here on, workers of loaders among them."""

    method: Values | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextMade(Event):
    """A call that makes a context on a GPU without choosing a device: `torch.cuda.get_device_name()`."""

    call: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Swallowed(Event):
    """A handler that catches errors of all kinds, and after which nothing tells that there was one: it does not raise,
    keeps nothing, and tells no code that was not read. What was tried are the events from `since` up to `until`."""

    since: int
    until: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentRead(Event):
    """A read of an environment variable."""

    name: str
    default: Values | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentWrite(Event):
    """A write of an environment variable."""

    name: str
    value: Values


@dataclass(frozen=True, slots=True, kw_only=True)
class RankTextUsed(Event):
    """The string of a rank variable is used where a number is needed. `use` says how: `compared with 0`."""

    rank: Value
    use: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentDeclared(Event):
    """A command line option. `flags` as written, `name` is its attribute."""

    name: str
    flags: tuple[str, ...]
    default: Values | None = None
    left_out: Value | None = None
    """What it is where the user says nothing of it; None where that is not known."""
    switch: bool = False
    """It takes no value: `action="store_true"`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingRead(Event):
    """A setting of the command line or a configuration is read."""

    name: str


# --- models ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrap(Event):
    """A module is wrapped. `model_device` is where it was at that moment, None where that is not known."""

    wrapper: Value
    inner: Value
    kind: object
    device_ids: Values | None = None
    output_device: Values | None = None
    model_device: Values | None = None
    group_exists: bool | None = None
    """A process group was initialised before: True, False, or None where that is not known."""
    ids: tuple[Values, ...] | None = None
    """The items of `device_ids`, None where they are not known one by one."""
    trainable: bool | None = None
    """Some parameter takes a gradient. False where surely none does, None where that is not known."""
    find_unused: Values | None = None
    """`find_unused_parameters`, as given."""
    static: Values | None = None
    """`static_graph`, as given."""
    certain: bool = True
    """It can be no other module that is wrapped here."""
    opaque: bool = False
    """Arguments were given that could not be followed."""
    keeps_parameters: Values | None = None
    """`use_orig_params`, as given: the parameters of the model stay the objects that they were."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncNorm(Event):
    """The batch norm layers of `module` take their statistics over all ranks from here on: it was made so, or `given`
    was converted to it. The two are one object but for a bare layer."""

    module: Value
    given: Value | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Discard(Event):
    """A bare expression statement whose value is dropped; `call` is the method or callable that made it, and `written`
    what stands before the dot, where something can be assigned to it."""

    value: Value
    call: str
    receiver: Value | None = None
    written: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeMissed(Event):
    """An attribute is read from a wrapper that has none of that name; `inner_has` says whether the model has it."""

    wrapper: Value
    name: str
    inner_has: bool | None
    called: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleClassFlaw(Event):
    """A class of modules is written wrongly. `flaw` is `super-init-missing`, `plain-container` or `layer-dropped`.

    `count` is how many layers a container holds; where one was dropped, 1 if a comma has made a tuple of it."""

    flaw: str
    cls: Value
    attribute: str
    count: int = 0
    keyed: bool = False
    """The container is a dictionary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward(Event):
    """A module or wrapper is called. `identity` names this call in the graphs of tensors.

    `inputs` are the tensors among the arguments. `device` is where the module is, None where that is not known.
    `reached_at` is where a method of the module was called that led here, where the module was not called directly.
    """

    identity: Hashable
    module: Value
    reached_at: Location | None = None
    inputs: tuple[Value, ...] = ()
    device: Values | None = None
    graph: bool = True
    training: bool | None = None
    """In training mode: True, False, or None where that is not known."""
    output: Value | None = None
    buffers: bool | None = None
    """The model has buffers; None where that is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaWrite(Event):
    """A forward under `DataParallel` sets an attribute of the copy of `module` that it runs on, which is then dropped.
    `carried` where the new value is computed from the one that the attribute had."""

    module: Value
    name: str
    carried: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaRead(Event):
    """An attribute that only copies of `module` were given by their forward is read from the model itself."""

    module: Value
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeChange(Event):
    """`model.train()` or `model.eval()`."""

    module: Value
    training: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Move(Event):
    """`x.to(device)`, `x.cuda()`: of a module (in place) or a tensor (a copy). `device` None: unknown."""

    subject: Value
    device: Values | None
    call: str
    dtype: bool = False
    to_dtype: str = ""
    """The type that it surely changes to: `float16`; empty where none is named or known."""
    unpinned_async: bool = False
    """`non_blocking=True`, and the program has not pinned this very tensor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceUsed(Event):
    """A device with an index is chosen. `purpose`: `set_device`, `move`, `device_ids`, `map_location`, `factory`,
    `output_device`, `context`, `process group`."""

    device: Value
    purpose: str
    certain: bool = True
    """It can be no other device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaStarted(Event):
    """The driver is asked for the first time, on this path: which GPUs the process sees is settled from here on."""

    call: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixed(Event):
    """Tensors that lie on different devices meet: in a module, a loss function or an operation (`by`)."""

    by: str
    on_cpu: tuple[Value, ...]
    on_device: tuple[Value, ...]
    module: Value | None = None


# --- data ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Split(Event):
    """A data set is split at random, with `generator` or the one of the process. `seed` is that of the generator."""

    call: str
    generator: Values | None = None
    seed: Values | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeSampler(Event):
    """A sampler is made."""

    sampler: Value
    group_exists: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeLoader(Event):
    """A loader is made."""

    loader: Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Iterate(Event):
    """A loop over the batches of a loader begins. The loop itself is the innermost of `within` where it is a `for`."""

    loader: Value
    loop: Loop | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetEpoch(Event):
    """`set_epoch(epoch)`. `target` is what it was called on."""

    target: Value
    epoch: Values | None


# --- waits, clocks, seeds ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSync(Event):
    """The host waits for the GPU: `.item()`, `.cpu()`, `print(tensor)`, `torch.cuda.synchronize()` (`call`), or a test
    of a tensor (`bool`)."""

    call: str
    subject: Value | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockRead(Event):
    """`time.time()` and its kind."""

    call: str
    identity: Hashable = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Elapsed(Event):
    """The time between two looks at a clock is taken: `until - since`, each the identity of a `ClockRead`."""

    since: Hashable
    until: Hashable


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedSet(Event):
    """A random generator is seeded. `guarded` where a new process does not do it when it imports the program."""

    call: str
    seed: Values | None
    guarded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Augments(Event):
    """A transform is made that changes samples at random: `RandomCrop`."""

    call: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DebugFlag(Event):
    """A debugging aid that slows training is switched on, or off again: `torch.autograd.set_detect_anomaly(True)`.
    `on` is None where the user decides it."""

    flag: str
    on: bool | None = True


# --- collectives -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Collective(Event):
    """A call that all ranks of a group must make. `call` is its name (`all_reduce`, `barrier`).

    `group` None: the default group. `in_place` where the result stands in the argument and the call returns None or
    a handle; `by` names the library.
    """

    call: str
    by: str = "torch.distributed"
    subject: Values | None = None
    group: Values | None = None
    in_place: bool = True
    asynchronous: bool = False
    group_exists: bool | None = None
    arguments: tuple[str, ...] = ()
    returned: Value | None = None
    flaw: str = ""
    """What is wrong with its arguments: `lacks src`, `in wrong order`, `no tensor`, `list on every rank`, `list on no
    rank`."""
    on_cpu: tuple[Value, ...] = ()
    """The tensors among its arguments that surely lie on the CPU."""
    temporary: bool = False
    """It writes into a copy that was made for the call, which nobody else has."""
    members: Dependence = Dependence.NONE
    """How far ranks may disagree about who is in the group that is made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultUsed(Event):
    """The None or the handle that an in-place collective returned is used as if it were the tensor."""

    call: str
    use: str
    collective_at: Location
    asynchronous: bool = False
    target_is_argument: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StartWork(Event):
    """A collective, or a transfer between two ranks, goes on in the background; `work` is its handle."""

    call: str
    work: Value


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkDone(Event):
    """Somebody waits for this work, or (None) for all that was begun before."""

    work: Value | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTooEarly(Event):
    """The numbers of a tensor are used that unfinished `work` may still be writing."""

    work: Value
    subject: Value


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveLoop(Event):
    """`break`, `continue`, `return` or the end of the program (`how`) inside a loop or a function that has loops."""

    how: str
    loop: Loop | None = None


# --- files and logs --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Save(Event):
    """A file is written. `call` is the callable; `collective` where all ranks must call it (a sharded save);
    `checkpoint` where it holds weights."""

    call: str
    path: Values | None
    content: Values | None = None
    collective: bool = False
    checkpoint: bool = True
    states: tuple[tuple[str, Value], ...] = ()
    """The state dicts and modules that are written, each with its entry in a dictionary, or an empty text."""
    on_cpu: bool = False
    """All of it lies on the CPU, where `torch.load` puts it again."""
    whole: bool = False
    """No checkpoint, but written as one: two processes at a time leave a file that nobody can read."""
    spelled: str = ""
    """How the program writes the path: `out / "model.pt"`; an empty text where that is not known."""
    told_who: bool = False
    """It is told which rank is to write, or writes by a function that knows: `save_function=accelerator.save`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardedState(Event):
    """A state is asked for of which each rank holds a part. `gathers` where all ranks must call it, since it brings
    the parts together."""

    call: str
    owner: Value | None
    gathers: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Load(Event):
    """`torch.load` and its kind."""

    call: str
    path: Values | None
    spelled: str = ""
    map_location: Values | None = None
    result: Value | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadState(Event):
    """`load_state_dict(state)`."""

    target: Value
    state: Values | None
    strict: Values | None = None
    loaded: Value | None = None
    """The result of the `Load` that it is, or is an entry of."""
    entry: str | None = None
    """Which entry: `model` for `checkpoint["model"]`, an empty text for the whole, None where it was changed."""


# --- limits of what was understood -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class UseManaged(Event):
    """A framework takes charge: `framework` is its name, `call` what was called, `several` whether that only makes
    sense with several processes, `shares_data` whether it may deal out the data among the ranks."""

    framework: str
    call: str
    several: bool = False
    shares_data: bool = True


SILENT_SAMPLER = "a sampler that tells no epoch"
"""A sampler of the project that keeps another one and never asks for its `set_epoch`: so an `Escape` may be `into`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Escape(Event):
    """Code that could not be read is called (`into`), and given objects that rules ask about, or none."""

    into: str
    values: tuple[Value, ...] = ()
    told_world_size: bool = False
    """It gets the number of processes, as what sets up the process group does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost(Event):
    """Knowledge ended here, and why."""

    why: str
    limit: bool = False
