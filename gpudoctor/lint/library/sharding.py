"""What `fully_shard` takes of a model, part by part, and what stays whole on each rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.lint.domain.abstract_state import NO, PROCESS, ModuleState, ProcessState
from gpudoctor.lint.domain.module import Module, core_of
from gpudoctor.lint.domain.provenance import provenance_of
from gpudoctor.lint.library.torch_nn import children_of, learns_itself

if TYPE_CHECKING:
    from gpudoctor.lint.domain.value import Value
    from gpudoctor.lint.library_context import LibraryContext

_DEEP = 12
"""Parts of parts that are looked at."""


def left_whole(do: LibraryContext, model: Value) -> tuple[Module, ...]:
    """The parts with parameters that are on each rank as they are, where other parts of the model are sharded; none
    where the model itself is, or something around it, or where it is not known which parts are."""
    core = core_of(model)
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


def note_parts_sharded(do: LibraryContext, given: Value) -> None:
    """Something that is not known is sharded: `for part in model.modules(): fully_shard(part)`."""
    for each in provenance_of(given):
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
        core = core_of(part)
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
