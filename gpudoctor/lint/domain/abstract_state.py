"""What the engine knows of objects beyond their values: one record for each kind of object, one cell for each fact.

A value is immutable and says what an object was made as. What becomes of it later (where a module is now, what a list
holds) stands in the store, in the cells below, apart from the attributes that the program sets: a model may have an
attribute `device`, and is on a device all the same. There are five kinds of cells, which differ in their join, that is
in what they hold after a branch that one side of has written and the other has not:

`Flag`
    Something that is so or not. Before anybody writes it the answer is NO. Sides that disagree join to MAYBE, and on a
    path on which one of the tests between them is decided, the answer is definite again.
`ValueCell`
    A value set. It is None where nobody has written it on the way here. After a branch it holds what either side wrote,
    each under its condition, and UNBOUND for a side that wrote nothing.
`CollectingCell`
    A value set to which more and more is added. A side that wrote nothing adds nothing: UNBOUND is left out.
`PathsCell`
    A `ValueCell` of tuples, one for each path. Of too many, two are kept: what stands in all, and what in any.
`ValueTable`
    Value sets under names. Each name joins as a `ValueCell` does.

`LibraryContext.state`, `flag` and `entry` read them, `set_state`, `set_flag` and `set_entry` write. The type in
brackets is that of the objects that have the cell.
"""

from __future__ import annotations

import enum
from typing import Generic, TypeVar

from gpudoctor.lint.domain.container import DictOf, ListOf
from gpudoctor.lint.domain.data import Dataset, Loader, RandomGenerator, Sampler
from gpudoctor.lint.domain.function import Class, Commands, Instance, Namespace, Parser
from gpudoctor.lint.domain.group import ManagedObject, Work
from gpudoctor.lint.domain.module import Module, StateDict, Wrapper
from gpudoctor.lint.domain.optim import Optimizer
from gpudoctor.lint.domain.tensor import Tensor
from gpudoctor.lint.domain.value import FALSE, TRUE, UNBOUND, Allocated, Unknown, Value, Values
from gpudoctor.lint.flow.condition import Condition
from gpudoctor.lint.flow.valueset import ValueSet
from gpudoctor.record import dataclass

Owner = TypeVar("Owner", bound=Value, contravariant=True)


class Ternary(enum.Enum):
    """What is known of a fact on the current path."""

    NO = "no"
    MAYBE = "maybe"
    YES = "yes"


NO, MAYBE, YES = Ternary.NO, Ternary.MAYBE, Ternary.YES


