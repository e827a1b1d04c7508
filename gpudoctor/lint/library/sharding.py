"""What `fully_shard` takes of a model, part by part, and what stays whole on each rank."""

from __future__ import annotations

from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.abstract_state import (
    NO,
    PROCESS,
    YES,
    ManagerState,
    ModuleState,
    ObjectState,
    ProcessState,
    TensorState,
)
from gpudoctor.lint.domain.container import items_held
from gpudoctor.lint.domain.function import Class, library_name_of
from gpudoctor.lint.domain.group import ManagedObject
from gpudoctor.lint.domain.module import UNSEEN, Module, StateDict
from gpudoctor.lint.domain.provenance import provenance_of
from gpudoctor.lint.domain.symbols import IsInstance
from gpudoctor.lint.domain.tensor import Extent, Tensor, TensorOrigin
from gpudoctor.lint.domain.value import TRUE, Unknown, Value, single_of
from gpudoctor.lint.events.model import PastForward, ShardingRefused
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.interface.contents import find_method
from gpudoctor.lint.interface.library_call import Call, LibraryContext, flatten
from gpudoctor.lint.library.torch_nn import children_of, has_parameters, learns_itself

_DEEP = 12
"""Parts of parts that are looked at."""


def left_whole(do: LibraryContext, model: Value) -> tuple[Module, ...]:
    """The parts with parameters that are on each rank as they are, where other parts of the model are sharded; none
    where the model itself is, or something around it, or where it is not known which parts are."""
    core = model.core
    # Most programs shard nothing.
    if do.flag(PROCESS, ProcessState.model_sharded) is NO or model.synchronises:
        return ()
    around = _around(do, core)
    if any(do.flag(each, ModuleState.sharded) is not NO for each in around):
        return ()
    walk = _Walk(do)
    walk.look_at(core, _DEEP)
    unknown = any(do.flag(each, ModuleState.parts_sharded) is not NO for each in around)
    return tuple(walk.whole) if walk.sharded and not unknown and not walk.unknown else ()


def note_sharded(do: LibraryContext, core: Value, stays_on_cpu: bool = False) -> None:
    """The parameters of a module are cut up among ranks from here on."""
    do.set_flag(core, ModuleState.sharded)
    do.set_flag(core, ModuleState.shards_on_cpu, stays_on_cpu)


def keeps_shards(do: LibraryContext, managed: ManagedObject) -> bool:
    """Models come back in FSDP's first wrapper, in which each rank holds a shard of all parameters."""
    if single_of(do.own_attribute(managed, "_sharded")) == TRUE:
        return True
    otherwise = (ManagerState.shards_in_place, ManagerState.empties)
    spread = do.flag(managed, ManagerState.spreads_parameters) is YES
    return spread and all(do.flag(managed, each) is NO for each in otherwise)


def hands_out_shards(do: LibraryContext, state: Value) -> bool:
    """A state, or a model that is written as such, surely is the part of this rank alone: `fully_shard` has cut up the
    model, or a part of it, or ZeRO has, and nobody has replaced what the state holds."""
    owner = state.state_of
    if isinstance(state, StateDict) and do.flag(state, TensorState.rewritten) is not NO:
        return False
    if is_emptied(do, state):
        return True
    return not owner.synchronises and is_sharded(do, owner)


def is_emptied(do: LibraryContext, state: Value) -> bool:
    """It is of a model whose parameters ZeRO surely keeps elsewhere."""
    return do.flag(state.state_of.core, ModuleState.emptied) is YES


def is_sharded(do: LibraryContext, model: Value) -> bool:
    """`fully_shard` surely has cut up a model in place, or a part of it."""
    # Most programs shard nothing.
    if do.flag(PROCESS, ProcessState.model_sharded) is NO:
        return False
    parts = [model.core]
    for each in parts:
        if do.flag(each, ModuleState.holds_shards) is YES:
            return True
        parts += [core for child in children_of(do, each) if (core := child.core) not in parts]
    return False


