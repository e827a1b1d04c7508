"""Modules, their wrappers and their state dicts."""

from __future__ import annotations

import enum

from gpudoctor.lint.domain.function import Class
from gpudoctor.lint.domain.value import NONE, TRUE, Allocated, Value, Values
from gpudoctor.record import dataclass


@dataclass(frozen=True, eq=False, repr=False)
class Module(Allocated):
    """A module that is not a wrapper: an instance of a class of the project, or one that a library made.

    `cls` is the project's class where there is one, `made_by` the dotted name of the library callable otherwise
    (`torch.nn.Linear`). `parameters` says whether it has any, `buffers` likewise, None where it is not known.
    `exact` marks a module whose attributes are all known.
    """

    is_model = True
    is_choice = True

    cls: Class | None = None
    made_by: str = ""
    parameters: bool | None = None
    buffers: bool | None = None
    exact: bool = False
    members: frozenset[Value] = frozenset()
    """Those that it may be, where it stands for one of many."""
    random: bool = False
    """A library surely gave it random weights."""
    part_of: Value | None = None
    """It stands for any part of this one, as a loop over them gets it."""

    @property
    def core(self) -> Module:
        return self

    def core_under(self, *kinds: enum.Enum) -> Module:
        return self

    def derives_from(self, library_class: str) -> bool:
        """It is an object of this class of a library, or of a class of the project that derives from it."""
        return self.made_by == library_class or (self.cls is not None and library_class in self.cls.library_bases)


@dataclass(frozen=True, eq=False, repr=False)
class InnerModules(Allocated):
    """What `modules()` and the like hand out: the parts of `owner`, with their names where they are `named`."""

    owner: Module | Wrapper
    named: bool = False


def any_part(of: Module | Wrapper) -> Module:
    """Some part of a module, the same one wherever it is asked for: its kind is open."""
    # A part of a part is one of the whole: `convert(module)` goes down by calling itself.
    whole = of.core.part_of or of.core
    return Module(("some part", whole), of.place, of.label, made_by="a part of a module", part_of=whole)


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
    def key_prefix(self) -> str:
        """What it puts before the keys of a state: the name under which it keeps the model. FSDP takes its own off."""
        if self is WrapperKind.COMPILED:
            return "_orig_mod."
        return "module." if self in (WrapperKind.DDP, WrapperKind.DATA_PARALLEL) else ""

    @property
    def synchronises(self) -> bool:
        """Gradients are averaged over ranks by the wrapper."""
        # DataParallel adds gradients up within one process: there is no other rank.
        return self in (WrapperKind.DDP, WrapperKind.FSDP, WrapperKind.PREPARED)


@dataclass(frozen=True, eq=False, repr=False)
class Wrapper(Allocated):
    """A module around another one. `inner` may itself be a wrapper."""

    is_model = True
    is_choice = True

    kind: WrapperKind
    inner: Module | Wrapper
    device_ids: Values | None = None
    broadcast_buffers: Value = NONE
    rearranges: bool = True
    """In the first forward after a backward it arranges its buckets anew, together with the other ranks."""
    class_name: str = ""
    """Of a library's own kind: the dotted name of its class, whose stub says what it has and does."""
    own_group: bool = False
    """It was given a process group, whose members may be those ranks that use it."""

    @property
    def sends_buffers(self) -> bool:
        """It was not told otherwise: `broadcast_buffers=False`."""
        return self.broadcast_buffers in (NONE, TRUE)

    @property
    def core(self) -> Module:
        # `torch.compile(DDP(model))` and `DDP(torch.compile(model))` are both in use.
        return self.inner.core

    def core_under(self, *kinds: enum.Enum) -> Module | None:
        return self.core if all(wrapper.kind in kinds for wrapper in self.chain) else None

    @property
    def of_every_rank(self) -> bool:
        """It and those below it wait for all ranks."""
        return not any(each.own_group for each in self.chain)

    @property
    def chain(self) -> tuple[Wrapper, ...]:
        """This wrapper and those below it, outermost first."""
        return (self, *chain_of(self.inner))

    def wrapped_by(self, *kinds: enum.Enum) -> bool:
        return any(wrapper.kind in kinds for wrapper in self.chain)

    @property
    def key_prefix(self) -> str:  # type: ignore[override]
        # A ScriptModule is the model itself, made anew.
        scripted = [each for each in self.chain if each.kind is WrapperKind.COMPILED and each.class_name]
        return "".join(each.kind.key_prefix for each in self.chain if each not in scripted)

    @property
    def synchronises(self) -> bool:
        return any(wrapper.kind.synchronises for wrapper in self.chain)


@dataclass(frozen=True, eq=False, repr=False)
class StateDict(Allocated):
    """What `state_dict()` returned. `prefix` is what its keys begin with: a wrapper's `module.`."""

    owner: Value
    prefix: str = ""

    @property
    def state_of(self) -> Value:
        return self.owner


def chain_of(value: Value) -> tuple[Wrapper, ...]:
    """The wrappers around a model, outermost first; none where it is not wrapped."""
    return value.chain if isinstance(value, Wrapper) else ()