class Flag(Generic[Owner]):
    """A cell that is YES or NO, and MAYBE where paths meet that differ in it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return _name_of(self)


class ValueCell(Generic[Owner]):
    """A cell that holds values."""

    __slots__ = ()
    collects = False
    """A path that wrote nothing adds nothing to what others wrote."""

    def __repr__(self) -> str:
        return _name_of(self)


class CollectingCell(ValueCell[Owner]):
    """A cell that adds up what is written to it."""

    __slots__ = ()
    collects = True


class PathsCell(ValueCell[Owner]):
    """A cell that holds a tuple for each path."""

    __slots__ = ()
    step = 1
    """So many items of the tuple belong together, the first of which tells them from the others."""


class PairsCell(PathsCell[Owner]):
    """A cell that holds a tuple of keys and values in turn for each path."""

    __slots__ = ()
    step = 2


class ValueTable(Generic[Owner]):
    """Cells that hold values, one for each name that the program uses."""

    __slots__ = ()

    def __repr__(self) -> str:
        return _name_of(self)


def _name_of(cell: object) -> str:
    """The record and the attribute that it stands in. Found when it is shown: at each start there is no time for it."""
    records = [each for name, each in globals().items() if name.endswith("State")]
    names = (f"{record.__name__}.{name}" for record in records for name, own in vars(record).items() if own is cell)
    return next(names, object.__repr__(cell))


def known_of(values: Values, path: Condition) -> Ternary:
    """The answer of a flag on a path, by what the store holds for it."""
    found = values.restrict(path)
    if found.all(lambda value: value is TRUE):
        return YES
    return NO if found.all(lambda value: value is FALSE or value is UNBOUND) or not found.bindings else MAYBE


def written_of(values: Values, path: Condition, collects: bool) -> Values | None:
    """What a cell holds on a path, by what the store holds for it; None where nothing was written on this path."""
    values = values.restrict(path)
    bindings = values.bindings
    if len(bindings) == 1:
        return None if bindings[0].value is UNBOUND else values
    if not collects:
        return values
    kept = [binding for binding in bindings if binding.value is not UNBOUND]
    return ValueSet(kept) if kept else None


class ModuleState:
    """A module, or what lies under the wrappers of a model where that was not seen to be one: where a cell is for the
    latter too, its owner is any value."""

    device: ValueCell[Value] = ValueCell()
    """Where it is now, parts that were moved on their own apart. Written by who makes, moves or wraps modules; read by
    `torch_nn.device_of`, which asks the parts as well."""
    initialised: Flag[Value] = Flag()
    """`nn.Module.__init__` has run. Written by `torch_nn.initialise`, read where parts are assigned."""
    constructed: Flag[Module] = Flag()
    """Its own constructor has run to its end. Written by `torch_nn`; read to tell what is set later on, or missed."""
    children: ValueCell[Value] = PathsCell()
    """A tuple of the modules that it has taken in, one tuple for each path. Written by `torch_nn.adopt`."""
    unseen_part: Flag[Value] = Flag()
    """It was given something that may be a module and was not read. Written by `torch_nn.take_in`."""
    own_parameters: Flag[Module] = Flag()
    """It has parameters apart from its parts. Written by `torch_nn` where one is assigned or registered."""
    learnt: ValueCell[Module] = ValueCell()
    """A tuple of the parameters that were assigned to it, and may take a gradient. Written and read by `torch_nn`."""
    data_exchanged: Flag[Value] = Flag()
    """The data of its parameters were replaced, by other shapes perhaps. Written by `freezing`, read by `sharding`."""
    own_buffers: Flag[Module] = Flag()
    """It has buffers apart from its parts. Written by `torch_nn` and `after_wrap`."""
    plain_containers: ValueCell[Module] = ValueCell()
    """Pairs of a name and the plain list or dictionary that was assigned to it; judged when it is constructed."""
    inner_modules_asked: Flag[Value] = Flag()
    """`modules()`, `children()` or the like has handed out its parts: they may be used, or kept, on another way.
    Written by `torch_nn`; read there and by `forward_body`, which looks for parts that no forward uses."""
    sharded: Flag[Value] = Flag()
    """FSDP has cut its parameters into shards. Written by `wrapping`; read by `device_of` and `checkpoint_files`."""
    holds_units: Flag[Value] = Flag()
    """FSDP has wrapped parts of it by a policy, which bring their parameters together by themselves. Written by
    `wrapping`, read by `state_dicts`."""
    holds_shards: Flag[Value] = Flag()
    """It was sharded in place, so that what it hands out are `DTensor`s. Written by `fully_sharded`, read by
    `sharding`."""
    refuses_methods: Flag[Value] = Flag()
    """Its wrapper refuses methods that run a part of it, unless it was told of them. Written by `frameworks`, read by
    `sharding`."""
    emptied: Flag[Value] = Flag()
    """ZeRO's third stage keeps its parameters elsewhere, and empty tensors in their place. Written by `frameworks`,
    read by `sharding`."""
    gathers: Flag[Value] = Flag()
    """A framework brings its parameters together from all ranks for each forward. Written by `frameworks`, read by
    `forward_calls`."""
    generates_apart: Flag[Value] = Flag()
    """So does an engine that Transformers knows nothing of: its `generate` ends where the texts of this rank do.
    Written by `frameworks`, read by `forward_calls`."""
    shards_on_cpu: Flag[Value] = Flag()
    """The mesh of these shards is one of CPUs, else they are on GPUs wherever the module was."""
    parts_sharded: Flag[Value] = Flag()
    """`fully_shard` was given parts of it that are not known one by one. Written by `wrapping`, read by `sharding`."""
    frozen: Flag[Value] = Flag()
    """All of its parameters were told to take no gradient. Written and read by `freezing`; only YES counts there."""
    taken_apart: Flag[Value] = Flag()
    """Frozen, it handed out parts that are not followed: some of them may learn again. Written by `freezing`."""
    restored: Flag[Value] = Flag()
    """A state was loaded into it. Written by `torch_nn`; read by `after_wrap` where a part is exchanged."""
    recomputes_nothing: Flag[Module] = Flag()
    """Its forward was followed once and ran nothing again. Written and read by `activation_checkpoint`."""
    reduction: ValueCell[Module] = ValueCell()
    """The argument `reduction` of a loss. Written by `torch_nn`, read by `forward_calls`."""


class WrapperState:
    """A wrapper around a module."""

    finds_unused: Flag[Wrapper] = Flag()
    """DDP looks for parameters that got no gradient. Written by `wrapping`, read by `activation_checkpoint`."""
    static_graph: Flag[Wrapper] = Flag()
    """It was told that the graph never changes. Written and read by `activation_checkpoint`."""
    prepared: Flag[Wrapper] = Flag()
    """A framework made it of a model: handed in again, it stays what it is. Written and read by `frameworks`."""


class TensorState:
    """A tensor, and what belongs to one."""

    reduced: Flag[Tensor] = Flag()
    """A collective has made it the same on all ranks. Written by the collectives; read by `tensors.is_reduced`, for
    which a path is enough."""
    marks: ValueCell[Tensor] = ValueCell()
    """What the last collective left in it, NONE for nothing. Written and read by `collective_taint`."""
    memory: ValueCell[Tensor] = ValueCell()
    """The tensor that it shares its memory with. Written by `collective_taint.note_view`."""
    scaled: Flag[Tensor] = Flag()
    """It was multiplied or divided in place: no mean of a batch any more. Written by `collective_taint`."""
    scaled_in_place: ValueCell[Tensor] = ValueCell()
    """What it would be after that operation, were it another tensor. Written and read by `tensors`, at `backward`."""
    scaled_by: ValueCell[Tensor] = ValueCell()
    """The gradient scaler that has scaled it. Written by `torch_optim`, read by `tensors` at `backward`."""
    differentiated: Flag[Tensor] = Flag()
    """It went backward, so it surely had a graph. Written by `tensors` and `timm`."""
    pinned: Flag[Tensor] = Flag()
    """It lies in pinned memory. Written and read by `tensors`."""
    moved_to_host: Flag[Tensor] = Flag()
    """The program has brought it to the CPU itself. Written by `tensors`, read by `torch_distributed`."""
    drawn_elsewhere: Flag[Tensor] = Flag()
    """Its numbers are of another generator than torch's. Written by `torch_core`, read by `picked_samples`."""
    pending: ValueCell[Tensor] = ValueCell()
    """The handle of a collective that may still write it, NONE once that was reported. Written by `async_work`."""
    written_items: ValueCell[Tensor | Unknown | StateDict] = CollectingCell()
    """What was put into it item by item, whose share of the data is its own. By `tensor_operations` and `state_dicts`,
    for `tensors`."""
    names_entries_of: ValueCell[Tensor] = ValueCell()
    """It came out of going over this: what stands for a batch or for an output may be a dictionary. Written and read
    by `tensor_operations`."""
    rewritten: Flag[Tensor | Unknown | StateDict] = Flag()
    """Entries of a batch or of a state were replaced. Written by `tensor_operations`, `state_dicts` and
    `checkpoint_files`."""
    gradient_chosen: Flag[Tensor] = Flag()
    """A parameter that was told whether it takes a gradient. Written by `freezing`, read by `torch_nn`."""
    whole_sum: Flag[Tensor] = Flag()
    """It is the sum of all numbers of a tensor. Written by `tensors`, and read by `loss_scale`."""
    sum_of_means: Flag[Tensor] = Flag()
    """It is the sum of the means of several batches. Written and read by `loss_scale`."""
    summands: ValueCell[Tensor] = ValueCell()
    """Of how many losses it is the sum. Written and read by `loss_scale`."""
    returned_means: ValueCell[Tensor | Class] = ValueCell()
    """At which places of what a class of models returns there are means, or -1: all of it is one. Written by
    `loss_scale` for the class, and then for each output."""
    returned_graphs: ValueCell[Class | Tensor] = ValueCell()
    """The same of what surely has a graph. Written and read by `loss_scale`."""
    returned_on_cpu: ValueCell[Class | Tensor] = ValueCell()
    """The same of what the forward makes on the CPU, wherever the model is. Written and read by `loss_scale`."""
    returned_constants: ValueCell[Class | Tensor] = ValueCell()
    """The tensors that the forward makes on its own, of which one lies on the CPU or on one GPU, with their places.
    Written and read by `loss_scale`."""
    returned_gathered: ValueCell[Class | Tensor] = ValueCell()
    """What gathering in a forward has left in what it returns, or in those parts that are means. Written and read by
    `loss_scale`."""
    numbers_of_each_gpu: ValueCell[Tensor] = ValueCell()
    """The keys of those parts of an output of `DataParallel` that were single numbers on each GPU. Written and read by
    `data_parallel_replicas`."""
    made_by_unread_code: Flag[Tensor] = Flag()
    """It may as well be an object that holds tensors, with an in-place `to` of its own. Written by `unread_code`."""


