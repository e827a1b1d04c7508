"""Events of a model: how it is wrapped and called, and what becomes of it after it was made."""

from __future__ import annotations

from collections.abc import Hashable

from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.device import Device, Devices, on_cpu, on_gpu
from gpudoctor.lint.domain.function import Class
from gpudoctor.lint.domain.module import Module, Wrapper, WrapperKind
from gpudoctor.lint.domain.rank import Numbers
from gpudoctor.lint.domain.tensor import Tensor
from gpudoctor.lint.domain.value import Unknown, Value
from gpudoctor.lint.events.event_context import Event
from gpudoctor.lint.flow.condition import ALWAYS, Condition
from gpudoctor.record import dataclass


@dataclass(frozen=True, kw_only=True)
class Wrap(Event):
    """A module is wrapped. `model_device` is where it was at that moment, None where that is not known."""

    wrapper: Module | Wrapper
    inner: Module | Wrapper
    kind: WrapperKind
    model_device: Devices | None = None
    group_exists: bool | None = None
    """A process group was initialised before: True, False, or None where that is not known."""
    names_ids: bool | None = False
    """`device_ids` is given: True, False, or None where it may be None."""
    ids_at: Location | None = None
    """Where the list of them is written."""
    ids: tuple[Device | None, ...] | None = None
    """The devices of `device_ids`, each None where it is not known; None where not even how many is."""
    trainable: bool | None = None
    """Some parameter takes a gradient. False where surely none does, None where that is not known."""
    find_unused: bool | None = False
    """`find_unused_parameters`: True, False, or None where that is not known."""
    static: bool | None = False
    """`static_graph`, likewise."""
    certain: bool = True
    """It can be no other module that is wrapped here."""
    opaque: bool = False
    """Arguments were given that could not be followed."""
    uncut: bool = False
    """Each rank may hold all parameters: it was told so, or something that is not known."""
    keeps_parameters: bool | None = False
    """`use_orig_params`, likewise: the parameters of the model stay the objects that they were."""
    chosen_where: Condition = ALWAYS
    """It is this module, and no other that may be wrapped here, where that holds."""
    handed_to: str | None = None
    """The method of a framework that wraps what it is handed; empty for one that trains, None where the program itself
    wraps."""

    @property
    def is_ddp(self) -> bool:
        """DistributedDataParallel is put around it."""
        return self.kind is WrapperKind.DDP

    @property
    def is_data_parallel(self) -> bool:
        """DataParallel is put around it, which divides each batch over the GPUs of one process."""
        return self.kind is WrapperKind.DATA_PARALLEL

    @property
    def averages(self) -> bool:
        """Its wrapper averages gradients over ranks, and the program itself has put it there."""
        return self.kind in (WrapperKind.DDP, WrapperKind.FSDP)

    @property
    def model_on_gpu(self) -> bool:
        """The model surely lies on a GPU or the like."""
        return on_gpu(self.model_device)

    @property
    def model_on_cpu(self) -> bool:
        """The model surely lies on the CPU."""
        return on_cpu(self.model_device)

    @property
    def in_place(self) -> bool:
        """The model itself was changed: `fully_shard` puts nothing around it."""
        return self.kind is WrapperKind.FSDP and self.wrapper == self.inner

    @property
    def on_one_gpu(self) -> bool:
        """A single device is named, so that there is nothing to divide. Left out, it takes all visible GPUs."""
        return self.ids is not None and len(self.ids) == 1

    @property
    def trains_nothing(self) -> bool:
        """Surely no parameter takes a gradient."""
        return self.trainable is False

    @property
    def nested(self) -> bool:
        """What is wrapped is a wrapper on every path."""
        return isinstance(self.inner, Wrapper)


@dataclass(frozen=True, kw_only=True)
class SyncNorm(Event):
    """The batch norm layers of `module` take their statistics over all ranks from here on: it was made so, or `given`
    was converted to it. The two are one object but for a bare layer."""

    module: Module | Wrapper
    given: Module | Wrapper | Unknown | None = None


@dataclass(frozen=True, kw_only=True)
class ForwardMarked(Event):
    """A wrapper, or a model that was sharded in place, is told of a method that is to go through it, as its `forward`
    does."""

    wrapper: Module | Wrapper


@dataclass(frozen=True, kw_only=True)
class PastForward(Event):
    """A method of a model runs a part of it past its forward: one that was sharded in place brings the parameters
    together there only, and the wrapper of Fabric refuses it."""

    module: Module
    method: str


@dataclass(frozen=True, kw_only=True)
class AttributeMissed(Event):
    """An attribute is read from a wrapper that has none of that name; `inner_has` says whether the model has it."""

    wrapper: Wrapper
    name: str
    inner_has: bool | None


@dataclass(frozen=True, kw_only=True)
class AttributeShadowed(Event):
    """An attribute that the model has is set on its wrapper, where the model does not look for it."""

    wrapper: Wrapper
    name: str


@dataclass(frozen=True, kw_only=True)
class WrapperMissed(Event):
    """A model that was sharded in place is asked whether it is of one of these `kinds`, or has the method, and has
    not."""

    module: Module
    kinds: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class BareAsked(Event):
    """`.module` is asked of a model that is not wrapped and has no such attribute: an `AttributeError`."""

    model: Module


