"""The vocabulary of the stubs: what a function does that its signature cannot say, and what values are.

A stub imports these words. A decorator declares what a call does; an annotation what a returned value or an attribute
is. Each word is here because something uses it: the models of `lint/library`, rules, or what watches a run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass
    from typing import TypeAlias
else:

    def dataclass(cls: type) -> type:
        """Nothing but a class: to make more of these few would take longer than to read what all stubs say."""
        return cls


T = TypeVar("T")
Parameter: TypeAlias = str
"""The name of a parameter, or of several: `group | settings`."""


class Effect:
    """What a call does. As a decorator in a stub it leaves the function as it is."""

    if not TYPE_CHECKING:

        def __init__(self, **said: object) -> None:
            self.__dict__.update(said)

        def __eq__(self, other: object) -> bool:
            return type(other) is type(self) and vars(other) == vars(self)

        __hash__ = None

    def __call__(self, declared: T) -> T:
        """The function itself."""
        return declared

    def parameters(self) -> list[str]:
        """The parameters that it speaks of."""
        fields = [name for name, kind in type(self).__annotations__.items() if kind == "Parameter"]
        return [each for name in fields for each in getattr(self, name).split(" | ") if each]


@dataclass
class CollectiveEffect(Effect):
    """All ranks of the group must call it."""

    writes: Parameter = ""
    """The parameter in which the result stands; without one it is returned."""
    sends: Parameter = ""
    """The parameter that is read, where it is not the one that is written."""
    adds_up: bool = False
    """Values of all ranks become one, a sum unless `op` says otherwise."""
    sum_by: Parameter = ""
    """The parameter that says so in its place, of what returns a sum where that is left out."""
    gathers: bool = False
    """Values of all ranks come together, each for itself."""
    differentiable: bool = False
    """Gradients flow through it."""
    passes_gradients: Parameter = ""
    """The parameter that asks for that."""
    drops_padding: bool = False
    """Of what it gathers, samples are left out that were repeated to make the shares of all ranks equal."""
    hands_on: bool = False
    """Values of other ranks come here in place of the own ones."""
    objects: bool = False
    """Takes whatever can be pickled."""
    waits: bool = False
    """Exchanges nothing: it is called to wait for each other."""
    starts: bool = False
    """The first call starts the other processes, where no launcher has done so."""
    uneven: bool = False
    """It may be called by some ranks: it tells who is missing, or exchanges something for sharded models only."""
    of_states: bool = False
    """For models whose state is spread over ranks (ZeRO of any stage, FSDP) it exchanges something nevertheless."""
    of_parameters: bool = False
    """For those whose parameters are spread (ZeRO stage 3, FSDP)."""
    result_on: Parameter = ""
    """The parameter that names the one rank that has the result."""
    asked_by: Parameter = ""
    """The parameter that asks for it: without it nothing is exchanged."""
    only_on: Parameter = ""
    """The parameter that names the one rank that must give `given_there`, which no other may."""
    given_there: Parameter = ""
    needs: Parameter = ""
    """Parameters of which one must be given, as `src | group_src`, though each may be left out."""


@dataclass
class BetweenTwoEffect(Effect):
    """Two ranks are enough: that others do not call it is no mistake."""

    in_background: bool = False
    """It returns a handle before it is done."""


@dataclass
class LayerEffect(Effect):
    """It makes a layer."""

    weights: bool = False
    """It has some of its own: DDP refuses a module none of whose parameters needs a gradient."""
    buffers: bool = False
    """It has running statistics, which DDP broadcasts at each forward: one on rank 0 alone waits."""
    holds: bool = False
    """It holds other layers, and has nothing of its own."""
    modes: bool = False
    """It may compute something else in evaluation mode."""
    recurs: bool = False
    """It may be given again what it has returned."""


@dataclass
class ComputeEffect(Effect):
    """It computes with tensors. What is said of it goes for all functions and methods of this name."""

    each_number: bool = False
    """Each number of the result is made of the one in its place."""
    combines: bool = False
    """Each number of the result is made of those in its place of all that it is given."""
    reshapes: bool = False
    """The numbers stand in another shape or order, perhaps in the memory that they stood in."""
    reorders: bool = False
    """What stood first may stand elsewhere."""
    spreads: bool = False
    """The result has the shape of the tensor, and each number is made of several."""
    may_be_number: bool = False
    """Of one with a dimension it may make a bare number."""
    joins: bool = False
    """It makes one tensor of several."""
    splits: bool = False
    """It makes several of one."""
    fills: bool = False
    """It makes one like another, and takes none of its numbers."""
    reduces: bool = False
    """It makes one number of all, where it is told no dimension."""
    measures: bool = False
    """It says how large numbers are."""
    picks: bool = False
    """It takes as many numbers as the numbers themselves say."""
    answers: bool = False
    """Its result says what holds, and is true or false in each place."""
    without_graph: bool = False
    """Its result has no graph: places and counts."""
    shares: bool = False
    """The result may be the tensor itself, or share its memory."""
    scales: bool = False
    """It multiplies or divides."""
    overwrites: bool = False
    """Other numbers stand in the tensor then."""
    meets: bool = False
    """All tensors must lie on one device. Others take lengths or positions from the CPU."""
    first_alone: bool = False
    """It computes with what comes first. Shapes, lengths and positions beside it may lie anywhere."""
    describes: bool = False
    """It computes nothing, and says something of the tensor."""


@dataclass
class TrainEffect(Effect):
    """Whoever calls it trains, makes what trains, or starts the ranks that do. How, a model in Python says."""

    in_ranks: bool = False
    """It starts them."""


@dataclass
class LaunchEffect(Effect):
    """It starts ranks, and calls a function of the program in each."""

    function: Parameter = ""
    args: Parameter = ""
    """The parameters with the function and its arguments."""
    meet: bool = False
    """They are of one training, and whoever starts them is not."""


@dataclass
class CallEffect(Effect):
    """It calls a function of the program: in a thread, or when something happens."""

    function: Parameter = ""
    args: Parameter = ""
    """The parameter with a tuple of what it is called with."""
    keywords: Parameter = ""
    """The parameter with a dictionary of more."""
    hands_on: bool = False
    """What stands behind the function is handed on to it."""
    brings: int = 0
    """So many arguments are the library's own."""
    here: bool = False
    """It is called at once, and has returned when this does."""
    at_end: bool = False
    """It is called when the program ends, or is told to."""
    at_any_time: bool = False
    """It may interrupt the program anywhere, in this process alone."""