class LoaderState:
    """A loader."""

    collate_followed: Flag[Loader] = Flag()
    """The function that makes its batches was looked at, which is done once. Written by `batch_items`."""
    made_on_cpu: Flag[Loader] = Flag()
    """That function makes all tensors on the CPU. Written by `batch_items`, read by `tensors`."""
    joined_in_place: Flag[Loader] = Flag()
    """That function leaves the items on the device where they are. Written by `batch_items`, read by `tensors`."""
    without_tensors: ValueCell[Loader] = ValueCell()
    """The positions of its batches at which that function leaves numbers and texts. Written by `batch_items`, read by
    `tensors`."""
    brought: Flag[Loader] = Flag()
    """A framework moves its batches to the GPU of the process. Written by `frameworks`, read by `tensors`."""


class DatasetState:
    """A data set, or a sampler that gives out the indices of one."""

    followed: Flag[Dataset | Sampler] = Flag()
    """How it makes its items was looked at, which is done once. Written by `batch_items`."""
    picks_given: Flag[Dataset | Sampler] = Flag()
    """Its constructor picks some of what it was given. Written and read by `iterable_datasets`."""
    too_deep: Flag[Dataset] = Flag()
    """What makes an item was not followed to its end. Written and read by `batch_items`."""
    moves_items: Flag[Dataset] = Flag()
    """Its items may lie elsewhere than on the CPU. Written by `batch_items` and `torch_data`, read by `tensors`."""
    made_up: Flag[Dataset | Instance] = Flag()
    """It holds random numbers that the program has drawn itself. Written and read by `torch_data`."""
    inner_samplers: ValueCell[Sampler] = ValueCell()
    """The samplers that a sampler of the project keeps, and tells no epoch. Written and read by `torch_data`."""


