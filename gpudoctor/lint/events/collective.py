"""Events of collectives: calls that all ranks of a group must make, their handles and results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.container import TupleOf
from gpudoctor.lint.domain.function import Method
from gpudoctor.lint.domain.group import DefaultGroup, Group, ManagedObject, Work
from gpudoctor.lint.domain.module import Wrapper
from gpudoctor.lint.domain.rank import Rank, Size
from gpudoctor.lint.domain.tensor import Extent, Tensor, TensorOrigin
from gpudoctor.lint.domain.value import Allocated, Const, Unknown, Value, Values, of_kinds, single_of
from gpudoctor.lint.events.event_context import Event, Loop
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.flow.valueset import ValueSet
from gpudoctor.manifest.effects import CollectiveEffect
from gpudoctor.record import dataclass

Exchanged: TypeAlias = ValueSet[Allocated | TupleOf | Method | Const | Rank | Size | Unknown]
"""What ranks give to each other: objects, several of them, numbers, and what could not be known."""


def as_exchanged(values: Values | None) -> Exchanged | None:
    """What a collective is given; something else is as good as unknown."""
    return of_kinds(values, Allocated, TupleOf, Method, Const, Rank, Size, Unknown)


@dataclass(frozen=True, kw_only=True)
class Discard(Event):
    """A bare expression statement whose value is dropped; `call` is the method or callable that made it, and `written`
    what stands before the dot, where something can be assigned to it. Where an attribute of the value is all that is
    taken of it, that is `kept`."""

    value: Allocated | Unknown
    call: str
    receiver: Allocated | Unknown | None = None
    written: str = ""
    kept: str = ""

    @property
    def of_wrapper(self) -> bool:
        """It is a wrapper; `model.train()` gives the model back, which nobody needs to keep."""
        return isinstance(self.value, Wrapper) and self.value != self.receiver

    @property
    def of_tensor(self) -> bool:
        """A method of a tensor was called in vain."""
        return isinstance(self.receiver, Tensor)


@dataclass(frozen=True, kw_only=True)
class Collective(Event):
    """A call that all ranks of a group must make. `call` is its name (`all_reduce`, `barrier`).

    `in_place` where the result stands in the argument and the call returns None or
    a handle; `by` names the library.
    """

    call: str
    by: str = "torch.distributed"
    subject: Exchanged | None = None
    sent: Exchanged | None = None
    """What this rank gives, where that is not what is written to."""
    group: Group | DefaultGroup | Unknown = DefaultGroup()
    in_place: bool = True
    asynchronous: bool = False
    group_exists: bool | None = None
    asked: ManagedObject | Wrapper | None = None
    """The object of a framework whose method it is."""
    spread: bool = False
    """That object spreads over ranks what the call brings together."""
    arguments: tuple[str, ...] = ()
    returned: Tensor | Work | Unknown | None = None
    flaw: str = ""
    """What is wrong with its arguments: `lacks src`, `in wrong order`, `no tensor`, `list on every rank`, `list on no
    rank`, `one tensor`, several times."""
    on_cpu: tuple[Tensor, ...] = ()
    """The tensors among its arguments that surely lie on the CPU."""
    temporary: bool = False
    """It writes into a copy that was made for the call, which nobody else has."""
    effect: CollectiveEffect = CollectiveEffect()
    """What its stub says of it."""
    operation: str = ""
    """What it makes of the values where it reduces them, as `ReduceOp` calls it: `SUM`, `AVG`, `MAX`; empty where that
    is not known."""
    members: Divergence = Divergence.NONE
    """How far ranks may disagree about who is in the group that is made."""

    makes_group: bool = False
    """A group is made: also ranks outside of it must call this."""

    @property
    def unordered(self) -> bool:
        """A loop around it goes over a set of texts."""
        return any(loop.unordered for loop in self.loops)

    @property
    def adds_up(self) -> bool:
        """Values of all ranks become their sum or their mean, as far as is known: no minimum, no maximum."""
        return self.effect.adds_up and self.operation in ("SUM", "AVG", "")

    @property
    def given(self) -> Iterator[Value]:
        """What it brings together, those in tuples one by one."""
        left = list(reversed([*(self.subject or ())]))
        while left:
            each = left.pop()
            if isinstance(each, TupleOf):
                left += reversed([value for item in each.items for value in item])
            else:
                yield each

    @property
    def one(self) -> Value | None:
        """What it is surely given; None where that may be one of several."""
        return single_of(self.subject)

    @property
    def of_results(self) -> bool:
        """It brings together losses and outputs of a model, or single numbers: no weights."""
        given = list(self.given)
        kinds = (TensorOrigin.OUTPUT, TensorOrigin.BATCH)
        return bool(given) and all(each.origin in kinds or each.extent is Extent.NUMBER for each in given)

    @property
    def of_gradients(self) -> list[Value]:
        """The models of whose parameters it is given the gradients, where it is given nothing else on any path."""
        owners = [_owner_of_gradient(each) for each in self.subject or ()]
        return [] if None in owners else [each for each in owners if each is not None]

    @property
    def picked(self) -> Tensor | None:
        """What this rank gives, where its own data says how many numbers that holds, and every rank must give as many:
        only what is gathered into a list may have other sizes, where that list says so."""
        given, into = single_of(self.subject if self.sent is None else self.sent), single_of(self.subject)
        if not (self.adds_up or self.gathers) or self.objects or self.by != "torch.distributed":
            return None
        first = into if isinstance(into, Tensor) or not isinstance(self.returned, Work) else self.returned.subject
        like = first is into or (isinstance(first, Tensor) and first.extent is Extent.OF_DATA)
        if not like or not isinstance(given, Tensor) or given.extent is not Extent.OF_DATA:
            return None
        return given if given.dependence & (Divergence.LOCAL | Divergence.RANK) else None

    @property
    def gives_tensors(self) -> bool:
        """This rank gives a tensor, on some path."""
        return self.sent is not None and self.sent.has(Tensor)

    @property
    def of_all_ranks(self) -> bool:
        """It is for the default group, of which every rank is a member."""
        return isinstance(self.group, DefaultGroup)

    @property
    def among(self) -> Group | DefaultGroup | None:
        """The group whose members must call it in the same order; None where that is not known, or where it goes on in
        the background, as those of several groups may beside each other."""
        group = self.group
        if isinstance(group, Group):
            return None if self.asynchronous else group
        return group if isinstance(group, DefaultGroup) else None

    @property
    def gathers(self) -> bool:
        """Values of all ranks come together, each for itself."""
        return self.effect.gathers

    @property
    def hands_on(self) -> bool:
        """Values of other ranks come here in place of the own ones."""
        return self.effect.hands_on

    @property
    def objects(self) -> bool:
        """What it sends is pickled first."""
        return self.effect.objects

    @property
    def waits(self) -> bool:
        """It exchanges nothing: it is called to wait for each other."""
        return self.effect.waits

    @property
    def uneven(self) -> bool:
        """Some ranks may call it without the others."""
        return self.effect.uneven and not self.spread


@dataclass(frozen=True, kw_only=True)
class Pickled(Event):
    """Objects are pickled, by a collective of objects or by hand (`call`), among them a `tensor` of a GPU."""

    call: str
    tensor: Tensor
    sent: bool = False
    """To all ranks, by this very call."""


@dataclass(frozen=True, kw_only=True)
class ResultUsed(Event):
    """The None or the handle that an in-place collective returned is used as if it were the tensor."""

    call: str
    use: str
    collective_at: Location
    asynchronous: bool = False
    target_is_argument: bool = False


@dataclass(frozen=True, kw_only=True)
class StartWork(Event):
    """A collective, or a transfer between two ranks, goes on in the background; `work` is its handle."""

    call: str
    work: Work


@dataclass(frozen=True, kw_only=True)
class WorkDone(Event):
    """Somebody waits for this work, or (None) for all that was begun before."""

    work: Work | None


@dataclass(frozen=True, kw_only=True)
class ReadTooEarly(Event):
    """The numbers of a tensor are used that unfinished `work` may still be writing."""

    work: Work
    subject: Tensor


@dataclass(frozen=True, kw_only=True)
class LeaveLoop(Event):
    """`break`, `continue`, `return` or the end of the program (`how`) inside a loop or a function that has loops."""

    how: str
    loop: Loop | None = None


def _owner_of_gradient(value: Value) -> Value | None:
    return value.batch_of.core if value.origin is TensorOrigin.GRADIENT and value.batch_of is not None else None