@dataclass(frozen=True, kw_only=True)
class ModuleClassFlaw(Event):
    """A class of modules is written wrongly. `flaw` is `super-init-missing`, `plain-container` or `layer-dropped`.

    `count` is how many layers a container holds; where one was dropped, 1 if a comma has made a tuple of it."""

    flaw: str
    cls: Class
    attribute: str
    count: int = 0
    keyed: bool = False
    """The container is a dictionary."""


@dataclass(frozen=True, kw_only=True)
class Forward(Event):
    """A module or wrapper is called. `identity` names this call in the graphs of tensors.

    `inputs` are the tensors among the arguments. `device` is where the module is, None where that is not known.
    `reached_at` is where a method of the module was called that led here, where the module was not called directly.
    """

    identity: Hashable
    module: Module | Wrapper
    reached_at: Location | None = None
    inputs: tuple[Tensor, ...] = ()
    device: Devices | None = None
    graph: bool = True
    training: bool | None = None
    """In training mode: True, False, or None where that is not known."""
    buffers: bool | None = None
    """The model has buffers; None where that is not known."""
    unseen: bool = False
    """It is a container, or of a class of the project, of whose parts none is known to have parameters."""
    brings_own: bool = False
    """It is on the CPU, its inputs are on a GPU, and its forward brings parameters of its own there."""
    followed: bool = False
    """It calls a method that is followed, as the wrapper of Lightning does: what that calls is logged as well."""
    gathers: bool = False
    """Its framework brings its parameters together for it, from all ranks."""
    unsynced: bool = False
    """It is one forward after the other, and each rank makes as many of them as its own texts are long."""
    left_whole: tuple[Module, ...] = ()
    """Parts with parameters that no `fully_shard` has taken, while it has taken other parts of the model."""

    @property
    def on_cpu(self) -> bool:
        """The weights surely lie on the CPU."""
        return on_cpu(self.device)

    @property
    def on_gpu(self) -> bool:
        """The module surely lies on a GPU or the like."""
        return on_gpu(self.device)


@dataclass(frozen=True, kw_only=True)
class ReplicaWrite(Event):
    """A forward under `DataParallel` sets an attribute of the copy of `module` that it runs on, which is then dropped.
    `carried` where the new value is computed from the one that the attribute had."""

    module: Module
    name: str
    carried: bool = False


@dataclass(frozen=True, kw_only=True)
class ReplicaRead(Event):
    """An attribute that only copies of `module` were given by their forward is read from the model itself."""

    module: Module
    name: str


@dataclass(frozen=True, kw_only=True)
class ModeChange(Event):
    """`model.train()` or `model.eval()`."""

    module: Module | Wrapper
    training: bool | None


@dataclass(frozen=True, kw_only=True)
class GradientFlag(Event):
    """The parameters of `module`, or those of them that a test picks, take a gradient from here on, or none. `on` is
    None where that is not known."""

    module: Module | Wrapper
    on: bool | None


@dataclass(frozen=True, kw_only=True)
class PartAdded(Event):
    """After some model was wrapped or given to an optimizer, a finished module takes in another `part`, or new
    parameters of its own (then `part` is the module itself). `replaced` where something stood under that name before,
    `fresh` where nothing in the part belonged to the module then."""

    parent: Module
    part: Module | Wrapper
    name: str = ""
    replaced: bool = False
    parameters: bool | None = None
    """The part has parameters; None where that is not known."""
    fresh: bool = True


@dataclass(frozen=True, kw_only=True)
class PartExchanged(Event):
    """A model that a library has built takes in another `part`, after a state was loaded into it."""

    parent: Module
    part: Module | Wrapper


@dataclass(frozen=True, kw_only=True)
class WeightsDrawn(Event):
    """After some model was wrapped, weights of `module` are drawn anew: `call` is what draws them."""

    module: Module | Wrapper
    call: str


@dataclass(frozen=True, kw_only=True)
class WeightsSet(Event):
    """The program itself gives weights of `module` other values: `p.data = p.data - step`, `p.data.copy_(best)`."""

    module: Value


@dataclass(frozen=True, kw_only=True)
class UnusedPart(Event):
    """The `forward` of `module`, or the `method` that stands for it, never looks at its layer `part`, which has
    parameters or may have."""

    module: Module
    part: Module
    name: str
    method: str = "forward"
    without_graph: bool = False
    """It is called, under `no_grad` alone."""


@dataclass(frozen=True, kw_only=True)
class ShardingRefused(Event):
    """`fully_shard` refuses this `module`, or what it has made of a module refuses what is done here. `why`: it is a
    `container` without a forward, has a `scalar parameter`, or is given a `copy` or a `whole state`; Accelerate gets it
    with `no optimizer`, or with others (`several models`). `part` has the parameter."""

    module: Module
    why: str
    part: Tensor | None = None


@dataclass(frozen=True, kw_only=True)
class ForwardShared(Event):
    """The ranks along a dimension of a mesh, `ways` of them, work on one forward together: each has a part of the
    layers of `module`, or, where that is None, of the sequences in the block that begins here. `by_all` where the mesh
    has no other dimension."""

    module: Module | None
    ways: Numbers | None
    by_all: bool


@dataclass(frozen=True, kw_only=True)
class ForwardTalks(Event):
    """The `forward` of `module` calls a collective: it brings the ranks together itself."""

    module: Module


@dataclass(frozen=True, kw_only=True)
class PartsNamed(Event):
    """The parameters or parts of a `module` are asked for by name, or one by one: its wrapper names others."""

    module: Module