class OptimizerState:
    """An optimizer."""

    groups: ValueCell[Optimizer] = ValueCell()
    """The list that `param_groups` is, made when it is first asked for. Written and read by `torch_optim`."""


class GeneratorState:
    """A generator of random numbers."""

    seed: ValueCell[RandomGenerator] = ValueCell()
    """The seed that it was given. Written and read by `random_state`."""


class ContainerState:
    """A list, a set or a dictionary."""

    items: ValueCell[ListOf] = PathsCell()
    """A tuple of the items that are known one by one, one tuple for each path. Written by `contents`."""
    entries: ValueCell[DictOf | Tensor] = PairsCell()
    """A tuple of keys and values in turn, one tuple for each path. Written by `contents`."""
    more: ValueCell[ListOf | DictOf] = CollectingCell()
    """What further items may be, whose number or keys are not known; None where there are none. Written by `contents`
    and the collectives, read by all who ask what is inside."""
    grown: Flag[ListOf] = Flag()
    """It came to have its items in the rounds of a loop, which are followed twice: nobody knows how many there are.
    Written by `contents`, read where a length is asked for."""
    by_rank: Flag[ListOf | DictOf] = Flag()
    """Each rank puts other items into it. Written by `contents`, read by `torch_data`."""
    made_by_some_ranks: Flag[ListOf] = Flag()
    """It was made on a path that only some ranks take: that those fill it differently is no share. By `contents`."""
    unordered: Flag[ListOf] = Flag()
    """A set: its order differs from process to process. Written by `builtin_containers`, read by `loops`."""
    factory: ValueCell[DictOf] = ValueCell()
    """What a `defaultdict` calls for a key that is not there. Written by `builtin_containers`."""
    repeated: Flag[ListOf] = Flag()
    """`[x] * n`: it was made with the same object in several places. Written by `items`, read by
    `collective_signatures`."""