def is_cut_up(do: LibraryContext, tensor: Tensor | Unknown) -> bool:
    """A parameter, a gradient or an entry of a state, of a model that is sharded, as far as is known.

    What such a model computes may be on each rank as it is: `loss_parallel` leaves the loss whole.
    """
    if isinstance(tensor, Tensor):
        if tensor.origin not in (TensorOrigin.PARAMETER, TensorOrigin.GRADIENT):
            return False
        owners = [each for each in (tensor.batch_of, *tensor.used) if each is not None]
        # The norm of all gradients is of no model.
        if not owners:
            return do.flag(PROCESS, ProcessState.model_sharded) is not NO
    else:
        owners = [each.owner for each in provenance_of(tensor) if isinstance(each, StateDict)]
    around = [each for owner in owners for each in _around(do, owner.core)]
    noted = (do.flag(each, flag) for each in around for flag in (ModuleState.sharded, ModuleState.parts_sharded))
    return any(flag is not NO for flag in noted) or any(is_sharded(do, owner) for owner in owners)


def note_copied(do: LibraryContext, model: Value, place: Location) -> None:
    """A copy is made of a model, parameters and all: a sharded one refuses that."""
    core = model.core
    if isinstance(core, Module) and is_sharded(do, core):
        do.emit(ShardingRefused, at=place, module=core, why="copy")


def note_met(call: Call, part: Value) -> None:
    """A module is run, perhaps past the forward of one around it: what that was sharded with are shards but for it, and
    the wrapper of Fabric refuses it."""
    do = call.do
    # Most programs do neither.
    if all(do.flag(PROCESS, each) is NO for each in (ProcessState.model_sharded, ProcessState.methods_refused)):
        return
    around = _around(do, part)
    owner = next((each for each in around if do.flag(each, ModuleState.refuses_methods) is YES), None)
    refused = owner is not None
    if owner is None:
        flags = ((each, do.flag(each, ModuleState.holds_shards)) for each in around)
        owner, surely = next(((each, flag) for each, flag in flags if flag is not NO), (part, NO))
        if owner == part or surely is not YES or has_parameters(do, part) is not True:
            return
    opened = do.execution.open_methods(owner)
    # A forward that the method calls brings shards together; the wrapper looks only at what it was asked itself.
    if opened and not any(name in ("forward", "__init__") for name, _ in (opened[:1] if refused else opened)):
        method, place = opened[0]
        do.emit(PastForward, at=place or call.place, module=owner, method=method)


def note_loaded(call: Call, model: Value, state: Value | None, from_file: bool) -> None:
    """A state is loaded into a model: one that is sharded in place takes none that is whole."""
    core = model.core
    if not isinstance(core, Module) or model.synchronises or not is_sharded(call.do, core):
        return
    owner = state.owner if isinstance(state, StateDict) else None
    of_other = isinstance(owner, Module) and owner.made_by != UNSEEN and not is_sharded(call.do, owner)
    # The file of a rank may hold its shard.
    told_apart = state is not None and bool(state.divergence & (Divergence.RANK | Divergence.UNREAD))
    if (of_other or (from_file and not told_apart)) and call.arg(2, "assign") is None:
        call.emit(ShardingRefused, module=core, why="whole state")


def parts_of_kind(call: Call, value: Value) -> list[Module] | None:
    """`for part in model.modules(): if isinstance(part, Block)`: which parts these are, by the classes of the test;
    None where that is not known."""
    owner = value.part_of
    tests = [each.atom.key for each in call.do.path if each.holds and isinstance(each.atom.key, IsInstance)]
    asked = [key for key in tests if len(key.given) > 1 and key.given[0].single == value]
    kinds = flatten(call.do, [kind for key in asked[:1] for kind in key.given[1]])
    if owner is None or not kinds or not all(map(_is_kind_of_module, kinds)):
        return None
    parts: list[Value] = [owner]
    for each in parts:
        parts += [core for child in children_of(call.do, each) if (core := child.core) not in parts]
    # Parts that were not seen may be of the kind as well.
    known = [each for each in parts if isinstance(each, Module) and _is_of_kind(each, kinds)]
    return known or None