@dataclass
class LoggerEffect(Effect):
    """It opens a log, a run or a dashboard that is meant for one process."""

    mode: Parameter = ""
    """The parameter that may switch it off."""
    shared_by: Parameter = ""
    """Parameters for runs of several processes, as `group | settings`."""
    adds_file: bool = False
    """Each process that opens it writes a file of its own, and what they show is one run."""


@dataclass
class MatterEffect(Effect):
    """Some rule is about it: a function that calls it is executed, whatever file it stands in."""


@dataclass
class MeasureEffect(Effect):
    """It measures all that it is given at once: what it says of the whole is no mean of what it says of parts."""


@dataclass
class ReadFileEffect(Effect):
    """It reads the file that its first parameter names, as a picture or an array, or lists the folder."""


@dataclass
class RunForwardEffect(Effect):
    """The wrapper of Fabric runs it through its own `forward`, as a method that is marked."""


@dataclass
class SaveEffect(Effect):
    """It writes a file: the same one on each rank that comes there."""

    path: Parameter = ""
    """The parameter with the path, or with a file that is open."""
    content: Parameter = ""
    """The parameter with what is written, where that is a checkpoint."""
    checkpoint: bool = False
    """It writes a checkpoint of what it is not given here."""
    opened: bool = False
    """It takes no path, only a file that is open."""
    by_parts: bool = False
    """Each rank writes its part: all of them must call it."""
    waits: bool = False
    """The ranks wait for each other in it; Accelerate's own lets one rank write."""
    joins: bool = False
    """It makes one file of parts that were written before, all of it on the CPU."""
    whole: bool = False
    """No checkpoint, but nobody can read what two processes have written at a time."""
    mode: Parameter = ""
    """The parameter that says by an `a` that it adds to what is there: each rank may add what it has found."""