class ObjectState:
    """An object of a class of the project, and its class."""

    as_made: ValueCell[Allocated] = ValueCell()
    """It as the constructor of its library base has left it: the value to go on with. Written by `torch_data` and
    `torch_optim`, read by `calls`."""
    opened: Flag[Class | Instance | Namespace | Parser | Module] = Flag()
    """It may have attributes that nobody was seen to set: unread code has got it, or one was set under a name that is
    not known. Of parsers and namespaces too, and of copies. Written by `missing_attributes`, `argument_parsers`,
    `stdlib` and `torch_nn`."""
    begun: Flag[Instance] = Flag()
    """Its `__iter__` was called and has returned it: its `__next__` gives the items. Used by `contents` and
    `interp.library`."""
    of_settings: Flag[Allocated] = Flag()
    """A dictionary of the project's own class, made of nothing but what the user chose, or a section of a settings
    file. Written by `calls` and `written_settings`."""


class ClassState:
    """A class of the project."""

    subclasses: ValueCell[Class] = ValueCell()
    """A tuple of the classes that name it as a base. Written by `metaclasses`, read by `reflection`."""
    makes: ValueCell[Class] = ValueCell()
    """Of a metaclass: the class that its `__new__` is called for. Written by `metaclasses`, read by `reflection`."""
    fills: ValueCell[Class] = ValueCell()
    """Of a class of models: a tuple of the names under which its `forward` puts what it computes into what it is given.
    Written by `forward_body`, read by `forward_calls`."""
    first_actor: ValueCell[Class] = ValueCell()
    """Of a class of Ray's actors: the object that the first round of a loop has made. Used by `ray_actors`."""
    actors_are_ranks: Flag[Class] = Flag()
    """Each of its objects is told a rank of its own. Used by `ray_actors`."""