def _is_kind_of_module(kind: Value) -> bool:
    return isinstance(kind, Class) or library_name_of(kind).startswith("torch.nn.")


def _is_of_kind(module: Module, kinds: list[Value]) -> bool:
    names = set(map(library_name_of, kinds))
    if not isinstance(module.cls, Class):
        return module.made_by in names - {""}
    above: list[Value] = [module.cls]
    for each in above:
        above += [base for base in each.bases if base not in above] if isinstance(each, Class) else []
    return any(kind in above for kind in kinds) or not names.isdisjoint(module.cls.library_bases)


def refusal(do: LibraryContext, module: Module) -> tuple[str, Tensor | None]:
    """Why `fully_shard` ends in a `ValueError` for a module, and on account of which parameter; an empty text where it
    does not, as far as is known."""
    bases: frozenset[str] = getattr(module.cls, "library_bases", frozenset())
    contains = module.made_by in _CONTAINERS or (bases & _CONTAINERS and find_method(do, module, "forward") is None)
    if contains:
        return "container", None
    parts, seen = [module], {module}
    for each in parts:
        # What an earlier call has taken is left out.
        if each is not module and do.flag(each, ModuleState.sharded) is not NO:
            continue
        scalar = _scalar_in(do, each)
        if scalar is not None:
            return "scalar parameter", scalar
        fresh = [child for child in children_of(do, each) if isinstance(child, Module) and child not in seen]
        parts += fresh
        seen.update(fresh)
    return "", None


def _scalar_in(do: LibraryContext, module: Module) -> Tensor | None:
    """A parameter of its own that surely is a single number still: nobody has put another one in its place."""
    held = (item.single for item in items_held(do.state(module, ModuleState.learnt)))
    scalar = next((each for each in held if isinstance(each, Tensor) and each.extent is Extent.NUMBER), None)
    if scalar is None:
        return None
    # `setattr(part, name, nn.Parameter(p.unsqueeze(0)))`, in a loop over the parameters of the whole.
    around = [each for each in _around(do, module) if isinstance(each, Module)]
    changed = any(do.flag(each, ObjectState.opened) is not NO for each in around)
    return None if changed or any(do.flag(each, ModuleState.data_exchanged) is not NO for each in around) else scalar


_CONTAINERS = frozenset({"torch.nn.ModuleList", "torch.nn.ModuleDict"})


def note_parts_sharded(do: LibraryContext, given: Value) -> None:
    """Something that is not known is sharded: `for part in model.modules(): fully_shard(part)`."""
    for each in (given.part_of,) if given.part_of is not None else provenance_of(given):
        if isinstance(each, Module):
            do.set_flag(each, ModuleState.parts_sharded)


def _around(do: LibraryContext, core: Value) -> list[Value]:
    """The module, and all that it is a part of."""
    found = [core]
    for each in found:
        found += [parent for parent, parts in do.parts.items() if each in parts and parent not in found]
    return found


class _Walk:
    """From a model to its parts, but not into those that are sharded or take no gradient."""

    def __init__(self, do: LibraryContext) -> None:
        self._do = do
        self._seen: set[Value] = set()
        self.sharded = False
        self.unknown = False
        self.whole: list[Module] = []

    def look_at(self, part: Value, depth: int) -> None:
        core = part.core
        if core in self._seen or not isinstance(core, Module):
            return
        self._seen.add(core)
        if part.synchronises or self._do.flag(core, ModuleState.sharded) is not NO:
            self.sharded = True
            return
        self.unknown |= not depth or self._do.flag(core, ModuleState.parts_sharded) is not NO
        # On some way it takes no gradient.
        if not depth or self._do.flag(core, ModuleState.frozen) is not NO:
            return
        if learns_itself(self._do, core):
            self.whole.append(core)
        for child in children_of(self._do, core):
            self.look_at(child, depth - 1)
