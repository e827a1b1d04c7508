"""Modules, their wrappers and their state dicts."""

from __future__ import annotations

import enum
from collections.abc import Hashable

from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.value import NONE, Allocated, Value, Values
from gpudoctor.record import dataclass, replace


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Module(Allocated):
    """A module that is not a wrapper: an instance of a class of the project, or one that a library made.

    `cls` is the project's class where there is one, `made_by` the dotted name of the library callable otherwise
    (`torch.nn.Linear`). `parameters` says whether it has any, `buffers` likewise, None where it is not known.
    `exact` marks a module whose attributes are all known.
    """

    is_model = True
    is_choice = True

    identity: Hashable
    place: Location
    label: str
    cls: Value | None = None
    made_by: str = ""
    parameters: bool | None = None
    buffers: bool | None = None
    exact: bool = False
    members: frozenset[Value] = frozenset()
    """Those that it may be, where it stands for one of many."""


def one_of_modules(key: Hashable, modules: list[Module]) -> Module:
    """A module that stands for any of several, as those of a factory with many branches."""
    first = modules[0]
    members = frozenset(each for module in modules for each in (module.members or {module}))
    known = all(module.made_by != UNSEEN for module in modules)
    return Module(
        (key, frozenset(each.identity for each in modules)), first.place, first.label,
        made_by="one of several" if known else UNSEEN, members=members,
    )  # fmt: skip


UNSEEN = "unknown"
"""What has made a module of which no more is known than that somebody wraps it."""


class WrapperKind(enum.Enum):
    """How a wrapper spreads a module over devices; the value is its name in messages."""

    DDP = "DistributedDataParallel"
    DATA_PARALLEL = "DataParallel"
    FSDP = "FullyShardedDataParallel"
    COMPILED = "torch.compile"
    PREPARED = "framework"

    @property
    def synchronises(self) -> bool:
        """Gradients are averaged over ranks by the wrapper."""
        # DataParallel adds gradients up within one process: there is no other rank.
        return self in (WrapperKind.DDP, WrapperKind.FSDP, WrapperKind.PREPARED)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Wrapper(Allocated):
    """A module around another one. `inner` may itself be a wrapper."""

    is_model = True
    is_choice = True

    identity: Hashable
    place: Location
    label: str
    kind: WrapperKind
    inner: Value
    device_ids: Values | None = None
    broadcast_buffers: Value = NONE
    rearranges: bool = True
    """In the first forward after a backward it arranges its buckets anew, together with the other ranks."""
    class_name: str = ""
    """Of a library's own kind: the dotted name of its class, whose stub says what it has and does."""

    @property
    def core(self) -> Value:
        value = self.inner
        # `torch.compile(DDP(model))` and `DDP(torch.compile(model))` are both in use.
        while isinstance(value, Wrapper):
            value = value.inner
        return value

    @property
    def chain(self) -> tuple[Wrapper, ...]:
        """This wrapper and those below it, outermost first."""
        below = self.inner.chain if isinstance(self.inner, Wrapper) else ()
        return (self, *below)

    def wrapped_by(self, *kinds: enum.Enum) -> bool:
        return any(wrapper.kind in kinds for wrapper in self.chain)

    @property
    def synchronises(self) -> bool:
        return any(wrapper.kind.synchronises for wrapper in self.chain)


def one_of_wrappers(key: Hashable, wrappers: list[Wrapper]) -> Wrapper | None:
    """A wrapper that stands for any of several; None where they are no wrappers of one kind."""
    first = wrappers[0]
    inner = [each.inner for each in wrappers]
    if any(each.kind is not first.kind or each.class_name != first.class_name for each in wrappers):
        return None
    if not all(isinstance(each, Module) for each in inner):
        return None
    return replace(
        first,
        identity=(key, frozenset(each.identity for each in wrappers)),
        inner=one_of_modules(key, [each for each in inner if isinstance(each, Module)]),
        device_ids=first.device_ids if all(each.device_ids == first.device_ids for each in wrappers) else None,
        # Of different ones nobody knows: then nothing is broadcast for sure.
        broadcast_buffers=min((each.broadcast_buffers for each in wrappers), key=lambda value: value == NONE),
    )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StateDict(Allocated):
    """What `state_dict()` returned. `prefixed` where its keys start with a wrapper's `module.`."""

    identity: Hashable
    place: Location
    label: str
    owner: Value
    prefixed: bool = False


def core_of(value: Value) -> Value:
    """The module under all wrappers; the value itself where there is none."""
    return value.core