class SettingState:
    """What the user chooses at the start: parsers, what they return, and the settings in it."""

    option_names: ValueCell[Namespace | Parser] = ValueCell()
    """A tuple of the names of all options that were declared. Written by `argument_parsers` for the parser, then for
    each namespace that it returns."""
    declared: ValueTable[Namespace | Parser] = ValueTable()
    """What an option is where the launcher or the environment decides it. Written by the parsers' models."""
    kinds: ValueTable[Namespace | Parser] = ValueTable()
    """The type that an option surely has, as text; empty where it is not known. By `argument_parsers`."""
    choices: ValueTable[Namespace | Parser] = ValueTable()
    """A tuple of all that an option can be, empty where that is not known. By `argument_parsers`."""
    has_ranks: Flag[Namespace] = Flag()
    """Code that was not read, and may make the process group, has got it: it may have written ranks over its numbers.
    By `unread_code`, for `argument_parsers`."""
    commands: ValueTable[Parser] = ValueTable()
    """The functions that subparsers put under this name, one for each command. By `argument_parsers`."""
    can_be: ValueCell[Unknown] = ValueCell()
    """Of a setting that was read: the tuple of its choices. Written by `attributes`, read by `builtin`."""
    merged: ValueCell[Unknown | Namespace] = ValueCell()
    """The mapping that a configuration was updated with. Written by `unread_code`, read by `interp.library`."""
    items: ValueTable[Unknown] = ValueTable()
    """What the program has put under a key of something unknown. Written and read by `interp.library`."""
    left_out: ValueCell[Unknown] = ValueCell()
    """What it is where the file that may replace it does not name it. Written by `replaced_defaults`, read by
    `gpu_switches`."""
    read_from: ValueCell[DictOf] = ValueCell()
    """The path of the settings file whose document it is. Written by `written_settings`, read by
    `engine_configuration`."""
    chosen_file: Flag[DictOf | ListOf] = Flag()
    """A section of a settings file, or its entries in a row: the user may name another file, which has more in it.
    Written by `written_settings` and handed on by `contents`, read where an entry is not there."""
    hides_rank: Flag[Value] = Flag()
    """A rank, or what comes from one, was put into it, and nobody knows under which name. Of dictionaries, objects and
    all that is unknown. Written by `hidden_ranks` and `argument_parsers`, read where an entry is not known."""
    full_state: Flag[Unknown] = Flag()
    """`StateDictOptions` with which the whole state is gathered. Written and read by `checkpoint_files`."""


class MetricState:
    """A metric of torchmetrics."""

    computed: Flag[Unknown] = Flag()
    """It has gathered from all ranks, and nothing has come to it since. Written and read by `torchmetrics`."""


class WorkState:
    """The handle that a collective returns, or the None in its place."""

    call: ValueCell[Work] = ValueCell()
    """The name of the collective. Written and read by `torch_distributed`."""
    asynchronous: ValueCell[Work] = ValueCell()
    """TRUE or FALSE, or what the program gave as `async_op`. Written and read by `torch_distributed`."""
    done: Flag[Work] = Flag()
    """Somebody has waited for it. Written and read by `async_work`."""


class MeshState:
    """A device mesh."""

    of_cpus: Flag[Unknown] = Flag()
    """Its devices are CPUs. Written and read by `device_meshes`."""
    shape: ValueCell[Unknown] = ValueCell()
    """How many ranks there are along each dimension, as given. Written and read by `device_meshes`."""
    names: ValueCell[Unknown] = ValueCell()
    """What the dimensions are called, as given. Written and read by `device_meshes`."""


class ManagerState:
    """An object of a framework that takes charge."""

    wraps_otherwise: Flag[ManagedObject] = Flag()
    """Its wrapper passes attributes on, other than PyTorch's. Written and read by `frameworks`."""
    alone: Flag[ManagedObject] = Flag()
    """It runs in one process, whatever the launcher does. Written and read by `frameworks`."""
    empties: Flag[Value] = Flag()
    """It, or a Trainer with these settings, has ZeRO keep the parameters of models elsewhere. Written by `frameworks`
    and `huggingface`, read by `frameworks`."""
    spreads_states: Flag[Value] = Flag()
    """It spreads gradients or states of optimizers over the ranks. Written by `frameworks`."""
    spreads_parameters: Flag[Value] = Flag()
    """It spreads parameters, too. Written by `frameworks`."""
    shards_in_place: Flag[ManagedObject] = Flag()
    """It calls `fully_shard` for each model that it prepares. Written and read by `frameworks`."""
    leaves_loaders: Flag[ManagedObject] = Flag()
    """It was told to leave loaders as they are. Written and read by `frameworks`."""
    places: Flag[ManagedObject] = Flag()
    """It surely puts models and batches on the GPU of the process. Written and read by `frameworks`."""