@dataclass
class FolderEffect(Effect):
    """It makes a folder, or removes it, or a file."""

    path: Parameter = ""
    tolerates: Parameter = ""
    """The parameter that says that it does not matter if somebody was there before."""
    removes: bool = False


@dataclass
class ScheduleEffect(Effect):
    """It makes a scheduler of the optimizer that it is given."""


@dataclass
class SeedEffect(Effect):
    """It seeds the random numbers of the process."""

    of: str = ""
    """Whose: of `torch`, `cuda`, `numpy` or `python`, or of several of them."""
    by: Parameter = ""
    """The parameter with the seed; without one it is drawn."""


@dataclass
class DrawEffect(Effect):
    """It draws random numbers: each process has others, unless all were seeded alike."""

    fills: Parameter = ""
    """The tensor that has the numbers then; without one they are returned."""
    repeats: bool = False
    """It may draw one and the same of what it chooses from more than once."""
    orders: bool = False
    """It draws an order."""


@dataclass
class OpenEffect(Effect):
    """It returns a context manager."""

    keeps_gradients: bool = False
    """In its block, gradients may stay unreduced."""


@dataclass
class ShowEffect(Effect):
    """It shows or records the numbers that it is given."""

    averages: bool = False
    """Behind a loop it shows the mean of what it was given in it."""
    where_made: bool = False
    """The program has returned the number, and acts where it was made."""


@dataclass
class GiveBackEffect(Effect):
    """It returns what it was given, or what does all that this does."""

    given: Parameter = ""
    unwrapped: bool = False
    """Of a module that is in wrappers, what lies under them."""
    wrapped: bool = False
    """Of an optimizer, another one that averages the gradients for its steps."""


@dataclass
class PrepareEffect(Effect):
    """It returns what it is given under the care of a framework: modules wrapped, loaders that deal out their data."""

    by_itself: bool = False
    """The framework does so when it trains; no program asks for it."""


@dataclass
class ConfigureEffect(Effect):
    """It makes what takes charge of a training, and has parameters that make it do things in another way."""

    spreading: Parameter = ""
    """Models are spread over ranks otherwise than by `DistributedDataParallel`."""
    accumulating: Parameter = ""
    """How many batches make a step is said there, too."""


@dataclass
class AskGpuEffect(Effect):
    """It asks the driver of the GPUs, which reads `CUDA_VISIBLE_DEVICES` when that is done for the first time."""

    context: bool = False
    """It makes a context on the GPU, which a forked process cannot use."""


@dataclass
class WaitForGpuEffect(Effect):
    """It waits until the GPU has done all that was asked of it."""


@dataclass
class WrapEffect(Effect):
    """It puts a wrapper around a module, and returns that. Its annotation names the class, where the wrapper is the
    library's own, and what comes with it: `-> tuple[Engine, ModelOptimizer]`."""

    module: Parameter = ""
    data: Parameter = ""
    """The parameter with the data of the `ShardedLoader` that comes with it."""
    topology: Parameter = ""
    """Parameters that place parts of the model on several ranks, which then read the same data: `mpu | mesh_param`."""
    kind: str = ""
    """The `WrapperKind` of those that PyTorch has, too."""
    uncut: str = ""
    """What it is told where each rank is to keep all parameters: `sharding_strategy=NO_SHARD`."""
    fixed: bool = False
    """It broadcasts no buffers, and its buckets stay as they were made."""


@dataclass
class BackpropagateEffect(Effect):
    """It propagates back from a loss, in the way of its library."""

    loss: Parameter = ""


@dataclass
class SkipEffect(Effect):
    """It returns a loader that leaves out the first batches of another, in each pass over it."""

    loader: Parameter = ""


@dataclass
class ClipEffect(Effect):
    """It cuts gradients to a bound, in the way of its library."""

    of: Parameter = ""
    bound: Parameter = ""


@dataclass
class OverwriteEffect(Effect):
    """It writes other numbers into parameters, in the way of `load_state_dict`."""

    of: Parameter = ""


@dataclass
class UnscaleEffect(Effect):
    """It divides gradients by the scale that mixed precision has given the loss."""


@dataclass
class StepEffect(Effect):
    """It counts a batch, and steps the optimizer where enough of them have come."""


@dataclass
class DownloadEffect(Effect):
    """It fetches a file from the network, with no lock."""

    to: Parameter = ""
    """The parameter that says where to; without it the place is another one in each process."""
    opens: bool = False
    """It writes no file, and hands on what is there."""


@dataclass
class FollowEffect(Effect):
    """Its body is followed, and of a class the bodies of its methods. No word is needed at a class that takes charge of
    a training, or that one of the project derives from."""


@dataclass
class GroupEffect(Effect):
    """It makes a process group, for which all ranks must call it, also those outside."""

    returns_all: bool = False
    """It returns the group of this rank, and with it those of the others."""


collective = CollectiveEffect
asks_gpu = AskGpuEffect
backpropagates = BackpropagateEffect
between_two = BetweenTwoEffect
configures = ConfigureEffect
counts_batches = StepEffect
calls = CallEffect
clips = ClipEffect
computes = ComputeEffect
changes_folder = FolderEffect
downloads = DownloadEffect
draws = DrawEffect
followed = FollowEffect
gives_back = GiveBackEffect
layer = LayerEffect
makes_group = GroupEffect
matters = MatterEffect
measures = MeasureEffect
opens = OpenEffect
overwrites = OverwriteEffect
prepares = PrepareEffect
reads_file = ReadFileEffect
runs_forward = RunForwardEffect
saves = SaveEffect
schedules = ScheduleEffect
seeds = SeedEffect
shows = ShowEffect
skips_batches = SkipEffect
starts_logger = LoggerEffect
starts_ranks = LaunchEffect
trains = TrainEffect
unscales = UnscaleEffect
waits_for_gpu = WaitForGpuEffect
wraps = WrapEffect

WORDS: dict[str, type[Effect]] = {
    name: kind for name, kind in [*globals().items()] if name.islower() and issubclass(type(kind), type)
}
"""The decorators."""


def as_taken(function: Callable[..., T], *given: object, **named: object) -> T:
    """For bodies: call a function of the program with as many of these as it takes, the first ones."""
    raise NotImplementedError


def class_in_settings(key: str) -> Any:
    """For bodies: the classes that setting files of the project have as `class_path` under a key, or None."""
    raise NotImplementedError


def said_in_settings(key: str) -> dict[str, Any]:
    """For bodies: what stands under a key of the file that the project's scripts hand the program (`--config`)."""
    raise NotImplementedError


def of_options(made: Callable[..., T]) -> T:
    """For bodies: make an object of a class whose parameters the command line chooses, also those of objects in it."""
    raise NotImplementedError


def surely(test: object) -> bool:
    """For bodies: it holds, and nobody has chosen otherwise. No branch is made of it."""
    raise NotImplementedError


def possibly(test: object) -> bool:
    """For bodies: it is not known that it does not hold. No branch is made of it."""
    raise NotImplementedError


def made_of(value: object, part: object) -> bool:
    """For bodies: it is this, or made of it by operators."""
    raise NotImplementedError


def calls_of(value: object, part: object) -> bool:
    """For bodies: it is a call of this, or made of one by operators."""
    raise NotImplementedError