class CommandState:
    """A group of commands of click, typer or cyclopts."""

    callback: ValueCell[Commands] = ValueCell()
    """The function that runs before any of the commands. Written and read by `cli_libraries`."""
    commands: ValueCell[Commands] = ValueCell()
    """A tuple of the functions behind the commands. Written and read by `cli_libraries`."""


@dataclass(frozen=True, eq=False, repr=False)
class _WholeProcess(Value):
    """The process that is executed: what is global in it has this owner."""

    def __repr__(self) -> str:
        return "the process"


PROCESS = _WholeProcess()


class FileState:
    """A file that is open."""

    written: Flag[Unknown] = Flag()
    """It was written to. Written and read by `checkpoint_files`, which tells of each file once."""
    of_some_ranks: Flag[Unknown] = Flag()
    """Of a log file or a logger: what the other ranks say may not get into it. Written and read by `log_files`."""


class ProcessState:
    """What is global in a process; the owner is always `PROCESS`."""

    group: Flag[_WholeProcess] = Flag()
    """The default process group exists. Written by who makes one or could not get on without, read by `group_exists`.
    It stays when the group is destroyed: what comes after the training is seldom distributed again."""
    told_of_zero: Flag[_WholeProcess] = Flag()
    """Transformers was told by `HfDeepSpeedConfig` how the parameters are spread. Written by `huggingface`, read by
    `frameworks`."""
    imports_unknown: Flag[_WholeProcess] = Flag()
    """A module was imported whose name is not known. Written by `dynamic_import`, read by `unread_code`."""
    works: ValueCell[_WholeProcess] = ValueCell()
    """A tuple of the handles that nobody has waited for. Written and read by `async_work`."""
    default_device: ValueCell[_WholeProcess] = ValueCell()
    """Where new tensors and modules are made, the CPU where nobody says. Written by `torch_core` and `with`."""
    current_gpu: ValueCell[_WholeProcess] = ValueCell()
    """What `torch.cuda.set_device` was given. Written by `torch_cuda`."""
    cuda_started: Flag[_WholeProcess] = Flag()
    """The driver was asked: `CUDA_VISIBLE_DEVICES` is settled. Written and read by `torch_cuda`."""
    start_method: ValueCell[_WholeProcess] = ValueCell()
    """How processes are started, as it was set. Written and read by `process_launchers`."""
    model_sharded: Flag[_WholeProcess] = Flag()
    """`fully_shard` was called: what it leaves out counts. Written by `fully_sharded`, read by `sharding`."""
    methods_refused: Flag[_WholeProcess] = Flag()
    """There is a model that `refuses_methods`."""
    models_watched: Flag[_WholeProcess] = Flag()
    """Some model was wrapped, or given to an optimizer: from here on it counts what becomes of models. Written and read
    by `after_wrap`."""
    replica_of: ValueCell[_WholeProcess] = ValueCell()
    """The model whose copy on one of the GPUs of `DataParallel` is running. By `data_parallel_replicas`."""
    replicas_by: ValueCell[_WholeProcess] = ValueCell()
    """The `DataParallel` whose copies of a model are rehearsed. Written and read by `forward_body`."""
    looks_inside: Flag[_WholeProcess] = Flag()
    """Forwards of the project are followed down to their parts, else they count as one call. Written and read by
    `activation_checkpoint`."""
    environment: ValueTable[_WholeProcess] = ValueTable()
    """The environment variables that the program has set. Written by `environment_variables`."""
    set_by_property: ValueTable[_WholeProcess] = ValueTable()
    """Names that are properties of some class, and that it says what to do with. Written by `definitions`, read by
    `attributes`: most names are none."""
    log_files: ValueTable[_WholeProcess] = ValueTable()
    """The file of each logger, by its name. Written and read by `log_files`."""
    defaults: ValueTable[_WholeProcess] = ValueTable()
    """The constants that options are where the user leaves them out. By `argument_parsers`, for `gpu_switches`."""
    declared: ValueTable[_WholeProcess] = ValueTable()
    """The options of click whose value the launcher decides. Written by `cli_libraries`, read by the interpreter."""