def tell(owner: object, name: str, *given: object) -> Any:
    """For bodies: call a method where the program has written it, with as many of these as it takes."""
    raise NotImplementedError


def forward_of(wrapper: object, owner: object, name: str, *given: object) -> Any:
    """For bodies: call a method where the program has written it, in the forward of a wrapper around its object, or
    without one where that is None."""
    raise NotImplementedError


def held(owner: object, name: str, otherwise: object) -> Any:
    """For bodies: what the program has written under this name, in the object or its class; otherwise the last."""
    raise NotImplementedError


def written(owner: object, name: str) -> bool:
    """For bodies: the program has written something under this name."""
    raise NotImplementedError


def told_by_name(owner: object, name: str, parameter: str) -> bool:
    """For bodies: the method takes a parameter of this name, or any as `*args`."""
    raise NotImplementedError


def installed_before(library: str, *version: int) -> bool:
    """For bodies: the project is installed with an older version of a library, as its requirements say."""
    raise NotImplementedError


def optimizers_in(made: object) -> list[Any]:
    """For bodies: the optimizers, whatever they are held by."""
    raise NotImplementedError


def own_loss(
    owner: object, name: str, parameter: str, loss: object, model: object, accumulated: object, language_only: bool
) -> None:
    """For bodies: where the program has written the method, and looks at no such parameter of it, the loss is its.
    With `language_only`, no model but those of language counts what the parameter says."""
    raise NotImplementedError


def goes_by(owner: object, settings: object) -> None:
    """For bodies: the first spreads models over the ranks as these settings say."""
    raise NotImplementedError


def optimizes_itself(owner: object) -> None:
    """For bodies: what the program does in this round of the loop, it propagates back and steps itself."""
    raise NotImplementedError


def follows_loop(owner: object, name: str) -> None:
    """For bodies: the loop that calls this method has been followed."""
    raise NotImplementedError


GlobalRank: TypeAlias = int
LocalRank: TypeAlias = int
NodeRank: TypeAlias = int
WorldSize: TypeAlias = int
LocalWorldSize: TypeAlias = int
Nodes: TypeAlias = int
FirstRank: TypeAlias = bool
"""Whether this process is the first one."""
GpuCount: TypeAlias = int
"""How many GPUs this node has: not the world size once there are two nodes."""
IsThere: TypeAlias = bool
"""Whether there is such a file."""
PointInTime: TypeAlias = object
"""Another one in each process: what a clock says, as a text or a date."""
OwnGpu: TypeAlias = object
"""The GPU of this process."""
OwnGenerator: TypeAlias = object
"""A generator of random numbers with a seed of its own."""
Metadata: TypeAlias = object
"""What is known of a tensor without a look at its numbers."""
Setting: TypeAlias = object
"""What the user or a framework has chosen: the same on all ranks."""
ModelOptimizer: TypeAlias = object
"""The optimizer of the model that is wrapped; the library steps it."""
ShardedLoader: TypeAlias = object
"""A loader that gives each rank its share of the data; None where no data are given."""
OptimizerSchedule: TypeAlias = object
"""The scheduler of that optimizer."""
RANKS = ("GlobalRank", "LocalRank", "NodeRank", "WorldSize", "LocalWorldSize", "Nodes", "FirstRank")
BESIDE_WRAPPER = ("ModelOptimizer", "ShardedLoader", "OptimizerSchedule")
KINDS = (
    *(*RANKS, "GpuCount", "IsThere", "PointInTime", "Metadata", "OwnGenerator", "OwnGpu", "Setting", "Literal", "None"),
    *BESIDE_WRAPPER,
)
"""The annotations that say more than a type. `Literal["linux"]` is what it is wherever several GPUs train."""


def kind_of(annotation: str) -> str:
    """Which of these an annotation is; empty for one that says no more than a type."""
    kind = annotation.partition("[")[0]
    return kind if kind in KINDS else ""
